//! The `api_keys` table. A key opens the API, the console, or both. It is `wb_` and 64 random hex
//! digits. Only its SHA-256 is stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::sql::{Db, FromRow, Result, Row, Tx};
use domain::api_key::{Rights, Scope, Shops, State};
use domain::time::Timestamp;
use platform::clock::Clock;

/// The name of the keys that starts for development make, one each.
pub const DEVELOPMENT: &str = "development";

/// The time of a key's last use is stored with this precision.
pub const USE_NOTED: Duration = Duration::from_mins(1);

/// A key that was just made. It has no Debug, because the key is shown only once.
pub struct Made {
    pub id: Uuid,
    pub key: String,
}

/// Makes a key and returns it. The key is shown once and cannot be read back.
pub async fn create(
    tx: &mut Tx,
    clock: &Clock,
    id: Uuid,
    name: &str,
    expires_at: Option<Timestamp>,
    rights: &Rights,
) -> Result<Made> {
    let key = clock.api_key();
    let scopes = rights.scopes.as_ref().map(|scopes| {
        let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        names.join(" ")
    });
    let shops = rights.shops.0.as_ref().map(|shops| shops.join(" "));
    tx.query(
        "insert into api_keys (id, name, hash, created_at, expires_at, scopes, shops)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(id)
    .bind(name)
    .bind(hash(&key).to_vec())
    .bind(clock.now().0)
    .bind(expires_at.map(|at| at.0))
    .bind(scopes)
    .bind(shops)
    .execute()
    .await?;
    Ok(Made { id, key })
}

/// Lets the holder of this account of the identity provider sign in to the console with the rights of a key.
pub async fn bind_to_account(tx: &mut Tx, id: Uuid, account: i64) -> Result<()> {
    tx.query("update api_keys set account = $1 where id = $2")
        .bind(account)
        .bind(id)
        .done()
        .await
}

/// The keys of an account that may be used now, the newest first.
pub async fn of_account(db: &Db, account: i64, now: Timestamp) -> Result<Vec<Known>> {
    db.query(
        "select id, name, scopes, shops, last_used_at from api_keys
         where account = $1 and revoked_at is null and (expires_at is null or expires_at > $2)
         order by created_at desc, id desc",
    )
    .bind(account)
    .bind(now.0)
    .all(Known::from_row)
    .await
}

/// Deletes the keys with this name, and returns how many there were.
pub async fn delete(tx: &mut Tx, name: &str) -> Result<u64> {
    tx.query("delete from api_keys where name = $1")
        .bind(name)
        .execute()
        .await
}

/// Deletes the keys with this name that have ended, and returns how many there were.
pub async fn delete_ended(tx: &mut Tx, name: &str, now: Timestamp) -> Result<u64> {
    tx.query("delete from api_keys where name = $1 and expires_at <= $2")
        .bind(name)
        .bind(now.0)
        .execute()
        .await
}

/// A key that may be used now.
#[derive(Clone, Debug, FromRow)]
pub struct Known {
    pub id: Uuid,
    pub name: String,
    #[with(rights)]
    pub rights: Rights,
    pub last_used_at: Option<Timestamp>,
}

/// The key with this hash, if it may be used now. The lookup by hash takes the same time for
/// every wrong key, however much of it is right.
pub async fn authenticate(db: &Db, hash: [u8; 32], now: Timestamp) -> Result<Option<Known>> {
    db.query(
        "select id, name, scopes, shops, last_used_at from api_keys
         where hash = $1 and revoked_at is null and (expires_at is null or expires_at > $2)",
    )
    .bind(hash.to_vec())
    .bind(now.0)
    .first(Known::from_row)
    .await
}

/// The name of a key that may be used now.
pub async fn good_name(db: &Db, id: Uuid, now: Timestamp) -> Result<Option<String>> {
    db.query(
        "select name from api_keys
         where id = $1 and revoked_at is null and (expires_at is null or expires_at > $2)",
    )
    .bind(id)
    .bind(now.0)
    .first(|row| row.get("name"))
    .await
}

/// Whether a key that was good a while ago may still be used.
pub async fn is_good(db: &Db, id: Uuid, now: Timestamp) -> Result<bool> {
    Ok(good_name(db, id, now).await?.is_some())
}

/// The hash by which a key is found.
pub fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Records that a key was used, unless that was recorded within [`USE_NOTED`].
pub async fn note_use(db: &Db, id: Uuid, now: Timestamp) -> Result<()> {
    db.transact(
        "update api_keys set last_used_at = $1
         where id = $2 and (last_used_at is null or last_used_at <= $3)",
    )
    .bind(now.0)
    .bind(id)
    .bind(now.minus(USE_NOTED).0)
    .done()
    .await
}

/// A key as it is listed: everything but the key itself.
#[derive(Clone, Debug, Serialize)]
pub struct ApiKeyEntry {
    pub id: Uuid,
    pub name: String,
    pub state: State,
    #[serde(flatten)]
    pub rights: Rights,
    /// The identity provider's number of the account whose holder may sign in to the console with it.
    pub account: Option<i64>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

/// Every key, the newest first.
pub async fn list(db: &Db, now: Timestamp) -> Result<Vec<ApiKeyEntry>> {
    db.query(
        "select id, name, scopes, shops, account, created_at, expires_at, revoked_at, last_used_at
         from api_keys order by created_at desc, id desc",
    )
    .all(|row| entry(row, now))
    .await
}

/// One key, whether it may be used or not.
pub async fn find(db: &Db, id: Uuid, now: Timestamp) -> Result<Option<ApiKeyEntry>> {
    db.query(
        "select id, name, scopes, shops, account, created_at, expires_at, revoked_at, last_used_at
         from api_keys where id = $1",
    )
    .bind(id)
    .first(|row| entry(row, now))
    .await
}

/// A key as a file has it, from which no key can be made that somebody could use who does not have it.
#[derive(Clone, Debug, Serialize, Deserialize, FromRow)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    pub id: Uuid,
    pub name: String,
    /// The SHA-256 of the key, in hex.
    #[serde(with = "hex::serde")]
    pub hash: [u8; 32],
    /// The names of the scopes, separated by spaces. None means all but those of the console.
    pub scopes: Option<String>,
    /// The domains of the shops, separated by spaces. None means all.
    pub shops: Option<String>,
    pub account: Option<i64>,
    /// In milliseconds since 1970.
    pub created_at: i64,
    pub expires_at: Option<i64>,
}

/// Every key that may be used, but for those of development, the oldest first.
pub async fn exported(db: &Db, now: Timestamp) -> Result<Vec<Exported>> {
    db.query(
        "select id, name, hash, scopes, shops, account, created_at, expires_at from api_keys
             where revoked_at is null and (expires_at is null or expires_at > $1) and name <> $2
             order by created_at, id",
    )
    .bind(now.0)
    .bind(DEVELOPMENT)
    .all(Exported::from_row)
    .await
}

/// Adds a key of a file. False when there is one with its id or the same key.
pub async fn import(tx: &mut Tx, key: &Exported) -> Result<bool> {
    tx.query(
        "insert into api_keys (id, name, hash, scopes, shops, account, created_at, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict do nothing",
    )
    .bind(key.id)
    .bind(key.name.as_str())
    .bind(key.hash.as_slice())
    .bind(key.scopes.as_deref())
    .bind(key.shops.as_deref())
    .bind(key.account)
    .bind(key.created_at)
    .bind(key.expires_at)
    .changed_one()
    .await
}

fn entry(row: &Row, now: Timestamp) -> Result<ApiKeyEntry> {
    let expires_at = row.get("expires_at")?;
    let revoked_at = row.get("revoked_at")?;
    Ok(ApiKeyEntry {
        id: row.get("id")?,
        name: row.get("name")?,
        state: State::of(expires_at, revoked_at, now),
        rights: rights(row)?,
        account: row.get("account")?,
        created_at: row.get("created_at")?,
        expires_at,
        revoked_at,
        last_used_at: row.get("last_used_at")?,
    })
}

/// Revokes a key for good. False when it was revoked before, or when there is no such key.
pub async fn revoke(tx: &mut Tx, id: Uuid, now: Timestamp) -> Result<bool> {
    tx.query("update api_keys set revoked_at = $1 where id = $2 and revoked_at is null")
        .bind(now.0)
        .bind(id)
        .changed_one()
        .await
}

/// The rights of a key, from its columns `scopes` and `shops`. A scope that this version does not know is
/// ignored.
pub(super) fn rights(row: &Row) -> Result<Rights> {
    let words = |text: String| text.split_whitespace().map(ToOwned::to_owned).collect();
    let scopes: Option<String> = row.get("scopes")?;
    let shops: Option<String> = row.get("shops")?;
    Ok(Rights {
        scopes: scopes.map(|text| {
            let known = text.split_whitespace().filter_map(|word| word.parse().ok());
            known.collect::<Vec<Scope>>()
        }),
        shops: Shops(shops.map(words)),
    })
}
