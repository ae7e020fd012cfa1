//! The `tombstones` table: tombstones. What has a redacted key is stored without personal data.
//!
//! A writer of personal data and an erasure must not miss each other. Each shop has an advisory
//! lock: writers take it shared ([`check`]) before they read tombstones; an erasure takes it
//! exclusively ([`write`]) while it writes them. So whoever wrote before has committed, and its
//! rows are found and erased; whoever writes after sees the tombstones. It is a lock in the
//! server's memory, not a row a customer: it costs a writer nothing on disk, and covers orders that
//! are known by an address alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::sql::{Result, Tx, column};
use domain::time::Timestamp;

/// Payments are of no shop.
pub const NO_SHOP: &str = "";

/// Takes the shared locks of the shops and returns which of the keys are redacted, and since
/// when. Must come before any row is read or written that a redaction erases.
pub async fn check(
    tx: &mut Tx,
    keys: &BTreeMap<&str, BTreeSet<Uuid>>,
) -> Result<HashMap<Uuid, Timestamp>> {
    for shop in keys.keys() {
        tx.lock_shared(lock_key(shop)).await?;
    }
    let mut erased = HashMap::new();
    for (shop, keys) in keys {
        let keys: Vec<Uuid> = keys.iter().copied().collect();
        if keys.is_empty() {
            continue;
        }
        let rows = tx
            .query("select key, redacted_at from tombstones where shop = $1 and key in ($2..)")
            .bind(*shop)
            .bind(keys)
            .fetch_all()
            .await?;
        for row in rows {
            erased.insert(row.get("key")?, Timestamp(row.get("redacted_at")?));
        }
    }
    Ok(erased)
}

/// Takes the locks of the shops exclusively and writes tombstones. Commit soon: writers wait
/// meanwhile.
pub async fn write(
    tx: &mut Tx,
    keys: &BTreeMap<&str, BTreeSet<Uuid>>,
    now: Timestamp,
) -> Result<()> {
    for shop in keys.keys() {
        tx.lock(lock_key(shop)).await?;
    }
    let rows: Vec<(&str, Uuid)> = keys
        .iter()
        .flat_map(|(shop, keys)| keys.iter().map(|key| (*shop, *key)))
        .collect();
    let columns = [
        column("shop", rows.iter().map(|(shop, _)| *shop)),
        column("key", rows.iter().map(|(_, key)| *key)),
        column("redacted_at", rows.iter().map(|_| now.0)),
    ];
    let newer = "on conflict (shop, key) do update set redacted_at = excluded.redacted_at
                 where excluded.redacted_at > tombstones.redacted_at";
    tx.insert("tombstones", &columns, newer).await?;
    Ok(())
}

fn lock_key(shop: &str) -> i64 {
    let digest = Sha256::digest(format!("subjects:{shop}"));
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}
