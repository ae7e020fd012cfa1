//! The `webhook_ids` table: the ids of accepted deliveries. The primary key decides which of two
//! deliveries with one id is the first, however many replicas they arrive at.
//!
//! An id is remembered as 16 bytes of hashes, because at a hundred million of them the table and its
//! index are twice as large with the ids themselves. The first half is of the id, so that it can be found without
//! its shop, and the second of its shop too. Nobody has made two texts with the same 16
//! bytes of SHA-256 by searching less than some 2^64 of them, and only who has the secret of a
//! provider can have one accepted.
//!
//! Where a provider does not sign the id, anybody who has captured a delivery can send its body under the id of another
//! one. So a part of the hash of the body stands beside such an id, and a delivery whose body is another than that of the
//! first one is told from a repetition.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::deliveries;
use crate::jobs::NewJob;
use crate::sql::{Cell, Db, Result, Row, Rows, Tx, column};
use domain::job::{JobId, Source};
use domain::time::Timestamp;

/// The id of a delivery, as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(Uuid);

impl DeliveryId {
    /// `id` is the provider's; two sources, two shops, and two connections with a payment provider may have the same
    /// one. `sender` is the shop or that connection.
    pub fn new(source: Source, sender: Option<&str>, id: &str) -> Self {
        let of_shop = Sha256::new()
            .chain_update(sender.unwrap_or_default())
            .chain_update(":")
            .chain_update(id)
            .finalize();
        DeliveryId(Uuid::from_u64_pair(
            of_any_shop(source, id),
            first_half(of_shop.into()),
        ))
    }
}

/// What the id of a delivery has in common for all shops.
fn of_any_shop(source: Source, id: &str) -> u64 {
    let hash = Sha256::new()
        .chain_update(source.into_str())
        .chain_update(":")
        .chain_update(id)
        .finalize();
    first_half(hash.into())
}

fn first_half(hash: [u8; 32]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(first)
}

/// The part of the SHA-256 of a body by which two bodies of one id are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BodyHash(i64);

impl BodyHash {
    pub fn of(sha256: [u8; 32]) -> Self {
        BodyHash(first_half(sha256).cast_signed())
    }

    /// It as an operator sees it.
    pub fn to_hex(self) -> String {
        format!("{:016x}", self.0)
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
    /// `None` where one id cannot come with two bodies, or is nothing to be told of if it does.
    pub body: Option<BodyHash>,
}

/// What is known of the ids of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The jobs whose id was new or had expired.
    pub fresh: HashSet<JobId>,
    /// The first deliveries of those other ids that are remembered.
    pub known: HashMap<DeliveryId, First>,
}

/// The first delivery of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    pub job: JobId,
    pub body: Option<BodyHash>,
}

/// Remembers ids for `ttl`, and says which were new and what is known of the others.
///
/// `claims` must be sorted and must have each id only once: unsorted batches of two replicas
/// would deadlock. An id that another transaction is writing is waited for, so a duplicate is known as
/// one only after the first delivery was committed. A duplicate writes nothing.
pub async fn remember(
    tx: &mut Tx,
    claims: &[Claim],
    now: Timestamp,
    ttl: Duration,
) -> Result<Remembered> {
    // Deadlocks are rare, and a batch that one has ended is written again, so tests would notice them only by luck.
    debug_assert!(claims.is_sorted(), "the ids of a batch are sorted");
    let mut fresh = insert(tx, claims, now, ttl).await?;
    if fresh.len() == claims.len() {
        let known = HashMap::new();
        return Ok(Remembered { fresh, known });
    }
    let known = claims.iter().filter(|claim| !fresh.contains(&claim.job));
    let mut known: Vec<Claim> = known.copied().collect();
    let (mut first, mut is_any_expired) = (HashMap::new(), false);
    let rows = tx.query(KNOWN).bind(ids_of(&known)).fetch_all().await?;
    for row in &rows {
        let (id, remembered, expires_at) = read(row)?;
        is_any_expired |= expires_at <= now;
        first.insert(id, remembered);
    }
    // Housekeeping may have deleted one that has expired.
    if is_any_expired || first.len() < known.len() {
        remove_expired(tx, &known, now).await?;
        fresh.extend(insert(tx, &known, now, ttl).await?);
        known.retain(|claim| fresh.contains(&claim.job));
        for claim in known {
            first.remove(&claim.id);
        }
    }
    let known = first;
    Ok(Remembered { fresh, known })
}

