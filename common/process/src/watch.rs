//! Gauges of what all processes share: the queues, the events, and this process' connection to
//! the database. They are updated at intervals and not by a scrape, because we do not decide how
//! often somebody scrapes.
//!
//! Every process updates them, so they can be seen even when no worker runs. The numbers are the
//! same in every process, so a query uses `max by (queue)` and not `sum`.

use std::time::Duration;

use metrics::gauge;
use tokio::time::Instant;

use crate::Parts;
use config::Outlet;
use domain::time::Timestamp;
use platform::task;
use store::sql::{self, Access, Error};
use store::{backlog, endpoints};

const PAUSE: Duration = Duration::from_secs(10);
/// The pause after an update is at least this many times as long as the update took, so a
/// connection is busy with updates for a twentieth of the time at most.
const SHARE: u32 = 20;

/// Starts updating the gauges. It ends when the database's pool is closed.
pub(crate) fn watch(parts: &Parts) {
    let parts = parts.clone();
    task::spawn("gauges", async move {
        loop {
            let begun = Instant::now();
            match look(&parts).await {
                Err(Error::PoolClosed) => return,
                looked => {
                    let is_up = matches!(looked, Ok(Access::Writes));
                    gauge!("waybill_database_up").set(if is_up { 1.0 } else { 0.0 });
                }
            }
            tokio::time::sleep(PAUSE.max(begun.elapsed() * SHARE)).await;
        }
    });
}

async fn look(parts: &Parts) -> sql::Result<Access> {
    let db = &parts.db;
    let connections = db.connections();
    gauge!("waybill_database_connections", "state" => "used").set(f64::from(connections.used));
    gauge!("waybill_database_connections", "state" => "idle").set(f64::from(connections.idle));
    gauge!("waybill_database_connections_max").set(f64::from(connections.most));
    let now = parts.clock.now();
    let lines = backlog::queues(db, now).await?;
    parts.measures.queues(&lines, now);
    for line in lines {
        let queue = line.queue.into_str();
        gauge!("waybill_queue_ready_jobs", "queue" => queue).set(number(line.due));
        gauge!("waybill_queue_scheduled_jobs", "queue" => queue).set(number(line.later));
        gauge!("waybill_queue_dead_jobs", "queue" => queue).set(number(line.dead));
        gauge!("waybill_queue_oldest_ready_seconds", "queue" => queue)
            .set(age(line.due_since, now));
    }
    let events = match parts.config.outlet() {
        Outlet::Broker => backlog::events(db).await?,
        Outlet::Database => backlog::Waiting::default(),
    };
    gauge!("waybill_events_waiting").set(number(events.waiting));
    gauge!("waybill_events_oldest_waiting_seconds").set(age(events.since, now));
    let held_back = db.events_held_back().await?.map(|held| held.age);
    gauge!("waybill_events_held_back_seconds").set(held_back.unwrap_or_default().as_secs_f64());
    for (state, count) in endpoints::states(db).await? {
        gauge!("waybill_endpoints", "state" => state.into_str()).set(number(count));
    }
    gauge!("waybill_webhooks_behind_events").set(number(endpoints::behind(db).await?));
    db.access().await
}

fn age(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map_or(0.0, |since| now.since(since).as_secs_f64())
}

fn number(count: i64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
