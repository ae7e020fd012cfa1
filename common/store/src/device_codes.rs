//! The `device_codes` table: device logins that are under way. The device code itself is not
//! stored. A row is found by the SHA-256 of the code, and the provider's answer is encrypted with
//! a key that is made from the code, so only somebody who has the code can read it.
//!
//! The column `next_poll_at` also decides whose turn it is: the caller that moves it forward asks
//! the provider, and nobody else does so before that time, on any replica. A turn that nobody
//! ends expires by itself.
//!
//! After an error of the provider, `interval_seconds` is negative. Then `next_poll_at` is when
//! the provider is asked again, and no client's poll counts as too early.
//!
//! The states are: pending; doubted, after the provider said that it does not know the code
//! (which it also says, for a moment, of a code that was just approved); authorized; denied.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr};

use crate::sql::{Db, Error, Result, Tx};
use domain::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum State {
    Pending,
    Doubted,
    Authorized,
    Denied,
}

/// A device login that is under way.
#[derive(Clone, Debug)]
pub struct Login {
    pub state: State,
    pub interval: Duration,
    pub expires_at: Timestamp,
    pub next_poll_at: Timestamp,
    /// True when the provider had an error, and is not asked again until the next poll.
    pub is_paused: bool,
    /// The answer that [`seal`] encrypted, and until when it can be fetched.
    pub token: Option<Vec<u8>>,
    pub token_until: Option<Timestamp>,
}

/// The hash by which a device code is found.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(Vec<u8>);

