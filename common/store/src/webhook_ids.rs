//! The `webhook_ids` table: the ids of accepted deliveries. The primary key decides which of two
//! deliveries with one id is the first, however many replicas they arrive at.

use std::collections::HashSet;
use std::time::Duration;

use crate::sql::{Db, Result, Tx, column};
use domain::job::{JobId, Source};
use domain::time::Timestamp;

/// The id of a delivery, and the job that the delivery becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim<'a> {
    pub source: Source,
    pub id: &'a str,
    pub job: JobId,
}

/// Remembers ids for `ttl`, and returns the jobs whose id was new or had expired.
///
/// `claims` must be sorted and must have each id only once: unsorted batches of two replicas
/// would deadlock, and PostgreSQL refuses to change a row twice in one statement.
pub async fn remember(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    now: Timestamp,
    ttl: Duration,
) -> Result<HashSet<JobId>> {
    let expires_at = now.plus(ttl).0;
    let columns = [
        column("source", claims.iter().map(|claim| claim.source.as_str())),
        column("id", claims.iter().map(|claim| claim.id)),
        column("job_id", claims.iter().map(|claim| claim.job)),
        column("remembered_at", claims.iter().map(|_| now.0)),
        column("expires_at", claims.iter().map(|_| expires_at)),
    ];
    let rows = tx
        .insert(
            "webhook_ids",
            &columns,
            "on conflict (source, id) do update
             set job_id = excluded.job_id,
                 remembered_at = excluded.remembered_at,
                 expires_at = excluded.expires_at
             where webhook_ids.expires_at <= excluded.remembered_at
             returning job_id",
        )
        .await?;
    rows.iter().map(|row| row.get("job_id")).collect()
}

/// The job that a delivery with this id became.
pub async fn job(db: &Db, source: Source, id: &str) -> Result<Option<JobId>> {
    let row = db
        .query("select job_id from webhook_ids where source = $1 and id = $2")
        .bind(source.as_str())
        .bind(id)
        .fetch_optional()
        .await?;
    row.map(|row| row.get("job_id")).transpose()
}

/// Deletes at most `limit` ids that expired before `now`.
pub async fn forget_expired(db: &Db, now: Timestamp, limit: i64) -> Result<u64> {
    let mut tx = db.begin().await?;
    let forgotten = tx
        .query(
            "delete from webhook_ids
             where (source, id) in (
                 select source, id from webhook_ids
                 where expires_at <= $1
                 order by expires_at
                 limit $2
                 for update skip locked
             )",
        )
        .bind(now.0)
        .bind(limit)
        .execute()
        .await?;
    tx.commit().await?;
    Ok(forgotten)
}
