//! The `tombstones` table. Data about a subject whose key has a tombstone is stored without its
//! person.
//!
//! A writer of personal data and an erasure must not miss each other, so each shop has an
//! advisory lock. Writers take it shared ([`check`]) before they read the tombstones, and an
//! erasure takes it exclusively ([`write`]) while it writes them. So every earlier writer has
//! committed, and the erasure finds its rows; every later writer sees the tombstones. The lock is
//! in the server's memory and not a row for each customer. It costs a writer nothing on disk, and
//! it also covers orders that are known only by an address.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::sql::{Result, Tx, column};
use domain::connection::DEFAULT;
use domain::time::Timestamp;

/// The shop of tombstones for payments, which belong to no shop.
pub const NO_SHOP: &str = "";

/// The shop of tombstones of addresses for the payments of a connection (`domain::connection`).
pub fn of_payments(connection: &str) -> String {
    match connection {
        DEFAULT => NO_SHOP.to_owned(),
        name => format!("@{name}"),
    }
}

/// Takes the shared locks of the shops, and returns which of the keys have tombstones and since
/// when. It must be called before any row is read or written that an erasure may erase.
pub async fn check(
    tx: &mut Tx,
    keys: &BTreeMap<&str, BTreeSet<Uuid>>,
) -> Result<HashMap<Uuid, Timestamp>> {
    tx.lock_shared(keys.keys().map(|shop| lock_key(shop)).collect())
        .await?;
    let subjects: Vec<(String, Uuid)> = keys
        .iter()
        .flat_map(|(shop, keys)| keys.iter().map(|key| ((*shop).to_owned(), *key)))
        .collect();
    if subjects.is_empty() {
        return Ok(HashMap::new());
    }
    tx.query("select key, redacted_at from tombstones where (shop, key) in ($1..)")
        .bind(subjects)
        .all(|row| Ok((row.get("key")?, row.get("redacted_at")?)))
        .await
}

/// Takes the exclusive locks of the shops and writes tombstones. The transaction should commit
/// soon, because writers wait for it.
pub async fn write(
    tx: &mut Tx,
    keys: &BTreeMap<&str, BTreeSet<Uuid>>,
    now: Timestamp,
) -> Result<()> {
    for shop in keys.keys() {
        tx.lock(lock_key(shop)).await?;
    }
    let mut rows = Vec::new();
    for (shop, keys) in keys {
        rows.extend(keys.iter().map(|key| {
            [
                column("shop", *shop),
                column("key", *key),
                column("redacted_at", now),
            ]
        }));
    }
    let newer = "on conflict (shop, key) do update set redacted_at = excluded.redacted_at
                 where excluded.redacted_at > tombstones.redacted_at";
    tx.insert("tombstones", rows, newer).await?;
    Ok(())
}

fn lock_key(shop: &str) -> i64 {
    let digest = Sha256::digest(format!("subjects:{shop}"));
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}