/// Stores deliveries whose ids are new, as [`remember`] and [`jobs::insert`](crate::jobs::insert) do, in a transaction of its
/// own. Of the other ids it says what is known. A delivery of which it says nothing was not stored: its id has expired, or the
/// database cannot do this in one statement.
///
/// `new` must be sorted by the claims, and have each id only once. When an error leaves open whether deliveries were stored,
/// this function finds out if it is called again.
pub async fn store_new(
    db: &Db,
    new: &[(Claim, &NewJob)],
    now: Timestamp,
    ttl: Duration,
) -> Result<Remembered> {
    let (claims, mut jobs): (Vec<Claim>, Vec<&NewJob>) = new.iter().copied().unzip();
    debug_assert!(claims.is_sorted(), "the ids of a batch are sorted");
    if claims.is_empty() || !db.inserts_new() {
        return Ok(Remembered::default());
    }
    // Rows that are beside each other in most indices are inserted one after the other.
    jobs.sort_unstable_by_key(|job| job.id);
    let id_rows = rows(&claims, now, ttl);
    let (delivery_rows, job_rows) = (deliveries::rows(&jobs), crate::jobs::rows(&jobs));
    let others = [
        Rows::new("deliveries", &delivery_rows),
        Rows::new("jobs", &job_rows),
    ];
    let stored = db
        .insert_new(Rows::new("webhook_ids", &id_rows), others)
        .await?;
    let stored = stored.iter().map(|row| row.get("job_id"));
    let mut fresh: HashSet<JobId> = stored.collect::<Result<_>>()?;
    let (mut known, mut own) = (HashMap::new(), Vec::new());
    let left: HashMap<DeliveryId, JobId> = claims
        .iter()
        .filter(|claim| !fresh.contains(&claim.job))
        .map(|claim| (claim.id, claim.job))
        .collect();
    if left.is_empty() {
        return Ok(Remembered { fresh, known });
    }
    let ids: Vec<Uuid> = left.keys().map(|id| id.0).collect();
    for row in db.query(KNOWN).bind(ids).fetch_all().await? {
        let (id, first, expires_at) = read(&row)?;
        if left.get(&id) == Some(&first.job) {
            own.push(id.0);
            fresh.insert(first.job);
        } else if now < expires_at {
            known.insert(id, first);
        }
    }
    if !own.is_empty() {
        // An earlier call has stored these, and its answer was lost, perhaps while it waited for a standby. A commit that
        // comes later and writes something waits for the standby too, so that nothing is accepted before it is there.
        db.transact("update webhook_ids set expires_at = $1 where id in ($2..)")
            .bind(now.plus(ttl))
            .bind(own)
            .done()
            .await?;
    }
    Ok(Remembered { fresh, known })
}

const KNOWN: &str = "select id, job_id, body_hash, expires_at from webhook_ids where id in ($1..)";

/// A row of [`KNOWN`], with the time until which it is remembered.
fn read(row: &Row) -> Result<(DeliveryId, First, Timestamp)> {
    let first = First {
        job: row.get("job_id")?,
        body: row.get::<Option<i64>>("body_hash")?.map(BodyHash),
    };
    Ok((DeliveryId(row.get("id")?), first, row.get("expires_at")?))
}

fn ids_of(claims: &[Claim]) -> Vec<Uuid> {
    claims.iter().map(|claim| claim.id.0).collect()
}

/// Deletes those of the ids that have expired.
async fn remove_expired(tx: &mut Tx, known: &[Claim], now: Timestamp) -> Result<()> {
    let expired: Vec<Uuid> = tx
        .query(
            "select id from webhook_ids
             where expires_at <= $1 and id in ($2..)
             order by id
             for update",
        )
        .bind(now.0)
        .bind(ids_of(known))
        .all(|row| row.get("id"))
        .await?;
    delete(tx, expired).await?;
    Ok(())
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
    let rows = tx
        .insert(
            "webhook_ids",
            rows(claims, now, ttl),
            "on conflict (id) do nothing returning job_id",
        )
        .await?;
    rows.iter().map(|row| row.get("job_id")).collect()
}

fn rows<'v>(claims: &[Claim], now: Timestamp, ttl: Duration) -> Vec<[Cell<'v>; 4]> {
    let row = |claim: &Claim| {
        [
            column("id", claim.id.0),
            column("job_id", claim.job),
            column("body_hash", claim.body.map(|it| it.0)),
            column("expires_at", now.plus(ttl)),
        ]
    };
    claims.iter().map(row).collect()
}

/// The jobs that the deliveries of any shop with this id became. Two shops seldom have the same one.
pub async fn jobs(db: &Db, source: Source, id: &str) -> Result<Vec<JobId>> {
    let half = of_any_shop(source, id);
    db.query("select job_id from webhook_ids where id >= $1 and id <= $2 order by id")
        .bind(Uuid::from_u64_pair(half, 0))
        .bind(Uuid::from_u64_pair(half, u64::MAX))
        .all(|row| row.get("job_id"))
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
