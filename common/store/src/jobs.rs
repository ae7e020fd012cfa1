//! The `jobs` table: how far the work of each delivery is. Every change of a job's state is a guarded update,
//! so a job leaves `ready` only once, however many workers have its id.

pub mod arrived;
pub mod ended;
pub mod missed;
pub mod operate;
pub mod retried;
pub mod run_now;

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;

use crate::deliveries;
use crate::events::first_id;
use crate::sql::{Cell, Db, FromRow, Result, Row, Tx, column};
use crate::traces;
use domain::job::{Job, JobId, Kind, Queue, Source, State};
use domain::time::Timestamp;
use domain::trace::{self, TraceContext};

/// A job to be inserted.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub id: JobId,
    pub queue: Queue,
    pub kind: String,
    pub source: Source,
    pub shop: Option<String>,
    /// The provider's id of the delivery.
    pub external_id: Option<String>,
    /// The provider's id of the order, payment, .. that the body is about.
    pub object_id: Option<String>,
    /// The provider's id of the customer whose data the body has.
    pub subject: Option<String>,
    /// The version of the provider's API that the delivery names.
    pub api_version: Option<String>,
    /// The connection by which it came, or that the work is for. `None`: the one that the settings make.
    pub connection: Option<String>,
    pub body: Bytes,
    pub state: State,
    /// When the job is due. The time of its creation for a job that is due at once.
    pub run_at: Timestamp,
    pub notified_at: Option<Timestamp>,
    pub deadline_at: Option<Timestamp>,
    pub trace: Option<String>,
    pub traceparent: Option<TraceContext>,
    pub created_at: Timestamp,
}

impl NewJob {
    /// A job that is due at once, of which nothing more is known.
    pub fn new(
        id: JobId,
        queue: Queue,
        source: Source,
        kind: String,
        body: Bytes,
        now: Timestamp,
    ) -> Self {
        NewJob {
            id,
            queue,
            kind,
            source,
            shop: None,
            external_id: None,
            object_id: None,
            subject: None,
            api_version: None,
            connection: None,
            body,
            state: State::Ready,
            run_at: now,
            notified_at: None,
            deadline_at: None,
            trace: None,
            traceparent: None,
            created_at: now,
        }
    }

    /// The same for a kind that has a handler.
    pub fn of(kind: Kind, id: JobId, body: impl Into<Bytes>, now: Timestamp) -> Self {
        let (queue, source) = (kind.queue(), kind.row().source);
        NewJob::new(id, queue, source, kind.to_string(), body.into(), now)
    }
}

/// Inserts jobs with their deliveries.
pub async fn insert(tx: &mut Tx, jobs: &[&NewJob]) -> Result<()> {
    tx.insert("deliveries", deliveries::rows(jobs), "").await?;
    tx.insert("jobs", rows(jobs), "").await?;
    Ok(())
}

/// The row of each of these jobs.
pub(super) fn rows<'v>(jobs: &[&'v NewJob]) -> Vec<[Cell<'v>; 10]> {
    let row = |&job: &&'v NewJob| {
        [
            column("id", job.id),
            column("queue", job.queue.into_str()),
            column("kind", &job.kind),
            column("shop", &job.shop),
            column("state", job.state.into_str()),
            column("run_at", job.run_at),
            column("notified_at", job.notified_at),
            column("deadline_at", job.deadline_at),
            column("created_at", job.created_at),
            column(
                "finished_at",
                (job.state != State::Ready).then_some(job.created_at),
            ),
        ]
    };
    jobs.iter().map(row).collect()
}

/// Notes why nothing is made of a job that was inserted as done, or as dead. Nothing happens when there is no
/// such job.
pub async fn note(tx: &mut Tx, id: JobId, why: &str) -> Result<()> {
    tx.query("update jobs set last_error = $1 where state <> 'ready' and id = $2")
        .bind(why)
        .bind(id)
        .done()
        .await
}

