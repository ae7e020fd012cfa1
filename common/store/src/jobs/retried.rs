//! Jobs that have failed lately and wait to be tried again: by cause, and one by one. They are found by their
//! attempts, so jobs that wait for another reason cost nothing.

use super::ended::{Group, merged, pattern};
use super::{LOOKED_THROUGH, Page};
use crate::sql::{Db, FromRow, Result};
use domain::job::JobId;
use domain::time::Timestamp;

/// Why the jobs that are tried again failed since then, and whether there are more attempts than were read: at
/// most `most`, the newest. A job counts once, with its last attempt.
pub async fn causes(db: &Db, since: Timestamp, most: i64) -> Result<(Vec<Group>, bool)> {
    let groups = db
        .query(
            "select jobs.kind as kind, newest.error as error, count(*) as jobs,
                    min(newest.started_at) as first, max(newest.started_at) as last
             from (select job_id, number, error, started_at from job_attempts
                   where started_at >= $1
                   order by started_at desc
                   limit $2) as newest
             join jobs on jobs.id = newest.job_id
             where jobs.state = 'ready'
               and not exists (select 1 from job_attempts as later
                               where later.job_id = newest.job_id and later.number > newest.number)
             group by jobs.kind, newest.error
             order by 1, 2",
        )
        .bind(since.0)
        .bind(most)
        .all(Group::from_row)
        .await?;
    let is_cut = end(db, since, NEWEST, most).await?.is_some();
    Ok((merged(groups), is_cut))
}

/// Before every attempt.
const NEWEST: (Timestamp, JobId) = (Timestamp(i64::MAX), JobId::max());

/// The last of so many attempts, if there are so many.
async fn end(
    db: &Db,
    since: Timestamp,
    (at, job): (Timestamp, JobId),
    most: i64,
) -> Result<Option<(Timestamp, JobId)>> {
    db.query(
        "select started_at, job_id from job_attempts
         where started_at >= $1 and started_at <= $2 and (started_at < $2 or job_id < $3)
         order by started_at desc, job_id desc limit 1 offset $4",
    )
    .bind(since.0)
    .bind(at.0)
    .bind(job)
    .bind(most - 1)
    .first(|row| Ok((row.get("started_at")?, row.get("job_id")?)))
    .await
}

/// A job that has failed and is tried again, with its last attempt.
#[derive(Clone, Debug, serde::Serialize, FromRow)]
pub struct Failing {
    #[column("id")]
    pub job: JobId,
    pub kind: String,
    pub shop: Option<String>,
    /// The provider's id of the order, payment, .. that it is about.
    pub object_id: Option<String>,
    /// How many tries it had.
    pub attempts: i64,
    /// When it is tried again.
    pub run_at: Timestamp,
    #[column("started_at")]
    pub failed_at: Timestamp,
    pub error: String,
    /// The HTTP status of the provider's answer, if there was one.
    pub status: Option<i64>,
}

/// The jobs whose last attempt was made since then and failed, and which are tried again. An empty `kind` means
/// any, and `*` stands for any text. Those that failed last come first, and `after` is the last attempt of the
/// page before: its time, and its job.
pub async fn page(
    db: &Db,
    since: Timestamp,
    kind: &str,
    after: Option<(Timestamp, JobId)>,
    limit: usize,
) -> Result<Page<Failing, (Timestamp, JobId)>> {
    let begin = after.unwrap_or(NEWEST);
    let jobs: Vec<Failing> = db
        .query(
            "select jobs.id, jobs.kind, jobs.shop, jobs.attempts, jobs.run_at,
                    (select object_id from deliveries where deliveries.id = jobs.id) as object_id,
                    newest.started_at, newest.error, newest.status
             from (select job_id, number, started_at, error, status from job_attempts
                   where started_at >= $1 and started_at <= $2 and (started_at < $2 or job_id < $3)
                   order by started_at desc, job_id desc
                   limit $4) as newest
             join jobs on jobs.id = newest.job_id
             where jobs.state = 'ready' and ($5 = '' or lower(jobs.kind) like $5 escape '!')
               and not exists (select 1 from job_attempts as later
                               where later.job_id = newest.job_id and later.number > newest.number)
             order by newest.started_at desc, jobs.id desc
             limit $6",
        )
        .bind(since.0)
        .bind(begin.0.0)
        .bind(begin.1)
        .bind(LOOKED_THROUGH)
        .bind(pattern(kind))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .all(Failing::from_row)
        .await?;
    if jobs.len() == limit {
        return Ok(Page::full(jobs, |it| (it.failed_at, it.job)));
    }
    let next = end(db, since, begin, LOOKED_THROUGH).await?;
    Ok(Page::cut(jobs, next))
}
