//! The `confirmed_tokens` table: access tokens that the identity provider has confirmed lately. It has only their
//! hashes, by which a process that has just started tells them from invented ones.

use std::time::Duration;

use crate::sql::{Db, FromRow, Result};
use domain::time::Timestamp;

/// How long a token is remembered after it was confirmed.
pub const KEPT: Duration = Duration::from_hours(24);

/// A token that was confirmed.
#[derive(Clone, Debug, FromRow)]
pub struct Confirmed {
    pub hash: Vec<u8>,
    pub confirmed_at: Timestamp,
    /// When the token ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Remembers that a token was confirmed.
pub async fn note(db: &Db, confirmed: &Confirmed) -> Result<()> {
    db.transact(
        "insert into confirmed_tokens (hash, confirmed_at, expires_at) values ($1, $2, $3)
         on conflict (hash) do update set confirmed_at = excluded.confirmed_at",
    )
    .bind(confirmed.hash.as_slice())
    .bind(confirmed.confirmed_at.0)
    .bind(confirmed.expires_at.map(|at| at.0))
    .done()
    .await
}

/// The tokens that were confirmed within [`KEPT`], at most so many, the newest first.
pub async fn list(db: &Db, now: Timestamp, most: i64) -> Result<Vec<Confirmed>> {
    db.query(
        "select hash, confirmed_at, expires_at from confirmed_tokens where confirmed_at > $1
         order by confirmed_at desc limit $2",
    )
    .bind(now.minus(KEPT).0)
    .bind(most)
    .all(Confirmed::from_row)
    .await
}

/// Forgets a token, because the provider does not confirm it any more.
pub async fn delete(db: &Db, hash: &[u8]) -> Result<()> {
    db.transact("delete from confirmed_tokens where hash = $1")
        .bind(hash)
        .done()
        .await
}

/// Forgets at most `limit` tokens that were confirmed longer than [`KEPT`] ago.
pub async fn forget(db: &Db, now: Timestamp, limit: i64) -> Result<u64> {
    db.transact(
        "delete from confirmed_tokens
         where hash in (
             select hash from confirmed_tokens
             where confirmed_at <= $1
             order by confirmed_at
             limit $2
             for update skip locked
         )",
    )
    .bind(now.minus(KEPT).0)
    .bind(limit)
    .execute()
    .await
}
