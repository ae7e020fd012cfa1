//! How much waits in the queues, for the gauges: indexes alone are read, and of each kind of
//! jobs no more than [`MOST`] are counted, so a look costs the same however much has piled up.

use crate::events::time_of;
use crate::sql::{Db, Result};
use domain::job::Queue;
use domain::time::Timestamp;

/// Where counting ends: enough to see that it is too much. Measured with a million ready jobs of
/// seven kinds on PostgreSQL: 218 ms when all are counted up to 100,000, and 4 s while the table
/// waits to be vacuumed.
pub const MOST: i64 = 10_000;

/// What waits in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub queue: Queue,
    pub due: i64,
    /// When the one was due that has waited longest.
    pub due_since: Option<Timestamp>,
    /// Put down for later.
    pub later: i64,
    pub dead: i64,
}

/// Every queue. The kinds of what is ready are found by leaps in the index, a step a kind.
pub async fn queues(db: &Db, now: Timestamp) -> Result<Vec<Line>> {
    let mut lines = dead(db).await?;
    let rows = db
        .query(
            "with recursive kinds (queue, kind) as (
                 select queue, (select min(kind) from jobs
                                where state = 'ready' and jobs.queue = queues.queue)
                 from (select 'orders' as queue union all select 'payments'
                       union all select 'privacy') as queues
                 union all
                 select queue, (select min(kind) from jobs
                                where state = 'ready' and jobs.queue = kinds.queue
                                  and jobs.kind > kinds.kind)
                 from kinds where kind is not null
             )
             select queue,
                    (select count(*) from (
                         select 1 as one from jobs
                         where state = 'ready' and jobs.queue = kinds.queue
                           and jobs.kind = kinds.kind and run_at <= $1
                         limit $2) as ready) as due,
                    (select min(run_at) from jobs
                     where state = 'ready' and jobs.queue = kinds.queue
                       and jobs.kind = kinds.kind and run_at <= $1) as due_since,
                    (select count(*) from (
                         select 1 as one from jobs
                         where state = 'ready' and jobs.queue = kinds.queue
                           and jobs.kind = kinds.kind and run_at > $1
                         limit $2) as scheduled) as later
             from kinds where kind is not null",
        )
        .bind(now.0)
        .bind(MOST)
        .fetch_all()
        .await?;
    for row in &rows {
        let queue: String = row.get("queue")?;
        let Some(line) = lines.iter_mut().find(|line| line.queue.as_str() == queue) else {
            continue;
        };
        line.due += row.get::<i64>("due")?;
        line.later += row.get::<i64>("later")?;
        let since = row.get::<Option<i64>>("due_since")?.map(Timestamp);
        line.due_since = match (line.due_since, since) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    Ok(lines)
}

async fn dead(db: &Db) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for queue in Queue::ALL {
        let row = db
            .query(
                "select count(*) as dead from (
                     select 1 as one from jobs where state = 'dead' and queue = $1 limit $2
                 ) as jobs",
            )
            .bind(queue.as_str())
            .bind(MOST)
            .fetch_one()
            .await?;
        lines.push(Line {
            queue,
            due: 0,
            due_since: None,
            later: 0,
            dead: row.get("dead")?,
        });
    }
    Ok(lines)
}

/// The events that have not gone out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub waiting: i64,
    /// The time in the first one's id.
    pub since: Option<Timestamp>,
}

pub async fn events(db: &Db) -> Result<Waiting> {
    let first = db
        .query("select id from events where published_at is null order by id limit 1")
        .fetch_optional()
        .await?;
    let Some(first) = first else {
        return Ok(Waiting {
            waiting: 0,
            since: None,
        });
    };
    let row = db
        .query(
            "select count(*) as waiting from (
                 select 1 as one from events where published_at is null limit $1
             ) as events",
        )
        .bind(MOST)
        .fetch_one()
        .await?;
    Ok(Waiting {
        waiting: row.get("waiting")?,
        since: Some(time_of(first.get("id")?)),
    })
}