/// How many deliveries that came since then nothing was made of, by their source. At most `most` are counted.
pub async fn noted(db: &Db, since: Timestamp, most: i64) -> Result<Vec<(String, i64)>> {
    db.query(
        "select source, count(*) as jobs
         from (select (select source from deliveries where deliveries.id = jobs.id) as source
               from jobs
               where state = 'done' and last_error is not null and discarded_at is null
                 and finished_at >= $1
               order by finished_at desc
               limit $2) as noted
         where source is not null
         group by source",
    )
    .bind(since.0)
    .bind(most)
    .all(|row| Ok((row.get("source")?, row.get("jobs")?)))
    .await
}

/// The jobs of `ids` that are ready and due, with their bodies, sorted by id. Those of a kind that this
/// version does not know are left out, and wait for a version that does.
///
/// A job that has never run counts as due even if the clocks of two hosts differ. Statements by
/// id say `not in ('done', 'dead')`, because `= 'ready'` would let PostgreSQL scan an index of
/// ready jobs instead of looking up a few ids.
pub async fn ready(db: &Db, ids: &[JobId], now: Timestamp) -> Result<Vec<Job>> {
    let found: Vec<Option<Job>> = db
        .query(
            "select jobs.id, jobs.kind, jobs.shop, connection, body, attempts, unfinished_attempts, deadline_at,
                trace, traceparent, jobs.created_at
         from jobs left join deliveries on deliveries.id = jobs.id
         where state not in ('done', 'dead') and (run_at <= $1 or run_at = jobs.created_at)
           and jobs.id in ($2..)
         order by jobs.id",
        )
        .bind(now.0)
        .bind(ids.to_vec())
        .all(read)
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// `None` for a job of a kind that this version does not know.
fn read(row: &Row) -> Result<Option<Job>> {
    let Some(kind) = Kind::named(&row.get::<String>("kind")?) else {
        return Ok(None);
    };
    Ok(Some(Job {
        id: row.get("id")?,
        kind,
        shop: row.get("shop")?,
        connection: row.get("connection")?,
        body: Bytes::from(row.get::<Option<Vec<u8>>>("body")?.unwrap_or_default()),
        attempts: row.get("attempts")?,
        unfinished_attempts: row.get("unfinished_attempts")?,
        deadline_at: row.get("deadline_at")?,
        trace: row.get("trace")?,
        traceparent: trace::stored(row.get("traceparent")?),
        created_at: row.get("created_at")?,
        run: None,
    }))
}

/// Marks jobs done and returns those that were still ready. The caller does their work in the
/// same transaction, and nobody else will do it. A job that someone else is running is skipped;
/// if that run fails, the sweep notifies workers of the job again.
pub async fn finish(tx: &mut Tx, ids: &[JobId], now: Timestamp) -> Result<Vec<JobId>> {
    tx.query(
        "update jobs
         set state = 'done', finished_at = $1, unfinished_attempts = 0, last_error = null
         where id in (
             select id from jobs
             where state not in ('done', 'dead') and id in ($2..)
             order by id
             for update skip locked
         )
         returning id",
    )
    .bind(now.0)
    .bind(ids.to_vec())
    .all(|row| row.get("id"))
    .await
}

/// Marks a job done whose call was answered, unless somebody else has claimed it since (`claim` is the
/// fencing token) or it has ended. False then.
pub async fn finish_claimed(tx: &mut Tx, id: JobId, claim: i64, now: Timestamp) -> Result<bool> {
    tx.query(
        "update jobs
         set state = 'done', finished_at = $1, unfinished_attempts = 0, last_error = null
         where state not in ('done', 'dead') and id = $2 and claims = $3",
    )
    .bind(now.0)
    .bind(id)
    .bind(claim)
    .changed_one()
    .await
}

/// Whether a job is still the one's who has this fencing token. Until the transaction ends nobody else
/// can claim it.
pub async fn has_claim(tx: &mut Tx, id: JobId, claim: i64) -> Result<bool> {
    tx.query(
        "select id from jobs
         where state not in ('done', 'dead') and id = $1 and claims = $2
         for update",
    )
    .bind(id)
    .bind(claim)
    .is_any()
    .await
}

/// Records a failed run, when the next one is due and until when the job is tried. False when the job was no longer ready.
pub async fn retry(
    tx: &mut Tx,
    id: JobId,
    attempts: i64,
    run_at: Timestamp,
    deadline: Option<Timestamp>,
    error: &str,
) -> Result<bool> {
    tx.query(
        "update jobs
         set attempts = $1, run_at = $2, deadline_at = $3, notified_at = null,
             unfinished_attempts = 0, last_error = $4
         where state not in ('done', 'dead') and id = $5",
    )
    .bind(attempts)
    .bind(run_at.0)
    .bind(deadline.map(|at| at.0))
    .bind(error)
    .bind(id)
    .changed_one()
    .await
}

/// Dead-letters a job. False when it was no longer ready.
pub async fn dead_letter(
    tx: &mut Tx,
    id: JobId,
    attempts: i64,
    now: Timestamp,
    error: &str,
) -> Result<bool> {
    tx
        .query(
            "update jobs
             set state = 'dead', attempts = $1, finished_at = $2, unfinished_attempts = 0, last_error = $3
             where state not in ('done', 'dead') and id = $4",
        )
        .bind(attempts)
        .bind(now.0)
        .bind(error)
        .bind(id)
        .changed_one().await
}

/// Makes a job ready again that was marked done in this transaction, because a part of its work
/// waits for somebody's decision.
pub async fn wait(tx: &mut Tx, id: JobId, run_at: Timestamp, why: &str) -> Result<()> {
    tx.query(
        "update jobs
         set state = 'ready', attempts = 0, unfinished_attempts = 0, run_at = $1, notified_at = null,
             finished_at = null, last_error = $2
         where id = $3",
    )
    .bind(run_at.0)
    .bind(why)
    .bind(id)
    .done()
    .await
}

/// Makes a waiting job due now. False when the job is not ready.
pub async fn wake(tx: &mut Tx, id: JobId, now: Timestamp) -> Result<bool> {
    tx.query(
        "update jobs set run_at = $1, notified_at = null, attempts = 0, unfinished_attempts = 0
         where state = 'ready' and id = $2",
    )
    .bind(now.0)
    .bind(id)
    .changed_one()
    .await
}

/// Requeues a dead job with its full number of tries. False when the job is not dead.
pub async fn requeue(tx: &mut Tx, id: JobId, now: Timestamp) -> Result<bool> {
    tx
        .query(
            "update jobs
             set state = 'ready', attempts = 0, unfinished_attempts = 0, run_at = $1, notified_at = null,
                 finished_at = null
             where state = 'dead' and id = $2",
        )
        .bind(now.0)
        .bind(id)
        .changed_one().await
}

/// Requeues a job that has ended, with its full number of tries, unless it has run again since
/// the caller saw it. So a job is requeued once for each time it ended, however many operators
/// ask for it. `notified_at` is when the caller will notify workers of the job. False when the
/// job has changed since it was seen.
pub async fn requeue_as_seen(
    tx: &mut Tx,
    job: &ended::Ended,
    now: Timestamp,
    notified_at: Option<Timestamp>,
) -> Result<bool> {
    // Its body may be cut at this moment. `deliveries::cut_bodies` locks the row of the job as well, and
    // the second statement sees what was committed before the lock was granted.
    state(tx, job.id).await?;
    tx
        .query(
            "update jobs
             set state = 'ready', attempts = 0, unfinished_attempts = 0, run_at = $1, notified_at = $2,
                 finished_at = null
             where id = $3 and state = $4 and finished_at = $5 and discarded_at is null
               and exists (select 1 from deliveries where deliveries.id = jobs.id and body is not null)",
        )
        .bind(now.0)
        .bind(notified_at.map(|at| at.0))
        .bind(job.id)
        .bind(job.state.into_str())
        .bind(job.finished_at.0)
        .changed_one().await
}

/// Discards a dead job: it becomes done, loses its body, and is never run again. False when it is
/// no longer dead, or was requeued and died again since it was seen.
pub async fn discard(tx: &mut Tx, job: &ended::Ended, now: Timestamp) -> Result<bool> {
    let discarded = tx
        .query(
            "update jobs set state = 'done', discarded_at = $1
             where id = $2 and state = 'dead' and finished_at = $3",
        )
        .bind(now.0)
        .bind(job.id)
        .bind(job.finished_at.0)
        .changed_one()
        .await?;
    if discarded {
        deliveries::forget_body(tx, job.id).await?;
    }
    Ok(discarded)
}

/// Counts a run before it starts, and returns how many runs in a row, with this one, have not
/// ended in order. `None` when the job was no longer ready.
pub async fn begin_attempt(tx: &mut Tx, id: JobId) -> Result<Option<i64>> {
    tx.query(
        "update jobs set unfinished_attempts = unfinished_attempts + 1
         where state not in ('done', 'dead') and id = $1
         returning unfinished_attempts",
    )
    .bind(id)
    .first(|row| row.get("unfinished_attempts"))
    .await
}

/// Lets a job wait whose runs have ended their process so many times in a row. Nothing happens when somebody has begun
/// it meanwhile.
pub async fn wait_after(
    db: &Db,
    id: JobId,
    unfinished_attempts: i64,
    until: Timestamp,
) -> Result<()> {
    db.transact(
        "update jobs set run_at = $1, notified_at = null
         where state not in ('done', 'dead') and unfinished_attempts = $2 and id = $3",
    )
    .bind(until.0)
    .bind(unfinished_attempts)
    .bind(id)
    .done()
    .await
}

/// Takes back what [`begin_attempt`] counted: what ended this run was the database, and its process lives. The job may run
/// at once. `unfinished_attempts` is what was returned. Nothing happens when it was not committed, or was taken back
/// before.
pub async fn take_back_attempt(
    db: &Db,
    id: JobId,
    unfinished_attempts: i64,
    now: Timestamp,
) -> Result<()> {
    db.transact(
        "update jobs
         set unfinished_attempts = unfinished_attempts - 1,
             run_at = case when run_at > $1 then $1 else run_at end
         where state not in ('done', 'dead') and unfinished_attempts = $2 and id = $3",
    )
    .bind(now.0)
    .bind(unfinished_attempts)
    .bind(id)
    .done()
    .await
}

/// A job that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub struct Claimed {
    pub id: JobId,
    /// The fencing token.
    #[column("claims")]
    pub token: i64,
    /// How many runs in a row have not ended in order, with this one.
    #[column("unfinished_attempts")]
    pub runs: i64,
}

