//! The `privacy_keys` table: the fingerprint of the key behind tombstones, audit, receipts and
//! links, and the key itself if a SQLite database made its own. With another key every tombstone
//! would be void, so a process does not start with one. A PostgreSQL database never stores the
//! key, because somebody who reads its tables or a backup of them must not get the key that
//! signs.

use crate::sql::{Db, Error, FromRow, Result};
use domain::privacy::Keys;
use platform::clock::Clock;
use platform::token::Token;

/// The prefix of a key that a database made, when it is used as a setting. Hexadecimal digits
/// follow.
const HEX: &str = "hex:";

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "PRIVACY_KEY is not the one that this database was used with; with another one, people \
         whose data was erased would not be recognized. Set the one that it was used with, or, \
         if none was, unset it"
    )]
    AnotherKey,
    #[error(
        "PRIVACY_KEY is missing, and this database was used with one; set the same one here, or \
         PRIVACY_KEY_FILE"
    )]
    NoKey,
    #[error(
        "PRIVACY_KEY is missing; with PostgreSQL it must be set, for services and commands alike: \
         openssl rand -hex 32"
    )]
    Needed,
    #[error(transparent)]
    Database(#[from] Error),
}

/// Why a database's own key cannot be taken out.
#[derive(Debug, thiserror::Error)]
pub enum NoSecret {
    #[error("the database has no key of its own: it is used with PRIVACY_KEY, or was never used")]
    None,
    #[error(transparent)]
    Database(#[from] Error),
}

/// The keys of this database. A SQLite database makes a key when it has none and none is set. If
/// a key is set, its copy in the database is deleted.
pub async fn load(
    db: &Db,
    setting: Option<&Token>,
    clock: &Clock,
) -> std::result::Result<Keys, LoadError> {
    if let Some(stored) = stored(db).await? {
        return checked(db, setting, stored).await;
    }
    let (keys, secret) = match setting.map(read).and_then(|keys| keys.into_iter().next()) {
        Some(keys) => (keys, None),
        None if db.name() == "sqlite" => {
            let secret = clock.secret().to_vec();
            (Keys::new(secret.clone()), Some(secret))
        }
        None => return Err(LoadError::Needed),
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
    // Another process may have stored a key first.
    match stored(db).await? {
        Some(stored) => checked(db, setting, stored).await,
        None => Err(Error::RowNotFound.into()),
    }
}

/// Checks without changing anything that this setting is the key of this database, if it has one.
pub async fn check(db: &Db, setting: Option<&Token>) -> std::result::Result<(), LoadError> {
    match stored(db).await? {
        Some(stored) => fitting(setting, &stored).map(drop),
        None => Ok(()),
    }
}

/// The keys of this database, without changing anything. None if there are none yet, or if the
/// setting is another key.
pub async fn look(db: &Db, setting: Option<&Token>) -> Result<Option<Keys>> {
    let Some(Stored {
        secret,
        fingerprint,
    }) = stored(db).await?
    else {
        return Ok(None);
    };
    let set = setting.map(read).unwrap_or_default();
    let mut keys = set.into_iter().chain(secret.map(Keys::new));
    Ok(keys.find(|keys| keys.fingerprint().as_slice() == fingerprint))
}

/// The key that the database made, in the form of a setting: `hex:` and its digits.
pub async fn taken_out(db: &Db) -> std::result::Result<(Token, Keys), NoSecret> {
    let stored = stored(db).await?;
    let secret = stored.and_then(|stored| stored.secret);
    let secret = secret.ok_or(NoSecret::None)?;
    let text = format!("{HEX}{}", hex::encode(&secret));
    Ok((Token::new(text), Keys::new(secret)))
}

#[derive(FromRow)]
struct Stored {
    secret: Option<Vec<u8>>,
    fingerprint: Vec<u8>,
}

async fn stored(db: &Db) -> Result<Option<Stored>> {
    db.query("select secret, fingerprint from privacy_keys where id = 1")
        .first(Stored::from_row)
        .await
}

/// The keys that a setting can mean: the text itself, or a key that a database made.
fn read(setting: &Token) -> Vec<Keys> {
    let text = setting.expose();
    let made = text.strip_prefix(HEX).and_then(|it| hex::decode(it).ok());
    let made = made.filter(|secret| secret.len() >= 32);
    let as_it_stands = Keys::new(text.as_bytes().to_vec());
    made.map(Keys::new)
        .into_iter()
        .chain([as_it_stands])
        .collect()
}

async fn checked(
    db: &Db,
    setting: Option<&Token>,
    stored: Stored,
) -> std::result::Result<Keys, LoadError> {
    let keys = fitting(setting, &stored)?;
    if setting.is_some() && stored.secret.is_some() {
        let mut tx = db.begin().await?;
        tx.query("update privacy_keys set secret = null where id = 1")
            .execute()
            .await?;
        tx.commit().await?;
        db.erased();
    }
    Ok(keys)
}

/// The keys that a database was used with: those that are set, or else those that it has stored.
fn fitting(setting: Option<&Token>, stored: &Stored) -> std::result::Result<Keys, LoadError> {
    let keys = match (setting, &stored.secret) {
        (Some(setting), _) => read(setting),
        (None, Some(secret)) => vec![Keys::new(secret.clone())],
        (None, None) => return Err(LoadError::NoKey),
    };
    let mut keys = keys.into_iter();
    let keys = keys.find(|keys| keys.fingerprint().as_slice() == stored.fingerprint);
    keys.ok_or(LoadError::AnotherKey)
}
