//! The `api_keys` table. A key is `wb_` and 64 hex digits of chance; only its SHA-256 is kept.

use sha2::{Digest, Sha256};

use crate::clock::{Clock, Timestamp};
use crate::sql::{Db, Result, Tx};

/// The key that a development start makes and the next start replaces.
pub const DEVELOPMENT: &str = "development";

/// Makes a key and returns it; it is shown once and cannot be read back.
pub async fn create(
    tx: &mut Tx,
    clock: &Clock,
    name: &str,
    expires_at: Option<Timestamp>,
) -> Result<String> {
    let key = clock.api_key();
    let id = clock.id();
    tx.query(
        "insert into api_keys (id, name, hash, created_at, expires_at) values ($1, $2, $3, $4, $5)",
    )
    .bind(id)
    .bind(name)
    .bind(hash(&key))
    .bind(clock.now().0)
    .bind(expires_at.map(|at| at.0))
    .execute()
    .await?;
    Ok(key)
}

/// Deletes the keys of a name; how many there were.
pub async fn delete(tx: &mut Tx, name: &str) -> Result<u64> {
    tx.query("delete from api_keys where name = $1")
        .bind(name)
        .execute()
        .await
}

/// The name of a key that may be used now. Looking up by hash takes the same time for an
/// unknown key as for a wrong one.
pub async fn authenticate(db: &Db, key: &str, now: Timestamp) -> Result<Option<String>> {
    let row = db
        .query(
            "select name from api_keys
             where hash = $1 and revoked_at is null and (expires_at is null or expires_at > $2)",
        )
        .bind(hash(key))
        .bind(now.0)
        .fetch_optional()
        .await?;
    row.map(|row| row.get("name")).transpose()
}

fn hash(key: &str) -> Vec<u8> {
    Sha256::digest(key.as_bytes()).to_vec()
}