/// Claims jobs for calls to a provider until `until`. Until then they are due for nobody else,
/// and afterwards for everybody, so a run that dies only delays its job. Each claim counts as a
/// run that has not ended in order, and has a fencing token, so that a run that was stopped for
/// longer than its claim writes nothing once another one has claimed the job.
pub async fn claim(
    tx: &mut Tx,
    ids: &[JobId],
    now: Timestamp,
    until: Timestamp,
) -> Result<Vec<Claimed>> {
    tx
        .query(
            "update jobs set run_at = $1, notified_at = null, unfinished_attempts = unfinished_attempts + 1,
                             claims = coalesce(claims, 0) + 1
             where id in (
                 select id from jobs
                 where state not in ('done', 'dead') and (run_at <= $2 or run_at = created_at)
                   and id in ($3..)
                 order by id
                 for update skip locked
             )
             returning id, claims, unfinished_attempts",
        )
        .bind(until.0)
        .bind(now.0)
        .bind(ids.to_vec())
        .all(Claimed::from_row).await
}

/// Defers those of the jobs that nobody has claimed since they were read. They were not run. The
/// last error of a job that has attempts stays, because it says why the job had to wait at all.
pub async fn defer(
    tx: &mut Tx,
    ids: &[JobId],
    now: Timestamp,
    run_at: Timestamp,
    why: &str,
) -> Result<()> {
    tx.query(
        "update jobs
         set run_at = $1, notified_at = null,
             last_error = case
                 when exists (select 1 from job_attempts where job_id = jobs.id)
                 then coalesce(last_error, $2) else $2 end
         where id in (
             select id from jobs
             where state not in ('done', 'dead') and (run_at <= $3 or run_at = created_at)
               and id in ($4..)
             order by id
             for update skip locked
         )",
    )
    .bind(run_at.0)
    .bind(why)
    .bind(now.0)
    .bind(ids.to_vec())
    .done()
    .await
}