impl Hash {
    pub fn of(device_code: &str) -> Self {
        Hash(Sha256::digest(device_code.as_bytes()).to_vec())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

pub async fn insert(
    tx: &mut Tx,
    hash: &Hash,
    interval: Duration,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<()> {
    tx.query(
        "insert into device_codes
             (hash, state, interval_seconds, expires_at, next_poll_at, created_at)
         values ($1, 'pending', $2, $3, $4, $4)
         on conflict (hash) do nothing",
    )
    .bind(hash.0.as_slice())
    .bind(seconds(interval))
    .bind(expires_at.0)
    .bind(now.0)
    .done()
    .await
}

pub async fn find(db: &Db, hash: &Hash) -> Result<Option<Login>> {
    let row = db
        .query(
            "select state, interval_seconds, expires_at, next_poll_at, token, token_until
             from device_codes where hash = $1",
        )
        .bind(hash.0.as_slice())
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(None) };
    let state: String = row.get("state")?;
    let state = state.parse().ok();
    let interval: i64 = row.get("interval_seconds")?;
    Ok(Some(Login {
        state: state.ok_or_else(|| Error::Decode("an unknown state".into()))?,
        interval: Duration::from_secs(interval.unsigned_abs()),
        expires_at: row.get("expires_at")?,
        next_poll_at: row.get("next_poll_at")?,
        is_paused: interval < 0,
        token: row.get("token")?,
        token_until: row.get("token_until")?,
    }))
}

/// Takes the turn to ask the provider, which lasts until `until` at most. False when it is another caller's
/// turn, when it is too early, or when the login is over. `times` are now and the latest time at which a next
/// poll can be due: a later one is of another clock, and counts as now.
pub async fn take_turn(
    db: &Db,
    hash: &Hash,
    times: RangeInclusive<Timestamp>,
    until: Timestamp,
) -> Result<bool> {
    db.transact(
        "update device_codes set next_poll_at = $3, interval_seconds = abs(interval_seconds)
         where hash = $1 and state in ('pending', 'doubted')
           and (next_poll_at <= $2 or next_poll_at > $4) and expires_at > $2",
    )
    .bind(hash.0.as_slice())
    .bind(times.start().0)
    .bind(until.0)
    .bind(times.end().0)
    .changed_one()
    .await
}

/// What follows from a turn.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    pub state: State,
    pub interval: Duration,
    pub poll_at: Timestamp,
    /// True when the provider has an error and is left alone until `poll_at`.
    pub is_paused: bool,
}

/// Ends the turn that was taken until `until`. Nothing changes when the turn has expired.
pub async fn end_turn(db: &Db, hash: &Hash, until: Timestamp, next: Next) -> Result<()> {
    let interval = seconds(next.interval);
    db.transact(
        "update device_codes set state = $3, interval_seconds = $4, next_poll_at = $5
         where hash = $1 and next_poll_at = $2 and state in ('pending', 'doubted')",
    )
    .bind(hash.0.as_slice())
    .bind(until.0)
    .bind(next.state.into_str())
    .bind(if next.is_paused { -interval } else { interval })
    .bind(next.poll_at.0)
    .done()
    .await
}

/// Stores the provider's answer, encrypted, for a caller who has the code, until `until`.
pub async fn authorize(db: &Db, hash: &Hash, token: &[u8], until: Timestamp) -> Result<()> {
    db.transact(
        "update device_codes set state = 'authorized', token = $2, token_until = $3
         where hash = $1",
    )
    .bind(hash.0.as_slice())
    .bind(token)
    .bind(until.0)
    .done()
    .await
}

/// Records that the provider's answer was handed out. It is kept until `until`, and never longer
/// than it was to be kept before.
pub async fn hand_out(db: &Db, hash: &Hash, until: Timestamp) -> Result<()> {
    db.transact("update device_codes set token_until = $2 where hash = $1 and token_until > $2")
        .bind(hash.0.as_slice())
        .bind(until.0)
        .done()
        .await
}

/// Records that the code has expired, as the provider says.
pub async fn expire(db: &Db, hash: &Hash, now: Timestamp) -> Result<()> {
    db.transact("update device_codes set expires_at = $2 where hash = $1 and expires_at > $2")
        .bind(hash.0.as_slice())
        .bind(now.0)
        .done()
        .await
}

pub async fn delete(db: &Db, hash: &Hash) -> Result<()> {
    db.transact("delete from device_codes where hash = $1")
        .bind(hash.0.as_slice())
        .done()
        .await
}

/// Deletes logins that ended before `over`, and tokens that were to be kept until `now`.
pub async fn forget(db: &Db, over: Timestamp, now: Timestamp) -> Result<u64> {
    let mut tx = db.begin().await?;
    let forgotten = tx
        .query("delete from device_codes where expires_at <= $1")
        .bind(over.0)
        .execute()
        .await?;
    clear_tokens(&mut tx, now).await?;
    tx.commit().await?;
    Ok(forgotten)
}

/// Deletes the tokens that were to be kept until `now`.
pub async fn forget_tokens(db: &Db, now: Timestamp) -> Result<()> {
    let mut tx = db.begin().await?;
    clear_tokens(&mut tx, now).await?;
    tx.commit().await
}

async fn clear_tokens(tx: &mut Tx, now: Timestamp) -> Result<()> {
    tx.query("update device_codes set token = null, token_until = null where token_until <= $1")
        .bind(now.0)
        .done()
        .await
}

/// Encrypts `text` for somebody who has the code: AES-256-GCM with a random nonce in front. None
/// when the encryption fails.
pub fn seal(device_code: &str, text: &str) -> Option<Vec<u8>> {
    let mut sealed = text.as_bytes().to_vec();
    let nonce = key(device_code)?
        .seal_in_place_append_tag(Aad::empty(), &mut sealed)
        .ok()?;
    Some([nonce.as_ref().as_slice(), &sealed].concat())
}

/// Decrypts what [`seal`] encrypted under this code. None when it was encrypted under another
/// code, or when the bytes have changed.
pub fn unseal(device_code: &str, sealed: &[u8]) -> Option<String> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = sealed.to_vec();
    let text = key(device_code)?
        .open_in_place(nonce, Aad::empty(), &mut text)
        .ok()?;
    String::from_utf8(text.to_vec()).ok()
}

fn key(device_code: &str) -> Option<RandomizedNonceKey> {
    let secret = Salt::new(HKDF_SHA256, b"waybill").extract(device_code.as_bytes());
    let mut key = [0; 32];
    secret
        .expand(&[b"token of a device login"], HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut key))
        .ok()?;
    RandomizedNonceKey::new(&AES_256_GCM, &key).ok()
}

fn seconds(interval: Duration) -> i64 {
    i64::try_from(interval.as_secs()).unwrap_or(i64::MAX)
}
