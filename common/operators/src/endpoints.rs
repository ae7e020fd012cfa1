//! What operators and programs do to endpoints: each change with its entry in the audit.

use std::time::Duration;

use domain::endpoint::{LONGEST_ROTATION, Secret, State};
use domain::event::Pattern;
use domain::job::JobId;
use domain::time::Timestamp;
use platform::clock::Clock;
use providers::endpoints::{AddressError, Allowed, Webhook};
use serde_json::json;
use store::audit::By;
use store::endpoints::{self, Endpoint, MOST_ENDPOINTS};
use store::sql::{self, Db, Tx};
use store::{event_head, events, jobs};
use uuid::Uuid;

/// The longest address of an endpoint, in bytes.
pub const LONGEST_URL: usize = 2000;
/// How many patterns an endpoint may have.
pub const MOST_TYPES: usize = 20;

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("there is no endpoint with this id")]
    Unknown,
    #[error("{0}")]
    Address(AddressError),
    #[error(
        "the address of an endpoint has at most {LONGEST_URL} characters, and it has at most {MOST_TYPES} types"
    )]
    TooLong,
    #[error("there are already {MOST_ENDPOINTS} endpoints, which is the most; remove one first")]
    TooMany,
    #[error("the former secret can sign for at most 30 days")]
    Overlap,
    #[error("the endpoint has got another secret since you looked")]
    Changed,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// The endpoint that somebody wants to add.
pub struct WantedEndpoint<'a> {
    pub id: Uuid,
    pub url: &'a str,
    /// None means all types.
    pub types: Vec<Pattern>,
    /// It begins with the events of this age. `None`: with the next event.
    pub since: Option<Duration>,
}

/// Adds an endpoint. Returns it with its secret, which is shown this one time.
pub async fn add(
    db: &Db,
    by: By<'_>,
    clock: &Clock,
    allowed: &Allowed,
    new: WantedEndpoint<'_>,
) -> Result<(Endpoint, Secret), Refused> {
    let url = new.url;
    if url.len() > LONGEST_URL || new.types.len() > MOST_TYPES {
        return Err(Refused::TooLong);
    }
    allowed.check(url).map_err(Refused::Address)?;
    if endpoints::list(db).await?.len() >= MOST_ENDPOINTS {
        return Err(Refused::TooMany);
    }
    let types = if new.types.is_empty() {
        vec![Pattern::all()]
    } else {
        new.types
    };
    let position = match new.since {
        Some(age) => events::position_at(db, by.now.minus(age)).await?,
        None => event_head::newest(db).await?,
    };
    let (id, secret) = (new.id, Secret::new(clock.secret()));
    let row = endpoints::NewEndpoint {
        id,
        url,
        types: &types,
        secret: &secret,
        position,
    };
    let names: Vec<&str> = types.iter().map(Pattern::as_str).collect();
    let mut tx = db.begin().await?;
    endpoints::insert(&mut tx, by.keys, row, by.now).await?;
    by.note(&mut tx, "endpoint.added", id, json!({ "types": names }))
        .await?;
    tx.commit().await?;
    Ok((find(db, id).await?, secret))
}

pub async fn find(db: &Db, id: Uuid) -> Result<Endpoint, Refused> {
    endpoints::find(db, id).await?.ok_or(Refused::Unknown)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Pause,
    /// The first waiting event of each object is due at once, and all are tried for the full time
    /// again.
    Resume,
    Remove,
}

/// How many jobs one statement changes.
const CHUNK: usize = 512;

/// Changes an endpoint. False when it was so before.
pub async fn change(db: &Db, by: By<'_>, id: Uuid, change: Change) -> Result<bool, Refused> {
    let mut tx = db.begin().await?;
    if endpoints::lock(&mut tx, id).await?.is_none() {
        tx.rollback().await?;
        return Err(Refused::Unknown);
    }
    let (is_changed, action) = match change {
        Change::Pause => {
            let is_paused = endpoints::set_state(&mut tx, id, State::Paused, by.now).await?;
            (is_paused, "endpoint.paused")
        }
        Change::Resume => {
            let is_resumed = endpoints::set_state(&mut tx, id, State::Active, by.now).await?;
            if is_resumed {
                for jobs in endpoints::waiting_jobs(&mut tx, id).await?.chunks(CHUNK) {
                    jobs::restart(&mut tx, jobs.to_vec()).await?;
                }
                let first = endpoints::first_jobs(&mut tx, id).await?;
                release(&mut tx, first, by.now).await?;
            }
            (is_resumed, "endpoint.resumed")
        }
        Change::Remove => {
            // A job that finds no endpoint any more is done.
            let waiting = endpoints::waiting_jobs(&mut tx, id).await?;
            release(&mut tx, waiting, by.now).await?;
            (endpoints::remove(&mut tx, id).await?, "endpoint.removed")
        }
    };
    if is_changed {
        by.note(&mut tx, action, id, json!({})).await?;
    }
    tx.commit().await?;
    Ok(is_changed)
}

/// Makes jobs of webhooks due.
pub async fn release(tx: &mut Tx, jobs: Vec<JobId>, now: Timestamp) -> sql::Result<()> {
    for jobs in jobs.chunks(CHUNK) {
        jobs::release_unclaimed(tx, jobs.to_vec(), now).await?;
    }
    Ok(())
}

/// Which secret is to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Any,
    /// The one whose former secret signs until this time, so that it is replaced once, however often
    /// somebody asks for it.
    Until(Option<Timestamp>),
}

/// Gives an endpoint another secret, and returns it with the time until which the former one signs
/// too.
pub async fn rotate(
    db: &Db,
    by: By<'_>,
    clock: &Clock,
    id: Uuid,
    overlap: Duration,
    seen: Seen,
) -> Result<(Secret, Timestamp), Refused> {
    if overlap > LONGEST_ROTATION {
        return Err(Refused::Overlap);
    }
    let secret = Secret::new(clock.secret());
    let until = by.now.plus(overlap);
    let mut tx = db.begin().await?;
    let locked = endpoints::lock(&mut tx, id).await?;
    if let (Some(endpoint), Seen::Until(former)) = (&locked, seen)
        && endpoint.former_secret_until != former
    {
        tx.rollback().await?;
        return Err(Refused::Changed);
    }
    if !endpoints::rotate(&mut tx, by.keys, id, &secret, until, by.now).await? {
        tx.rollback().await?;
        return Err(Refused::Unknown);
    }
    let details = json!({ "former_until": until });
    by.note(&mut tx, "endpoint.rotated", id, details).await?;
    tx.commit().await?;
    Ok((secret, until))
}

/// An event of the type `endpoint.test`, signed for an endpoint, and its id. It is not stored.
pub async fn test_event(
    db: &Db,
    by: By<'_>,
    clock: &Clock,
    id: Uuid,
) -> Result<(Uuid, Webhook), Refused> {
    let found = endpoints::with_secrets(db, by.keys, id, by.now).await?;
    let (endpoint, secrets) = found.ok_or(Refused::Unknown)?;
    let event = clock.id();
    let body = json!({
        "id": event, "type": "endpoint.test", "shop": null, "object_id": id.to_string(),
        "created_at": by.now, "data": {},
    });
    let body = body.to_string().into_bytes();
    let webhook = Webhook::signed(&endpoint.url, &secrets, event.to_string(), by.now, body);
    Ok((event, webhook))
}