/// Defers a job that was claimed until `claimed_until`, without counting a failure. If it has been
/// given another time since, it keeps that one. False when the job was no longer ready. `asked`
/// says that the provider was asked, so that `why` is a cause; otherwise the last error of a job
/// that has attempts stays, as in [`defer`].
pub async fn defer_claimed(
    tx: &mut Tx,
    claimed: Claimed,
    claimed_until: Timestamp,
    run_at: Timestamp,
    why: &str,
    asked: bool,
) -> Result<bool> {
    tx.query(
        "update jobs
         set run_at = case when run_at = $5 then $1 else run_at end, notified_at = null,
             unfinished_attempts = 0,
             last_error = case
                 when $3 = 0 and exists (select 1 from job_attempts where job_id = jobs.id)
                 then coalesce(last_error, $2) else $2 end
         where state not in ('done', 'dead') and id = $4 and claims = $6",
    )
    .bind(run_at.0)
    .bind(why)
    .bind(i64::from(asked))
    .bind(claimed.id)
    .bind(claimed_until.0)
    .bind(claimed.token)
    .changed_one()
    .await
}

/// Sets the time at which a waiting job runs.
pub async fn release(tx: &mut Tx, id: JobId, run_at: Timestamp) -> Result<()> {
    tx.query("update jobs set run_at = $1, notified_at = null where state = 'ready' and id = $2")
        .bind(run_at.0)
        .bind(id)
        .done()
        .await
}

