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
/// would deadlock. An id that another transaction is writing is waited for, so a duplicate is known as
/// one only after the first delivery was committed. A duplicate writes nothing.
pub async fn remember(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    now: Timestamp,
    ttl: Duration,
) -> Result<HashSet<JobId>> {
    let mut fresh = insert(tx, claims, now, ttl).await?;
    if fresh.len() == claims.len() {
        return Ok(fresh);
    }
    let known = claims.iter().filter(|claim| !fresh.contains(&claim.job));
    let known: Vec<Claim<'_>> = known.copied().collect();
    if remove_expired(tx, &known, now).await? > 0 {
        fresh.extend(insert(tx, &known, now, ttl).await?);
    }
    Ok(fresh)
}

/// Deletes those of the ids that have expired, and returns how many there were.
async fn remove_expired(tx: &mut Tx, known: &[Claim<'_>], now: Timestamp) -> Result<u64> {
    let mut removed = 0;
    for of_source in known.chunk_by(|a, b| a.source == b.source) {
        let ids: Vec<String> = of_source.iter().map(|claim| claim.id.to_owned()).collect();
        let expired = tx
            .query(
                "select id from webhook_ids
                 where source = $1 and expires_at <= $2 and id in ($3..)
                 order by id
                 for update",
            )
            .bind(of_source[0].source.as_str())
            .bind(now.0)
            .bind(ids)
            .fetch_all()
            .await?;
        let expired: Vec<String> = expired
            .iter()
            .map(|row| row.get("id"))
            .collect::<Result<_>>()?;
        if expired.is_empty() {
            continue;
        }
        removed += tx
            .query("delete from webhook_ids where source = $1 and id in ($2..)")
            .bind(of_source[0].source.as_str())
            .bind(expired)
            .execute()
            .await?;
    }
    Ok(removed)
}

/// Inserts the ids that are not there yet, and returns their jobs.
async fn insert(
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
            "on conflict (source, id) do nothing returning job_id",
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
