//! API keys as an extractor. When a handler gets a [`Holder`] as an argument, the request had a
//! key that is valid now, has the scope that the handler names, and is within its limit.
//!
//! Every key is looked up by its hash, even if it is malformed or missing, so that all keys that
//! open nothing get the same answer after the same time. The memory in this file says only that a
//! key was good lately. The database is asked about the key at each request, so a revoked key
//! opens nothing from the next request on.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use domain::api_key::{Scope, Shops};
use domain::time::Timestamp;
use platform::lock::lock;
use platform::task;
use store::api_keys::{self, Known, USE_NOTED};
use uuid::Uuid;

use crate::App;
use crate::database::{READ_DEADLINE, step};
use crate::error::Error;
use crate::openapi::operation::{Input, Operation};
use server::client_address;

/// The scope that a handler requires of a key.
pub trait Needs {
    const SCOPE: Scope;
}

macro_rules! scopes {
    ($($scope:ident)*) => {$(
        pub struct $scope;

        impl Needs for $scope {
            const SCOPE: Scope = Scope::$scope;
        }
    )*};
}

scopes!(OrdersRead CheckoutWrite QrWrite EventsRead EndpointsRead EndpointsWrite ConnectionsRead ConnectionsWrite DeliveriesRead PrivacyRead PrivacyWrite);

/// The holder of a key that has the scope.
pub struct Holder<N> {
    pub id: Uuid,
    pub name: String,
    pub shops: Shops,
    scope: PhantomData<fn() -> N>,
}

impl<N: Needs> FromRequestParts<Arc<App>> for Holder<N> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let known = authenticate(app, parts).await?;
        if !known.rights.include(N::SCOPE) {
            return Err(Error::MissingScope(N::SCOPE));
        }
        Ok(Holder {
            id: known.id,
            name: known.name,
            shops: known.rights.shops,
            scope: PhantomData,
        })
    }
}

impl<N: Needs> Input for Holder<N> {
    fn describe(operation: Operation) -> Operation {
        operation.needs("apiKey").errors(&[
            Error::ApiKey,
            Error::RateLimited(READ_DEADLINE),
            Error::MissingScope(N::SCOPE),
            Error::Unavailable,
            Error::Internal,
        ])
    }
}

async fn authenticate(app: &Arc<App>, parts: &Parts) -> Result<Known, Error> {
    let key = bearer(parts).unwrap_or_default();
    let hash = api_keys::hash(key);
    let trusted = &app.config.trusted_proxies;
    let client = client_address::of(&parts.extensions, &parts.headers, trusted);
    // A key that is used too often is refused before the look-up.
    let seen = app.api_keys.seen(&hash);
    match seen {
        Some(id) => app.limits.api_key(id)?,
        None => app.limits.keys.admit(client).map_err(Error::RateLimited)?,
    }
    let now = app.clock.now();
    let asked = api_keys::authenticate(&app.db, hash, now);
    let asked = tokio::time::timeout(READ_DEADLINE, asked).await;
    let Some(known) = asked.map_err(|_| Error::Unavailable)?? else {
        app.api_keys.forget(&hash);
        app.limits.keys.worthless(client);
        return Err(Error::ApiKey);
    };
    if app.api_keys.is_first_use_of_minute(hash, &known, now) {
        note_use(app, known.id, now);
    }
    if seen.is_none() {
        app.limits.api_key(known.id)?;
    }
    Ok(known)
}

/// Whether a key that was good when a stream began is so still.
pub async fn is_still_good(app: &App, key: Uuid) -> bool {
    let good = api_keys::is_good(&app.db, key, app.clock.now());
    step(good).await.unwrap_or(false)
}

/// The bearer token of a request; `None` if there is none or more than one.
pub fn bearer(parts: &Parts) -> Option<&str> {
    let mut values = parts.headers.get_all(header::AUTHORIZATION).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Stores when the key was used, in a task of its own. The answer does not wait for it. If it
/// fails, a request in the next minute stores the time.
fn note_use(app: &Arc<App>, id: Uuid, now: Timestamp) {
    let app = app.clone();
    task::spawn("use of an API key", async move {
        if let Err(error) = api_keys::note_use(&app.db, id, now).await {
            tracing::debug!(%error, "the use of an API key was not noted");
        }
    });
}

/// The keys that were good when they were last used. There are never more of them than rows in the
/// table.
#[derive(Default)]
pub struct ApiKeys {
    good: Mutex<HashMap<[u8; 32], Good>>,
}

struct Good {
    id: Uuid,
    /// When its use was last stored.
    noted: Timestamp,
}

impl ApiKeys {
    /// The key with this hash, if it was good when it was last used.
    fn seen(&self, hash: &[u8; 32]) -> Option<Uuid> {
        lock(&self.good).get(hash).map(|good| good.id)
    }

    fn forget(&self, hash: &[u8; 32]) {
        lock(&self.good).remove(hash);
    }

    /// Whether the use of this key should be stored now, which is so once a minute. If another
    /// process has already stored the use in this minute, storing it again changes nothing.
    fn is_first_use_of_minute(&self, hash: [u8; 32], known: &Known, now: Timestamp) -> bool {
        let mut good = lock(&self.good);
        let here = good.get(&hash).map(|good| good.noted);
        let noted = here.max(known.last_used_at);
        let noted = noted.filter(|noted| now.since(*noted) < USE_NOTED);
        let entry = Good {
            id: known.id,
            noted: noted.unwrap_or(now),
        };
        good.insert(hash, entry);
        noted.is_none()
    }
}

#[cfg(test)]
#[path = "../tests/unit/api_key.rs"]
mod tests;