/// Gives waiting jobs the full time of their retries again.
pub async fn restart(tx: &mut Tx, ids: Vec<JobId>) -> Result<()> {
    tx.query("update jobs set attempts = 0 where state = 'ready' and id in ($1..)")
        .bind(ids)
        .done()
        .await
}

/// Makes waiting jobs due at `run_at`, except those that somebody runs now.
pub async fn release_unclaimed(tx: &mut Tx, ids: Vec<JobId>, run_at: Timestamp) -> Result<()> {
    tx.query(
        "update jobs set run_at = $1, notified_at = null
         where id in (
             select id from jobs
             where state = 'ready' and unfinished_attempts = 0 and run_at > $1 and id in ($2..)
             order by id
             for update skip locked
         )",
    )
    .bind(run_at.0)
    .bind(ids)
    .done()
    .await
}

/// Clears the time of the last notification for jobs whose message did not reach the bus, so that
/// the next sweep notifies workers of them.
pub async fn clear_notified(db: &Db, ids: &[JobId]) -> Result<()> {
    db.transact(
        "update jobs set notified_at = null where state not in ('done', 'dead') and id in ($1..)",
    )
    .bind(ids.to_vec())
    .done()
    .await
}

/// Clears the times of the last notification of a whole queue, when its only process stops in
/// order.
pub async fn clear_all_notified(db: &Db, queue: Queue) -> Result<()> {
    db.transact(
        "update jobs set notified_at = null
         where queue = $1 and state = 'ready' and notified_at is not null",
    )
    .bind(queue.into_str())
    .done()
    .await
}

