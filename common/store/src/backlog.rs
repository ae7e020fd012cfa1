//! How much work waits in the queues, for the gauges. At most [`MOST`]
//! jobs of each kind are read, so the query costs the same however much has piled up.

use std::time::Duration;

use crate::broker;
use crate::sql::{Db, Result};
use domain::endpoint::State;
use domain::job::Queue;
use domain::time::Timestamp;

/// The number at which counting stops; it is large enough to show that too much waits. Measured
/// with a million ready jobs of seven kinds on PostgreSQL: counting all of them up to 100,000
/// takes 218 ms, and 4 s while the table waits to be vacuumed.
pub const MOST: i64 = 10_000;

/// How long a job that is due waits at most when enough workers run.
pub const LONG: Duration = Duration::from_mins(1);

/// What waits in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub queue: Queue,
    pub due: i64,
    /// When the job that has waited longest became due.
    pub due_since: Option<Timestamp>,
    /// Jobs that are ready and not due yet.
    pub later: i64,
    pub dead: i64,
}

/// What waits in every queue: jobs of which workers are still to be notified, whose kinds are found by
/// jumps in an index, one for each kind, and those of which they were notified.
pub async fn queues(db: &Db, now: Timestamp) -> Result<Vec<Line>> {
    let mut lines = dead(db).await?;
    let rows = db
        .query(
            "with recursive queues (queue) as (
                 select 'orders' union all select 'payments' union all select 'privacy'
                 union all select 'endpoints'
             ),
             kinds (queue, kind) as (
                 select queue, (select kind from jobs
                                where state = 'ready' and notified_at is null and attempts >= 0
                                  and jobs.queue = queues.queue
                                order by kind limit 1)
                 from queues
                 union all
                 select queue, (select jobs.kind from jobs
                                where state = 'ready' and notified_at is null and attempts >= 0
                                  and jobs.queue = kinds.queue and jobs.kind > kinds.kind
                                order by jobs.kind limit 1)
                 from kinds where kind is not null
             )
             select queue,
                    (select count(*) from (
                         select 1 as one from jobs
                         where state = 'ready' and notified_at is null and run_at >= 0
                           and jobs.queue = kinds.queue and jobs.kind = kinds.kind and run_at <= $1
                         limit $2) as ready) as due,
                    (select run_at from jobs
                     where state = 'ready' and notified_at is null and run_at >= 0
                       and jobs.queue = kinds.queue and jobs.kind = kinds.kind and run_at <= $1
                     order by run_at limit 1) as due_since,
                    (select count(*) from (
                         select 1 as one from jobs
                         where state = 'ready' and notified_at is null and run_at >= 0
                           and jobs.queue = kinds.queue and jobs.kind = kinds.kind and run_at > $1
                         limit $2) as scheduled) as later
             from kinds where kind is not null
             union all
             select queue,
                    (select count(*) from (
                         select 1 as one from jobs
                         where state = 'ready' and notified_at is not null
                           and jobs.queue = queues.queue
                         limit $2) as notified),
                    (select min(run_at) from (
                         select run_at from jobs
                         where state = 'ready' and notified_at is not null
                           and jobs.queue = queues.queue
                         order by notified_at
                         limit $2) as notified),
                    0
             from queues",
        )
        .bind(now.0)
        .bind(MOST)
        .fetch_all()
        .await?;
    for row in &rows {
        let queue: String = row.get("queue")?;
        let Some(line) = lines.iter_mut().find(|line| line.queue.into_str() == queue) else {
            continue;
        };
        line.due += row.get::<i64>("due")?;
        line.later += row.get::<i64>("later")?;
        let since = row.get("due_since")?;
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
                 ) as counted",
            )
            .bind(queue.into_str())
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

/// The events that the broker does not have yet. None waits for one that an operator has paused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub waiting: i64,
    /// When the first of them happened.
    pub since: Option<Timestamp>,
}

pub async fn events(db: &Db) -> Result<Waiting> {
    let broker = broker::find(db).await?;
    let Some(broker) = broker.filter(|it| it.state == State::Active) else {
        return Ok(Waiting::default());
    };
    let row = db
        .query(
            "select (select created_at from events where position > $1 order by position limit 1) as since,
                    (select count(*) from (
                         select 1 as one from events where position > $1 limit $2
                     ) as counted) as waiting",
        )
        .bind(broker.position)
        .bind(MOST)
        .fetch_one()
        .await?;
    Ok(Waiting {
        waiting: row.get("waiting")?,
        since: row.get("since")?,
    })
}
