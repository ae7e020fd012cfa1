//! The ready jobs of which workers are still to be notified, and those whose notification was lost. What
//! the statements of this module cost does not depend on how many jobs wait. Each of them says by a
//! condition that is always true which index it is made for (migrations/0001_initial.sql).

use std::collections::{HashMap, HashSet};

use crate::sql::{Db, FromRow, Result, Row, Tx};
use domain::job::{JobId, Queue};
use domain::time::Timestamp;
use domain::trace::{self, TraceContext};

/// How many shops have a turn at a time, and how many jobs of each are taken in a turn.
const SHOPS: i64 = 64;
const OF_A_SHOP: i64 = 8;

/// A job of which workers are notified.
#[derive(Debug, FromRow)]
pub struct DueJob {
    pub id: JobId,
    pub kind: String,
    /// When workers were notified of the job the last time before this one.
    pub notified_at: Option<Timestamp>,
    #[with(traceparent)]
    pub traceparent: Option<TraceContext>,
}

/// What a look at a queue finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The kinds of the jobs that wait for their notification and are due.
    pub kinds: Vec<String>,
    /// When workers were notified of the ready jobs: the first and the last time. `None` when there is no such job.
    pub notified: Option<(Timestamp, Timestamp)>,
}

/// Looks whether there is anything to notify workers of. The kinds are found by jumps in an index, one for each kind.
pub async fn look(db: &Db, queue: Queue, now: Timestamp) -> Result<Look> {
    let rows = db
        .query(
            "with recursive kinds (kind) as (
                 select (select kind from jobs
                         where state = 'ready' and notified_at is null and attempts >= 0
                           and queue = $1
                         order by kind limit 1)
                 union all
                 select (select jobs.kind from jobs
                         where state = 'ready' and notified_at is null and attempts >= 0
                           and queue = $1 and jobs.kind > kinds.kind
                         order by jobs.kind limit 1)
                 from kinds where kind is not null
             )
             select kind, cast(null as bigint) as first, cast(null as bigint) as last from kinds
             where (select 1 from jobs
                    where state = 'ready' and notified_at is null and run_at >= 0
                      and queue = $1 and jobs.kind = kinds.kind and run_at <= $2
                    order by run_at limit 1) = 1
             union all
             select null,
                    (select notified_at from jobs
                     where state = 'ready' and notified_at is not null and queue = $1
                     order by notified_at limit 1),
                    (select notified_at from jobs
                     where state = 'ready' and notified_at is not null and queue = $1
                     order by notified_at desc limit 1)",
        )
        .bind(queue.into_str())
        .bind(now.0)
        .fetch_all()
        .await?;
    let mut look = Look::default();
    for row in &rows {
        if let Some(kind) = row.get("kind")? {
            look.kinds.push(kind);
            continue;
        }
        let (first, last): (Option<i64>, Option<i64>) = (row.get("first")?, row.get("last")?);
        look.notified = first
            .zip(last)
            .map(|(first, last)| (Timestamp(first), Timestamp(last)));
    }
    Ok(look)
}

