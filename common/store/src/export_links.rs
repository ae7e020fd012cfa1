//! The `export_links` table: links to exports that were given out. A link that was given to
//! nobody does not count, even if its signature is right.

use uuid::Uuid;

use crate::sql::{Db, Result, Tx};
use domain::time::Timestamp;

/// Stores a link by the second of Unix time at which it expires, and deletes links that have
/// expired.
pub async fn insert(tx: &mut Tx, request_id: Uuid, expires: i64, now: Timestamp) -> Result<()> {
    tx.query("delete from export_links where expires < $1")
        .bind(now.unix_seconds())
        .execute()
        .await?;
    tx.query(
        "insert into export_links (request_id, expires) values ($1, $2)
         on conflict (request_id, expires) do nothing",
    )
    .bind(request_id)
    .bind(expires)
    .done()
    .await
}

/// True for a link that was given out.
pub async fn is_known(db: &Db, request_id: Uuid, expires: i64) -> Result<bool> {
    db.query("select expires from export_links where request_id = $1 and expires = $2")
        .bind(request_id)
        .bind(expires)
        .is_any()
        .await
}
