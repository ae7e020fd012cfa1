//! The `job_attempts` table: the runs of a job that failed, or that a provider told to come later,
//! with the cause of each. `jobs.last_error` says why a job waits at this moment; this table says
//! what happened before.
//!
//! - An attempt is written in the transaction that records the failure. A job that succeeds writes
//!   nothing here, so the usual delivery costs no statement more.
//! - A run that did not ask, because its provider is left alone or because it is not yet time, is
//!   no attempt. While a job has attempts, such a run does not replace the job's last error either
//!   (`jobs::defer`), so the cause of the last failure stays visible.
//! - A run whose process died leaves no attempt, because nobody is left to write it. The job
//!   counts it (`unfinished_attempts`).
//! - The first attempt of a job and the last [`LAST`] are kept. They are deleted when the body of
//!   the done job is cut, and together with the row of the job.

use serde::Serialize;
use strum::IntoStaticStr;

use crate::sql::{Db, FromRow, Result, Tx};
use domain::job::JobId;
use domain::time::Timestamp;

/// How many of the last attempts of a job are kept, besides the first.
pub const LAST: i64 = 20;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Outcome {
    /// It failed, and the job runs again.
    Retried,
    /// It failed, and the job was given up.
    Dead,
    /// The call must be made later, and no failure is counted.
    Deferred,
    /// It failed, and the job is done: its purpose was to know that.
    Failed,
}

/// An attempt to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewAttempt<'a> {
    pub started_at: Timestamp,
    pub duration_ms: i64,
    pub outcome: Outcome,
    /// Without personal data.
    pub error: &'a str,
    /// The HTTP status of the provider's answer.
    pub status: Option<u16>,
}

/// Adds an attempt, and deletes the one that is then too many. The caller holds the lock of the
/// job's row, so numbers are given one after the other.
pub async fn add(tx: &mut Tx, job: JobId, new: &NewAttempt<'_>) -> Result<()> {
    let added = tx
        .query(
            "insert into job_attempts
                 (job_id, number, started_at, duration_ms, outcome, error, status)
             select $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5, $6
             from job_attempts where job_id = $1
             returning number",
        )
        .bind(job)
        .bind(new.started_at.0)
        .bind(new.duration_ms)
        .bind(new.outcome.into_str())
        .bind(new.error)
        .bind(new.status.map(i64::from));
    let too_old = added.fetch_one().await?.get::<i64>("number")? - LAST;
    if too_old > 1 {
        tx.query("delete from job_attempts where job_id = $1 and number = $2")
            .bind(job)
            .bind(too_old)
            .execute()
            .await?;
    }
    Ok(())
}

/// An attempt as an operator sees it.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Attempt {
    pub number: i64,
    pub started_at: Timestamp,
    pub duration_ms: i64,
    /// `retried`, `dead`, `deferred` or `failed`.
    pub outcome: String,
    pub error: String,
    /// The HTTP status of the provider's answer.
    pub status: Option<i64>,
}

/// The attempts of a job that are kept, the oldest first.
pub async fn list(db: &Db, job: JobId) -> Result<Vec<Attempt>> {
    db.query(
        "select number, started_at, duration_ms, outcome, error, status from job_attempts
         where job_id = $1 order by number",
    )
    .bind(job)
    .all(Attempt::from_row)
    .await
}

/// The attempts of several jobs, with the job of each, those of one job the oldest first.
pub async fn of_jobs(db: &Db, jobs: Vec<JobId>) -> Result<Vec<(JobId, Attempt)>> {
    db.query(
        "select job_id, number, started_at, duration_ms, outcome, error, status
         from job_attempts where job_id in ($1..) order by job_id, number",
    )
    .bind(jobs)
    .all(|row| Ok((row.get("job_id")?, Attempt::from_row(row)?)))
    .await
}

/// Deletes at most `limit` attempts of jobs that were done before `before`.
pub async fn forget(db: &Db, before: Timestamp, limit: i64) -> Result<u64> {
    // The attempts of dead jobs stay, and are passed over each time. So this is read without a
    // transaction, which on SQLite would keep all writers waiting.
    let mut jobs: Vec<JobId> = db
        .query(
            "select job_attempts.job_id as job_id, job_attempts.number as number
             from job_attempts
             join jobs on jobs.id = job_attempts.job_id
             where job_attempts.started_at < $1 and jobs.state = 'done' and jobs.finished_at < $1
             order by job_attempts.started_at
             limit $2",
        )
        .bind(before.0)
        .bind(limit)
        .all(|row| row.get("job_id"))
        .await?;
    jobs.sort_unstable();
    jobs.dedup();
    if jobs.is_empty() {
        return Ok(0);
    }
    let mut tx = db.begin().await?;
    let forgotten = delete(&mut tx, jobs).await?;
    tx.commit().await?;
    Ok(forgotten)
}

/// Deletes all attempts of these jobs.
pub async fn delete(tx: &mut Tx, jobs: Vec<JobId>) -> Result<u64> {
    tx.query("delete from job_attempts where job_id in ($1..)")
        .bind(jobs)
        .execute()
        .await
}
