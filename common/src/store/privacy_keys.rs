//! The `privacy_keys` table: the secret behind tombstones, audit and receipts where no
//! `PRIVACY_KEY` is set, and what the one in use is recognized by. With another one every
//! tombstone would be void, so a process does not start with it.

use crate::clock::Clock;
use crate::config::Token;
use crate::privacy::Keys;
use crate::sql::{Db, Error, Result};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "PRIVACY_KEY is not the one that this database was used with; with another one, people \
         whose data was erased would not be recognized. Set the one that it was used with, or, \
         if none was, unset it"
    )]
    AnotherKey,
    #[error(transparent)]
    Database(#[from] Error),
}

/// The keys of this database; made when it has none yet.
pub async fn load(
    db: &Db,
    setting: Option<&Token>,
    clock: &Clock,
) -> std::result::Result<Keys, LoadError> {
    let given = setting.map(|setting| Keys::new(setting.expose().as_bytes().to_vec()));
    if let Some((secret, fingerprint)) = stored(db).await? {
        return check(given, secret, &fingerprint);
    }
    let (keys, secret) = if let Some(keys) = given.clone() {
        (keys, None)
    } else {
        let secret = clock.secret().to_vec();
        (Keys::new(secret.clone()), Some(secret))
    };
    let mut tx = db.begin().await?;
    tx.query(
        "insert into privacy_keys (id, secret, fingerprint, created_at) values (1, $1, $2, $3)
         on conflict (id) do nothing",
    )
    .bind(secret)
    .bind(keys.fingerprint().to_vec())
    .bind(clock.now().0)
    .execute()
    .await?;
    tx.commit().await?;
    // Another process may have been first.
    match stored(db).await? {
        Some((secret, fingerprint)) => check(given, secret, &fingerprint),
        None => Err(Error::RowNotFound.into()),
    }
}

async fn stored(db: &Db) -> Result<Option<(Option<Vec<u8>>, Vec<u8>)>> {
    let row = db
        .query("select secret, fingerprint from privacy_keys where id = 1")
        .fetch_optional()
        .await?;
    row.map(|row| Ok((row.get("secret")?, row.get("fingerprint")?)))
        .transpose()
}

fn check(
    given: Option<Keys>,
    secret: Option<Vec<u8>>,
    fingerprint: &[u8],
) -> std::result::Result<Keys, LoadError> {
    let keys = given.or_else(|| secret.map(Keys::new));
    keys.filter(|keys| keys.fingerprint() == fingerprint)
        .ok_or(LoadError::AnotherKey)
}
