//! The `erasures` table: the entries of the journal of erasures that this database knows. The journal
//! itself is outside of it, in the store of exports.
//!
//! An entry gets its number and its hash here, and is committed, before it is written to the store:
//! so no two erasures of one database have the same number, and after a crash the same bytes are
//! written again. A database that was restored from a backup lacks the entries that were written
//! since, or knows others under their numbers, and is recognized by that.
//!
//! The table `erasure_subjects` has the tombstones of an entry that is not written yet.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::privacy::Keys;
use domain::privacy::journal::{self, Entry, Erased, Hash};
use domain::time::Timestamp;

/// Held while an entry gets its number.
const LOCK: i64 = 7_460_101;

/// An entry that this database knows.
#[derive(Clone, Debug, FromRow)]
pub struct Known {
    pub number: i64,
    pub hash: Hash,
    #[column("object")]
    pub bytes: Vec<u8>,
    /// True when it is known to be in the store.
    #[present("kept_at")]
    pub is_kept: bool,
}

/// The entry with the highest number.
pub async fn newest(db: &Db) -> Result<Option<Known>> {
    db.query("select number, hash, object, kept_at from erasures order by number desc limit 1")
        .first(Known::from_row)
        .await
}

/// Adds the entry of an erasure and returns its number. If the last entry of the same job says the
/// same, it is that one's.
pub async fn add(tx: &mut Tx, keys: &Keys, erased: Erased) -> Result<i64> {
    tx.lock(LOCK).await?;
    let last = tx
        .query(
            "select number, hash, object, kept_at from erasures where job_id = $1
             order by number desc limit 1",
        )
        .bind(erased.job)
        .fetch_optional()
        .await?;
    if let Some(last) = last.as_ref().map(Known::from_row).transpose()?
        && Entry::read(keys, last.number, &last.bytes, None)
            .is_ok_and(|entry| entry.erased.is_same(&erased))
    {
        return Ok(last.number);
    }
    let newest = tx
        .query("select number, hash, object, kept_at from erasures order by number desc limit 1")
        .fetch_optional()
        .await?;
    let (number, before) = match newest.as_ref().map(Known::from_row).transpose()? {
        Some(newest) => (newest.number + 1, newest.hash),
        None => (1, journal::begin(keys)),
    };
    insert(tx, &[Entry::new(keys, number, &before, erased)], None).await?;
    Ok(number)
}

/// Notes tombstones that an erasure writes, by shop.
pub async fn note_subjects(
    tx: &mut Tx,
    job: Uuid,
    tombstones: &BTreeMap<&str, BTreeSet<Uuid>>,
) -> Result<()> {
    let mut rows = Vec::new();
    for (shop, keys) in tombstones {
        rows.extend(keys.iter().map(|key| {
            [
                column("job_id", job),
                column("shop", *shop),
                column("key", *key),
            ]
        }));
    }
    let known = "on conflict (job_id, shop, key) do nothing";
    tx.insert("erasure_subjects", rows, known).await?;
    Ok(())
}

/// The tombstones that the runs of an erasure have written, by shop.
pub async fn subjects(db: &Db, job: Uuid) -> Result<BTreeMap<String, BTreeSet<Uuid>>> {
    let keys: Vec<(String, Uuid)> = db
        .query("select shop, key from erasure_subjects where job_id = $1")
        .bind(job)
        .all(|row| Ok((row.get("shop")?, row.get("key")?)))
        .await?;
    let mut subjects: BTreeMap<String, BTreeSet<Uuid>> = BTreeMap::new();
    for (shop, key) in keys {
        subjects.entry(shop).or_default().insert(key);
    }
    Ok(subjects)
}

/// Forgets the tombstones of an erasure whose end is recorded.
pub async fn forget_subjects(tx: &mut Tx, job: Uuid) -> Result<()> {
    tx.query("delete from erasure_subjects where job_id = $1")
        .bind(job)
        .done()
        .await
}

/// The first entries up to this number that are not known to be in the store.
pub async fn not_kept(db: &Db, until: i64, limit: i64) -> Result<Vec<Known>> {
    db.query(
        "select number, hash, object, kept_at from erasures
         where kept_at is null and number <= $1 order by number limit $2",
    )
    .bind(until)
    .bind(limit)
    .all(Known::from_row)
    .await
}

/// Records that an entry is in the store.
pub async fn note_kept(tx: &mut Tx, number: i64, now: Timestamp) -> Result<()> {
    tx.query("update erasures set kept_at = $1 where number = $2 and kept_at is null")
        .bind(now.0)
        .bind(number)
        .done()
        .await
}

/// True when the last entry of this job is known to be in the store.
pub async fn is_kept(tx: &mut Tx, job: Uuid) -> Result<bool> {
    let kept_at: Option<bool> = tx
        .query("select kept_at from erasures where job_id = $1 order by number desc limit 1")
        .bind(job)
        .first(|row| Ok(!row.is_null("kept_at")?))
        .await?;
    Ok(kept_at.unwrap_or_default())
}

/// The entries after this number, the first ones first.
pub async fn list(db: &Db, after: i64, limit: i64) -> Result<Vec<Known>> {
    db.query(
        "select number, hash, object, kept_at from erasures
         where number > $1 order by number limit $2",
    )
    .bind(after)
    .bind(limit)
    .all(Known::from_row)
    .await
}

/// Takes over entries of the store that were done again here, and forgets what this database has
/// under their numbers and later and what is not in the store. Returns how many it did not have.
pub async fn take_over(tx: &mut Tx, entries: &[Entry], now: Timestamp) -> Result<usize> {
    let Some(first) = entries.first() else {
        return Ok(0);
    };
    tx.lock(LOCK).await?;
    tx.query("delete from erasures where number >= $1 and kept_at is null")
        .bind(first.number)
        .execute()
        .await?;
    insert(tx, entries, Some(now)).await
}

/// Returns how many were inserted.
async fn insert(tx: &mut Tx, entries: &[Entry], kept_at: Option<Timestamp>) -> Result<usize> {
    let rows = entries.iter().map(|it| {
        [
            column("number", it.number),
            column("job_id", it.erased.job),
            column("hash", it.hash.to_vec()),
            column("object", &it.bytes),
            column("kept_at", kept_at),
        ]
    });
    let rows = rows.collect();
    let known = "on conflict (number) do nothing returning number";
    Ok(tx.insert("erasures", rows, known).await?.len())
}
