//! The `webhook_ids` table: the ids of accepted deliveries. The primary key decides which of two
//! deliveries with one id is the first, however many replicas they arrive at.
//!
//! An id is remembered as a hash of 16 bytes, because at a hundred million of them the table and its
//! index are twice as large with the ids themselves. Nobody has made two texts with the same 16
//! bytes of SHA-256 by searching less than some 2^64 of them, and only who has the secret of a
//! provider can have one accepted.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::sql::{Db, Result, Tx, column};
use domain::job::{JobId, Source};
use domain::time::Timestamp;

/// The id of a delivery, as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeliveryId(Uuid);

impl DeliveryId {
    /// `id` is the provider's; two sources may have the same one.
    pub fn new(source: Source, id: &str) -> Self {
        let hash = Sha256::new()
            .chain_update(source.into_str())
            .chain_update(":");
        let hash = hash.chain_update(id).finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&hash[..16]);
        DeliveryId(Uuid::from_bytes(first))
    }
}

impl From<DeliveryId> for Uuid {
    fn from(id: DeliveryId) -> Uuid {
        id.0
    }
}

/// The id of a delivery, and the job that the delivery becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub id: DeliveryId,
    pub job: JobId,
}

/// Remembers ids for `ttl`, and returns the jobs whose id was new or had expired.
///
/// `claims` must be sorted and must have each id only once: unsorted batches of two replicas
/// would deadlock. An id that another transaction is writing is waited for, so a duplicate is known as
/// one only after the first delivery was committed. A duplicate writes nothing.
pub async fn remember(
    tx: &mut Tx,
    claims: &[Claim],
    now: Timestamp,
    ttl: Duration,
) -> Result<HashSet<JobId>> {
    // Deadlocks are rare, and a batch that one has ended is written again, so tests would notice them only by luck.
    debug_assert!(claims.is_sorted(), "the ids of a batch are sorted");
    let mut fresh = insert(tx, claims, now, ttl).await?;
    if fresh.len() == claims.len() {
        return Ok(fresh);
    }
    let known = claims.iter().filter(|claim| !fresh.contains(&claim.job));
    let known: Vec<Claim> = known.copied().collect();
    if remove_expired(tx, &known, now).await? {
        fresh.extend(insert(tx, &known, now, ttl).await?);
    }
    Ok(fresh)
}

/// Deletes those of the ids that have expired. True if there were any.
async fn remove_expired(tx: &mut Tx, known: &[Claim], now: Timestamp) -> Result<bool> {
    let ids: Vec<Uuid> = known.iter().map(|claim| claim.id.0).collect();
    let expired: Vec<Uuid> = tx
        .query(
            "select id from webhook_ids
             where expires_at <= $1 and id in ($2..)
             order by id
             for update",
        )
        .bind(now.0)
        .bind(ids)
        .all(|row| row.get("id"))
        .await?;
    if expired.is_empty() {
        return Ok(false);
    }
    delete(tx, expired).await?;
    Ok(true)
}

async fn delete(tx: &mut Tx, ids: Vec<Uuid>) -> Result<u64> {
    tx.query("delete from webhook_ids where id in ($1..)")
        .bind(ids)
        .execute()
        .await
}

/// Inserts the ids that are not there yet, and returns their jobs.
async fn insert(
    tx: &mut Tx,
    claims: &[Claim],
    now: Timestamp,
    ttl: Duration,
) -> Result<HashSet<JobId>> {
    let rows = claims.iter().map(|claim| {
        [
            column("id", claim.id.0),
            column("job_id", claim.job),
            column("expires_at", now.plus(ttl)),
        ]
    });
    let rows = tx
        .insert(
            "webhook_ids",
            rows.collect(),
            "on conflict (id) do nothing returning job_id",
        )
        .await?;
    rows.iter().map(|row| row.get("job_id")).collect()
}

/// The job that a delivery with this id became.
pub async fn job(db: &Db, id: DeliveryId) -> Result<Option<JobId>> {
    db.query("select job_id from webhook_ids where id = $1")
        .bind(id.0)
        .first(|row| row.get("job_id"))
        .await
}

/// Deletes these ids of deliveries, whose jobs these are. An id that another job has taken over
/// in the meantime stays.
pub async fn forget(tx: &mut Tx, ids: Vec<DeliveryId>, jobs: &BTreeSet<JobId>) -> Result<u64> {
    let known: Vec<(Uuid, JobId)> = tx
        .query("select id, job_id from webhook_ids where id in ($1..) order by id for update")
        .bind(ids.into_iter().map(Uuid::from).collect::<Vec<_>>())
        .all(|row| Ok((row.get("id")?, row.get("job_id")?)))
        .await?;
    let theirs = known.into_iter().filter(|(_, job)| jobs.contains(job));
    delete(tx, theirs.map(|(id, _)| id).collect()).await
}

/// Deletes at most `limit` ids that expired before `now`.
pub async fn forget_expired(db: &Db, now: Timestamp, limit: i64) -> Result<u64> {
    db.transact(
        "delete from webhook_ids
         where id in (
             select id from webhook_ids
             where expires_at <= $1
             order by expires_at
             limit $2
             for update skip locked
         )",
    )
    .bind(now.0)
    .bind(limit)
    .execute()
    .await
}