/// Which of these jobs are in this database and not dead.
pub async fn not_dead(db: &Db, ids: &[JobId]) -> Result<HashSet<JobId>> {
    let mut known = HashSet::new();
    for chunk in ids.chunks(500) {
        let some = db
            .query("select id from jobs where state <> 'dead' and id in ($1..)")
            .bind(chunk.to_vec());
        known.extend(some.all::<JobId, Vec<_>>(|row| row.get("id")).await?);
    }
    Ok(known)
}

/// The state of a job, which is locked. None when there is no such job.
pub async fn state(tx: &mut Tx, id: JobId) -> Result<Option<State>> {
    tx.query("select state from jobs where id = $1 for update")
        .bind(id)
        .first(|row| row.get("state"))
        .await
}

/// A statement that reads jobs with what a [`Summary`] has: found among the jobs, or among the deliveries.
macro_rules! summaries {
    (of jobs $which:literal) => {
        summaries!("jobs left join deliveries", $which)
    };
    (of deliveries $which:literal) => {
        summaries!("deliveries left join jobs", $which)
    };
    ($tables:literal, $which:literal) => {
        concat!(
            "select jobs.id, queue, jobs.kind, source, jobs.shop, external_id, object_id, api_version, connection,
                    state, attempts, run_at, last_error, trace, traceparent, jobs.created_at,
                    finished_at, discarded_at, cast(length(body) as bigint) as body_bytes
             from ",
            $tables,
            " on deliveries.id = jobs.id ",
            $which
        )
    };
}
pub(crate) use summaries;

/// A job as an operator sees it: everything but the body.
#[derive(Clone, Debug, serde::Serialize, FromRow)]
pub struct Summary {
    pub id: JobId,
    pub queue: String,
    pub kind: String,
    pub source: String,
    pub shop: Option<String>,
    #[serde(rename = "delivery_id")]
    pub external_id: Option<String>,
    pub object_id: Option<String>,
    /// The version of the provider's API that the delivery names.
    pub api_version: Option<String>,
    /// The connection by which it came, or that the work is for; null for the one that the settings make.
    pub connection: Option<String>,
    pub state: String,
    pub attempts: i64,
    pub run_at: Timestamp,
    pub last_error: Option<String>,
    pub trace: Option<String>,
    #[with(trace_id)]
    pub trace_id: String,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// When an operator discarded the job.
    pub discarded_at: Option<Timestamp>,
    pub body_bytes: Option<i64>,
}

fn trace_id(row: &Row) -> Result<String> {
    Ok(traces::trace(row)?.to_string())
}

/// How many rows one page looks through at most, so that a page costs the same however few match.
pub const LOOKED_THROUGH: i64 = 10_000;

/// Rows of a list, the newest first.
#[derive(Clone, Debug)]
pub struct Page<Row, Place> {
    pub rows: Vec<Row>,
    /// The next page begins after this place. None when there is nothing more.
    pub next: Option<Place>,
    /// The page ends because enough rows were looked through, and not because it is full.
    pub is_cut: bool,
}

impl<Row, Place> Page<Row, Place> {
    fn full(rows: Vec<Row>, place: fn(&Row) -> Place) -> Self {
        Page {
            next: rows.last().map(place),
            rows,
            is_cut: false,
        }
    }

    /// The page ends at this place, or with the last row if there is none.
    fn cut(rows: Vec<Row>, next: Option<Place>) -> Self {
        Page {
            rows,
            is_cut: next.is_some(),
            next,
        }
    }
}

/// Which jobs to list. An empty text means any.
#[derive(Clone, Debug)]
pub struct Filter {
    pub queue: String,
    pub state: String,
    /// `*` stands for any text. Upper and lower case count as the same.
    pub kind: String,
    pub shop: String,
    /// The connection by which it came, or that the work is for. `default` is the one that the settings make.
    pub connection: String,
    /// The provider's id of the order, payment, .. that the job is about.
    pub object_id: String,
    /// Only jobs that arrived at this time or later.
    pub since: Timestamp,
    /// Only jobs that arrived before this time.
    pub before: Timestamp,
    /// Only jobs that come after this one in the list: the cursor.
    pub after: JobId,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            queue: String::new(),
            state: String::new(),
            kind: String::new(),
            shop: String::new(),
            connection: String::new(),
            object_id: String::new(),
            since: Timestamp(0),
            before: Timestamp(i64::MAX),
            after: JobId::max(),
        }
    }
}

