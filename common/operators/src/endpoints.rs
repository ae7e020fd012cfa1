//! What operators and programs do to endpoints: each change with its entry in the audit.

use std::time::Duration;

use domain::endpoint::{LONGEST_ROTATION, Secret, State};
use domain::event::Pattern;
use domain::job::{Internal, JobId, Kind};
use domain::time::Timestamp;
use platform::clock::Clock;
use providers::endpoints::{AddressError, Allowed};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::audit::By;
use store::broker::BROKER;
use store::endpoints::{self, Endpoint, MOST_ENDPOINTS};
use store::jobs::{self, NewJob};
use store::sql::{self, Db, Tx};
use store::{event_head, events, job_attempts, leases};
use tokio::time::Instant;
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
    #[error(
        "RabbitMQ has no secret here, and gets events while AMQP_URL is set: pause it, or stop what has AMQP_URL and \
         remove it then"
    )]
    Broker,
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
    if endpoints::of_webhooks(db).await?.len() >= MOST_ENDPOINTS {
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
    // While it is published to, it would be there again at once.
    if change == Change::Remove
        && id == BROKER
        && leases::is_held(db, leases::EVENTS, by.now, by.now).await?
    {
        return Err(Refused::Broker);
    }
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
    if id == BROKER {
        return Err(Refused::Broker);
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

/// The body of a job that tests an endpoint.
#[derive(Serialize, Deserialize)]
pub struct Test {
    pub endpoint_id: Uuid,
}

/// What became of a test event.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The id of the event, and of the job that sends it.
    pub id: JobId,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepted,
    /// Why it was not.
    NotAccepted(String),
    /// No worker has said so far what became of it.
    Unknown,
}

impl Outcome {
    /// Whether it was accepted, if that is known.
    pub fn accepted(&self) -> Option<bool> {
        match self {
            Outcome::Accepted => Some(true),
            Outcome::NotAccepted(_) => Some(false),
            Outcome::Unknown => None,
        }
    }

    /// Why it was not accepted, or what to look at.
    pub fn error(&self) -> Option<&str> {
        match self {
            Outcome::Accepted => None,
            Outcome::NotAccepted(why) => Some(why),
            Outcome::Unknown => Some(NOT_SENT),
        }
    }
}

/// As long as a test can take: a worker begins it within seconds, and an endpoint has 15 s to answer.
pub const TEST_PATIENCE: Duration = Duration::from_secs(20);

/// What is to be looked at when no worker has sent a test event.
pub const NOT_SENT: &str = "no worker has said yet what became of it; see that the queue `endpoints` has a worker of this \
                            version and is not paused, and that the broker is there";

/// How often it is asked whether a worker has sent a test event.
const POLL: Duration = Duration::from_millis(100);

/// Has a worker send an event of the type `endpoint.test` to an endpoint, as it sends all others: from its machine, and
/// with its settings. The event is not stored. Waits for the end, at most for `patience`.
pub async fn test(db: &Db, clock: &Clock, id: Uuid, patience: Duration) -> Result<Tested, Refused> {
    let begun = Instant::now();
    find(db, id).await?;
    let (job, now) = (clock.id(), clock.now());
    let body = json!(Test { endpoint_id: id }).to_string();
    let new = NewJob {
        object_id: Some(id.to_string()),
        // The sweep notifies workers.
        ..NewJob::of(Kind::Internal(Internal::TestEndpoint), job, body, now)
    };
    let mut tx = db.begin().await?;
    jobs::insert(&mut tx, &[&new]).await?;
    tx.commit().await?;
    let mut outcome = Outcome::Unknown;
    while outcome == Outcome::Unknown && begun.elapsed() < patience {
        tokio::time::sleep(POLL).await;
        match outcome_of(db, job).await {
            Ok(found) => outcome = found,
            // The test goes on, so its end is to be learned when the database is back.
            Err(error) if sql::is_outage(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Tested { id: job, outcome })
}

async fn outcome_of(db: &Db, job: JobId) -> sql::Result<Outcome> {
    let shown = jobs::show(db, job).await?;
    let Some(ended) = shown.filter(|it| it.finished_at.is_some()) else {
        return Ok(Outcome::Unknown);
    };
    if let Some(error) = ended.last_error {
        return Ok(Outcome::NotAccepted(error));
    }
    let attempts = job_attempts::list(db, job).await?;
    let failed = attempts
        .into_iter()
        .rfind(|it| it.outcome == job_attempts::Outcome::Failed.into_str());
    Ok(failed.map_or(Outcome::Accepted, |it| Outcome::NotAccepted(it.error)))
}