/// Takes due jobs of a kind that wait for their notification, at most `limit`, and marks them as
/// notified at `now`. If there are more, most of them are taken by turns of the shops, so that the jobs
/// of one shop do not have to wait until all jobs of another are done; the others are the oldest.
/// `turn` is the shop that had the last turn, and is moved on.
pub async fn take(
    tx: &mut Tx,
    queue: Queue,
    kind: &str,
    turn: &mut String,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<DueJob>> {
    let mut ids = oldest(tx, queue, kind, now, limit + 1).await?;
    if ids.len() > limit {
        let by_turns = by_turns(tx, queue, kind, turn, now, limit - limit / 4).await?;
        let taken: HashSet<JobId> = by_turns.iter().copied().collect();
        ids.retain(|id| !taken.contains(id));
        ids.splice(0..0, by_turns);
        ids.truncate(limit);
    } else {
        turn.clear();
    }
    mark(tx, &ids, now).await
}

async fn oldest(
    tx: &mut Tx,
    queue: Queue,
    kind: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<JobId>> {
    tx.query(
        "select id from jobs
         where state = 'ready' and notified_at is null and run_at >= 0
           and queue = $1 and kind = $2 and run_at <= $3
         order by run_at
         limit $4",
    )
    .bind(queue.into_str())
    .bind(kind)
    .bind(now.0)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .all(|row| row.get("id"))
    .await
}

/// The oldest jobs of each of the shops that come after `turn`, and of those without a shop: the first
/// of each, then the second of each, and so on, at most `limit`. Moves `turn` on to the last shop of
/// which a job is among them.
async fn by_turns(
    tx: &mut Tx,
    queue: Queue,
    kind: &str,
    turn: &mut String,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<JobId>> {
    let most = SHOPS.min(i64::try_from(limit).unwrap_or(i64::MAX));
    // The shops are found by jumps in an index, and so is the next job of each of them.
    let rows = tx
        .query(
            "with recursive shops (name, n) as (
                 select (select coalesce(shop, '') from jobs
                         where state = 'ready' and notified_at is null and attempts >= 0
                           and queue = $1 and kind = $2 and coalesce(shop, '') > $3
                         order by coalesce(shop, '') limit 1), 1
                 union all
                 select (select coalesce(shop, '') from jobs
                         where state = 'ready' and notified_at is null and attempts >= 0
                           and queue = $1 and kind = $2 and coalesce(shop, '') > shops.name
                         order by coalesce(shop, '') limit 1), n + 1
                 from shops where name is not null and n < $5
             ),
             turns (name, nth) as (
                 select name, n from shops where name is not null union all select '', 0
             ),
             walk (name, nth, id, n) as (
                 select name, nth,
                        (select id from jobs
                         where state = 'ready' and notified_at is null and attempts >= 0
                           and queue = $1 and kind = $2 and coalesce(shop, '') = turns.name
                           and run_at <= $4
                         order by run_at, id limit 1), 1
                 from turns
                 union all
                 select walk.name, walk.nth,
                        (select jobs.id from jobs
                         where state = 'ready' and notified_at is null and attempts >= 0
                           and queue = $1 and kind = $2 and coalesce(shop, '') = walk.name
                           and run_at <= $4
                           and (run_at, jobs.id) > (
                               (select run_at from jobs as last where last.id = walk.id), walk.id)
                         order by run_at, jobs.id limit 1), walk.n + 1
                 from walk where walk.id is not null and walk.n < $6
             )
             select name, nth, id from walk order by n, nth",
        )
        .bind(queue.into_str())
        .bind(kind)
        .bind(turn.as_str())
        .bind(now.0)
        .bind(most)
        .bind(OF_A_SHOP)
        .fetch_all()
        .await?;
    let mut places = Vec::with_capacity(rows.len());
    for row in &rows {
        places.push(row.get::<i64>("nth")?);
    }
    let seen = places.iter().copied().max().unwrap_or_default();
    let mut ids = Vec::with_capacity(limit);
    let (mut served, mut last) = (0, None);
    for (row, nth) in rows.iter().zip(places) {
        let id: Option<JobId> = row.get("id")?;
        if id.is_some() && ids.len() == limit {
            break;
        }
        ids.extend(id);
        if nth > served {
            (served, last) = (nth, Some(row));
        }
    }
    // After the last shop of all the first one has its turn.
    let is_round = seen < most && served == seen;
    *turn = match last {
        Some(last) if !is_round => last.get("name")?,
        _ => String::new(),
    };
    Ok(ids)
}

/// Marks jobs as notified at `now`. Those that another process has marked or claimed meanwhile are left
/// out.
async fn mark(tx: &mut Tx, ids: &[JobId], now: Timestamp) -> Result<Vec<DueJob>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // Two statements: as one, PostgreSQL joins the rows that are locked with all that the table has.
    let locked: Vec<DueJob> = tx
        .query(
            "select id, kind, notified_at,
                    (select traceparent from deliveries where deliveries.id = jobs.id) as traceparent
             from jobs
             where state = 'ready' and notified_at is null and run_at <= $1 and id in ($2..)
             order by id
             for update skip locked",
        )
        .bind(now.0)
        .bind(ids.to_vec())
        .all(DueJob::from_row)
        .await?;
    set_notified(tx, &locked, now).await?;
    let mut due: HashMap<JobId, DueJob> = locked.into_iter().map(|job| (job.id, job)).collect();
    Ok(ids.iter().filter_map(|id| due.remove(id)).collect())
}

/// Takes due jobs of which workers were notified before `before`, or later than `future` by a clock that
/// was wrong, at most `limit`, and marks them as notified at `now`.
pub async fn take_lost(
    tx: &mut Tx,
    queue: Queue,
    before: Timestamp,
    future: Timestamp,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DueJob>> {
    let lost: Vec<DueJob> = tx
        .query(
            "select id, kind, notified_at,
                    (select traceparent from deliveries where deliveries.id = jobs.id) as traceparent
             from jobs
             where state = 'ready' and notified_at is not null and queue = $1
               and (notified_at < $2 or notified_at > $3) and run_at <= $2
             order by notified_at
             limit $4
             for update skip locked",
        )
        .bind(queue.into_str())
        .bind(before.0)
        .bind(future.0)
        .bind(limit)
        .all(DueJob::from_row)
        .await?;
    set_notified(tx, &lost, now).await?;
    Ok(lost)
}

/// Marks jobs that are locked as notified at `now`.
async fn set_notified(tx: &mut Tx, locked: &[DueJob], now: Timestamp) -> Result<()> {
    if locked.is_empty() {
        return Ok(());
    }
    let ids: Vec<JobId> = locked.iter().map(|job| job.id).collect();
    let marked = tx.query("update jobs set notified_at = $1 where id in ($2..)");
    marked.bind(now.0).bind(ids).done().await
}

fn traceparent(row: &Row) -> Result<Option<TraceContext>> {
    Ok(trace::stored(row.get("traceparent")?))
}