/// By how much the time in a job's id may differ from `created_at`.
const APART: Duration = Duration::from_mins(10);

/// The newest jobs that match, the newest first. Ids begin with their time, so a page is a range
/// of the primary key, or of the index by object, and the last id of a page is the cursor of the
/// next page. Jobs that arrive meanwhile come before the first page and move no other.
pub async fn list(db: &Db, filter: &Filter, limit: i64) -> Result<Vec<Summary>> {
    let all = || {
        db.query(summaries!(of jobs
            "where ($1 = '' or queue = $1) and ($2 = '' or state = $2)
               and ($3 = '' or lower(jobs.kind) like $3 escape '!')
               and ($4 = '' or jobs.shop = $4) and jobs.created_at >= $5 and jobs.created_at < $6
               and jobs.id >= $7 and jobs.id < $8 and ($10 = '' or coalesce(connection, 'default') = $10)
             order by jobs.id desc
             limit $9"
        ))
    };
    let of_object = || {
        db.query(summaries!(of deliveries
            "where ($1 = '' or queue = $1) and ($2 = '' or state = $2)
               and ($3 = '' or lower(deliveries.kind) like $3 escape '!')
               and ($4 = '' or deliveries.shop = $4)
               and deliveries.created_at >= $5 and deliveries.created_at < $6
               and deliveries.id >= $7 and deliveries.id < $8
               and ($10 = '' or coalesce(connection, 'default') = $10) and object_id = $11
             order by object_id desc, deliveries.id desc
             limit $9"
        ))
    };
    let query = match filter.object_id.as_str() {
        "" => all(),
        _ => of_object(),
    };
    let end = match filter.before.0 {
        i64::MAX => JobId::max(),
        _ => first_id(filter.before.plus(APART)),
    };
    let query = query
        .bind(filter.queue.as_str())
        .bind(filter.state.as_str())
        .bind(ended::pattern(&filter.kind))
        .bind(filter.shop.as_str())
        .bind(filter.since.0)
        .bind(filter.before.0)
        .bind(first_id(filter.since.minus(APART)))
        .bind(end.min(filter.after))
        .bind(limit)
        .bind(filter.connection.as_str());
    let query = match filter.object_id.as_str() {
        "" => query,
        object_id => query.bind(object_id),
    };
    query.all(Summary::from_row).await
}

/// The newest jobs that are about an object of this shop, at most `limit`, the newest first. The
/// empty shop means the jobs whose delivery named none.
pub async fn of_object(db: &Db, shop: &str, object_id: &str, limit: i64) -> Result<Vec<Summary>> {
    db.query(summaries!(of deliveries
        "where object_id = $1 and coalesce(deliveries.shop, '') = $2
             order by object_id desc, deliveries.id desc
             limit $3"
    ))
    .bind(object_id)
    .bind(shop)
    .bind(limit)
    .all(Summary::from_row)
    .await
}

pub async fn show(db: &Db, id: JobId) -> Result<Option<Summary>> {
    db.query(summaries!(of jobs "where jobs.id = $1"))
        .bind(id)
        .first(Summary::from_row)
        .await
}

pub async fn is_any_dead(db: &Db) -> Result<bool> {
    db.query("select 1 as one from jobs where state = 'dead' limit 1")
        .is_any()
        .await
}

/// How many jobs of a queue are in a state. It reads all jobs, so only tests ask.
pub async fn count(db: &Db, queue: Queue, state: State) -> Result<i64> {
    let counted = db
        .query("select count(*) as jobs from jobs where queue = $1 and state = $2")
        .bind(queue.into_str())
        .bind(state.into_str());
    counted.fetch_one().await?.get("jobs")
}
