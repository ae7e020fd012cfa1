//! How operators make and revoke API keys: each with its entry in the audit.

use std::time::Duration;

use domain::api_key::{Rights, Scope, Shops};
use domain::time::Timestamp;
use platform::clock::Clock;
use serde_json::json;
use store::api_keys::{self, DEVELOPMENT};
use store::audit::By;
use store::orders::CHECKOUT;
use store::sql::{self, Db};
use uuid::Uuid;

/// The longest name of a key, in bytes.
const LONGEST: usize = 200;
/// A key ends after at most so many days, or never.
pub const MOST_DAYS: u32 = 3650;

/// Why no key was made.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("{0:?} cannot be the name of a key; choose another")]
    Name(String),
    #[error(
        "a checkout makes an order of the shop `checkout`, which this key could not touch: add the \
         shop checkout"
    )]
    Checkout,
    #[error(
        "with an account somebody signs in to the console, and this key does not open it: give it a scope of the \
         console, and no shops"
    )]
    Account,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// The key that somebody wants.
pub struct WantedKey<'a> {
    pub id: Uuid,
    pub name: &'a str,
    /// None means all but those of the console.
    pub scopes: Vec<Scope>,
    /// None means all.
    pub shops: Vec<String>,
    /// It ends after so many days. `None`: never.
    pub days: Option<u32>,
    /// The number of the identity provider's account whose holder may sign in to the console with its rights.
    pub account: Option<i64>,
}

/// A key that was made. It has no Debug, because the key is shown this one time.
pub struct Made {
    pub key: String,
    pub rights: Rights,
    pub expires_at: Option<Timestamp>,
}

/// Makes a key.
pub async fn create(
    db: &Db,
    by: By<'_>,
    clock: &Clock,
    new: WantedKey<'_>,
) -> Result<Made, Refused> {
    let name = new.name;
    let is_name = !name.trim().is_empty()
        && name != DEVELOPMENT
        && name.len() <= LONGEST
        && !name.contains(char::is_control);
    if !is_name {
        return Err(Refused::Name(name.to_owned()));
    }
    let is_checkout = new.scopes.contains(&Scope::CheckoutWrite);
    let rights = Rights {
        scopes: listed(new.scopes),
        shops: Shops(listed(new.shops)),
    };
    if new.account.is_some() && rights.roles().is_empty() {
        return Err(Refused::Account);
    }
    if is_checkout && !rights.shops.have(CHECKOUT) {
        return Err(Refused::Checkout);
    }
    let life = |days: u32| Duration::from_hours(u64::from(days) * 24);
    let expires_at = new.days.map(|days| by.now.plus(life(days)));
    let mut tx = db.begin().await?;
    let made = api_keys::create(&mut tx, clock, new.id, name, expires_at, &rights).await?;
    if let Some(account) = new.account {
        api_keys::bind_to_account(&mut tx, new.id, account).await?;
    }
    let mut details = json!({
        "scopes": rights.scopes, "shops": rights.shops, "expires_at": expires_at,
    });
    if let Some(account) = new.account {
        details["account"] = account.into();
    }
    by.note(&mut tx, "key.created", new.id, details).await?;
    tx.commit().await?;
    Ok(Made {
        key: made.key,
        rights,
        expires_at,
    })
}

/// Each once and in order. None when there are none.
fn listed<T: Ord>(mut all: Vec<T>) -> Option<Vec<T>> {
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then_some(all)
}

/// Revokes a key for good. Sessions of the console that began with it end at once. False when it was revoked
/// before, or when there is no such key.
pub async fn revoke(db: &Db, by: By<'_>, id: Uuid) -> sql::Result<bool> {
    let mut tx = db.begin().await?;
    let is_revoked = api_keys::revoke(&mut tx, id, by.now).await?;
    if is_revoked {
        by.note(&mut tx, "key.revoked", id, json!({})).await?;
    }
    tx.commit().await?;
    Ok(is_revoked)
}
