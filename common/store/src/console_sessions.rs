//! The `console_sessions` table: who is signed in to the console. A row has only a keyed hash of the
//! cookie, so nobody who reads the table is signed in by it. A session is good as long as its key is.

use uuid::Uuid;

use crate::api_keys::rights;
use crate::sql::{Db, FromRow, Result, Tx};
use domain::api_key::Rights;
use domain::time::Timestamp;

/// A session that is good now, with what its key says.
#[derive(Clone, Debug, FromRow)]
pub struct Session {
    #[column("id")]
    pub key: Uuid,
    /// The name of the key.
    pub name: String,
    #[with(rights)]
    pub rights: Rights,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

pub async fn insert(
    tx: &mut Tx,
    hash: [u8; 32],
    key: Uuid,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    tx.query(
        "insert into console_sessions (hash, api_key_id, created_at, expires_at)
         values ($1, $2, $3, $4)",
    )
    .bind(hash.to_vec())
    .bind(key)
    .bind(now.0)
    .bind(expires_at.0)
    .done()
    .await
}

/// The session with this hash, if neither it nor its key has ended.
pub async fn find(db: &Db, hash: [u8; 32], now: Timestamp) -> Result<Option<Session>> {
    db.query(
        "select api_keys.id, api_keys.name, api_keys.scopes, api_keys.shops,
                console_sessions.created_at, console_sessions.expires_at
         from console_sessions join api_keys on api_keys.id = console_sessions.api_key_id
         where console_sessions.hash = $1 and console_sessions.expires_at > $2
           and api_keys.revoked_at is null
           and (api_keys.expires_at is null or api_keys.expires_at > $2)",
    )
    .bind(hash.to_vec())
    .bind(now.0)
    .first(Session::from_row)
    .await
}

/// Moves the end of a session that has not ended.
pub async fn extend(db: &Db, hash: [u8; 32], now: Timestamp, expires_at: Timestamp) -> Result<()> {
    db.transact(
        "update console_sessions set expires_at = $1
         where hash = $2 and expires_at > $3 and expires_at < $1",
    )
    .bind(expires_at.0)
    .bind(hash.to_vec())
    .bind(now.0)
    .done()
    .await
}

/// Ends a session. False when there was none.
pub async fn end(tx: &mut Tx, hash: [u8; 32]) -> Result<bool> {
    tx.query("delete from console_sessions where hash = $1")
        .bind(hash.to_vec())
        .changed_one()
        .await
}

/// Deletes at most `limit` sessions that have ended.
pub async fn forget(db: &Db, now: Timestamp, limit: i64) -> Result<u64> {
    db.transact(
        "delete from console_sessions
         where hash in (
             select hash from console_sessions
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
