//! The job that sends an event to an endpoint again, after the endpoint did not accept it at first
//! (`crate::webhooks`).
//!
//! The job is retried for three days (`domain::job`). After that it is dead, and the next event of
//! its object is sent, for which three days begin. The first webhook that an endpoint accepts after it
//! was away makes the jobs of all others due.
//!
//! And the job that sends a test event, whose failure is the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use bus::{Bus, JobRef};
use domain::endpoint::State;
use domain::envelope::Envelope;
use domain::job::{Internal, Job, JobId, Kind};
use domain::time::Timestamp;
use flows::outbox::{self, JobNotification};
use operators::endpoints::Test;
use platform::clock::Clock;
use process::Parts;
use providers::endpoints::{Failed, Sender, Webhook};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::endpoints::Endpoint;
use store::job_attempts::{self, Outcome};
use store::sql::{self, Tx};
use store::{endpoints, events, jobs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use super::Answer;
use crate::attempt::Begun;
use crate::failure::{Later, storable};

/// How many jobs of a process send to one endpoint at a time, so that a slow endpoint leaves room
/// for the others.
const AT_ONCE: usize = 8;
/// When a job is tried again for which there was no room: at the earliest and at the latest.
const NO_ROOM: Duration = Duration::from_secs(1);
const LONGEST_LINE: Duration = Duration::from_mins(10);
/// When a job of a paused endpoint is looked at again.
const PAUSED: Duration = Duration::from_mins(10);
/// An endpoint that has accepted nothing for this long is paused when a webhook to it is given up.
const FAILING: Duration = Duration::from_hours(24);

#[derive(Serialize, Deserialize)]
pub struct Body {
    pub endpoint_id: Uuid,
    pub event_id: Uuid,
}

/// How a test ended: when it was sent, and why it was not accepted.
pub struct Tested {
    begun: Begun,
    failed: Option<(String, Option<u16>)>,
}

/// Whoever asked for an older test no longer waits for it. It is shorter than a claim lasts, so a test whose process died
/// is not sent once more.
const TEST_KEPT: Duration = Duration::from_secs(30);

/// How the work of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Accepted,
    /// The endpoint was removed, or the event is no longer kept.
    NotWanted,
}

/// The room for calls to each endpoint.
#[derive(Clone, Default)]
pub struct Rooms(Arc<Mutex<HashMap<Uuid, Room>>>);

struct Room {
    calls: Arc<Semaphore>,
    /// How long the last call took.
    took: Duration,
    /// When the next job that finds no room should come again.
    next: Instant,
}

impl Rooms {
    /// The permit to call an endpoint. `Err`: there is no room, and after this pause there should be
    /// some. Jobs that find no room get places in a line, one after the other, so that each comes
    /// again about once, however many wait for an endpoint that is slow.
    fn enter(&self, endpoint: Uuid) -> Result<OwnedSemaphorePermit, Duration> {
        let mut rooms = self.lock();
        let now = Instant::now();
        let is_needed = |room: &Room| room.calls.available_permits() < AT_ONCE || room.next > now;
        rooms.retain(|id, room| *id == endpoint || is_needed(room));
        let room = rooms.entry(endpoint).or_insert_with(|| Room {
            calls: Arc::new(Semaphore::new(AT_ONCE)),
            took: Duration::ZERO,
            next: now,
        });
        room.calls.clone().try_acquire_owned().map_err(|_| {
            let each = room.took / u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
            room.next = room.next.max(now + NO_ROOM).min(now + LONGEST_LINE) + each;
            room.next - now
        })
    }

    fn took(&self, endpoint: Uuid, time: Duration) {
        if let Some(room) = self.lock().get_mut(&endpoint) {
            room.took = time;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Room>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn notification(job: JobId) -> JobNotification {
    JobNotification {
        kind: Kind::Internal(Internal::SendEvent),
        job_ref: JobRef {
            job,
            traceparent: None,
        },
    }
}

pub async fn call(parts: &Parts, sender: &Sender, rooms: &Rooms, job: &Job) -> Result<Answer> {
    let Body {
        endpoint_id,
        event_id,
    } = outbox::body(job)?;
    let (db, now) = (&parts.db, parts.clock.now());
    let found = endpoints::with_secrets(db, &parts.keys, endpoint_id, now).await?;
    let event = events::by_ids(db, vec![event_id]).await?.pop();
    let (Some((endpoint, secrets)), Some(event)) = (found, event) else {
        return Ok(Answer::Webhook(Ended::NotWanted));
    };
    if endpoint.state != State::Active {
        return Err(Paused(endpoint_id).into());
    }
    let _room = rooms.enter(endpoint_id).map_err(|pause| {
        let why = "it waits for other webhooks of its endpoint";
        Later { why, pause }
    })?;
    let body = serde_json::to_vec(&event)?;
    let webhook = Webhook::signed(&endpoint.url, &secrets, event_id.to_string(), now, body);
    let begun = Instant::now();
    let sent = sender.send(webhook).await;
    rooms.took(endpoint_id, begun.elapsed());
    count(&sent);
    let Err(failed) = sent else {
        return Ok(Answer::Webhook(Ended::Accepted));
    };
    let now = parts.clock.now();
    let mut tx = db.begin().await?;
    let error = storable(&failed.clone().into());
    endpoints::failed(&mut tx, endpoint_id, 1, &error, now).await?;
    let is_paused = failed == Failed::Gone
        && endpoints::set_state(&mut tx, endpoint_id, State::Gone, now).await?;
    tx.commit().await?;
    if is_paused {
        log_pause(endpoint_id, State::Gone);
    }
    Err(failed.into())
}

/// Sends a test event to an endpoint, in whatever state that is. The job's id is the event's. Each failure is the answer,
/// and none is tried again.
pub async fn test(parts: &Parts, sender: &Sender, rooms: &Rooms, job: &Job) -> Result<Answer> {
    let begun = Begun::now(&parts.clock);
    let failed = test_failure(parts, sender, rooms, job).await?;
    Ok(Answer::Tested(Tested { begun, failed }))
}

async fn test_failure(
    parts: &Parts,
    sender: &Sender,
    rooms: &Rooms,
    job: &Job,
) -> Result<Option<(String, Option<u16>)>> {
    let (db, now) = (&parts.db, parts.clock.now());
    if job.created_at < now.minus(TEST_KEPT) {
        let why = "it is older than 30 s by the clock of this worker; test the endpoint again";
        return Ok(Some((why.to_owned(), None)));
    }
    let Test { endpoint_id } = outbox::body(job)?;
    let found = endpoints::with_secrets(db, &parts.keys, endpoint_id, now).await;
    let (endpoint, secrets) = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Some(("it was removed".to_owned(), None))),
        Err(error) if sql::is_outage(&error) => return Err(error.into()),
        Err(error) => return Ok(Some((storable(&error.into()), None))),
    };
    let event = Envelope {
        id: job.id,
        kind: "endpoint.test".to_owned(),
        shop: None,
        object_id: endpoint_id.to_string(),
        created_at: now,
        data: serde_json::value::to_raw_value(&json!({}))?,
        position: 0,
        traceparent: None,
    };
    if endpoint.is_broker() {
        return Ok(test_broker(&parts.bus, &event).await);
    }
    let Ok(_room) = rooms.enter(endpoint_id) else {
        return Ok(Some(("it is busy with other webhooks".to_owned(), None)));
    };
    let (id, body) = (event.id.to_string(), serde_json::to_vec(&event)?);
    let webhook = Webhook::signed(&endpoint.url, &secrets, id, now, body);
    let Err(failed) = sender.send(webhook).await else {
        return Ok(None);
    };
    let status = failed.status();
    Ok(Some((storable(&failed.into()), status)))
}

async fn test_broker(bus: &Bus, event: &Envelope) -> Option<(String, Option<u16>)> {
    if bus.is_local() {
        return Some(("the worker that tests it has no AMQP_URL".to_owned(), None));
    }
    let failed = bus.publish_events(&[event]).await.failure?;
    Some((storable(&failed), None))
}

/// Records how a test ended. One that failed is an attempt of its job.
pub async fn record_test(
    clock: &Clock,
    tx: &mut Tx,
    job: &Job,
    tested: &Tested,
) -> sql::Result<()> {
    let Some((error, status)) = &tested.failed else {
        return Ok(());
    };
    let attempt = tested.begun.attempt(clock, Outcome::Failed, error, *status);
    job_attempts::add(tx, job.id, &attempt).await
}

/// The end of a run whose endpoint takes nothing now. No failure is counted.
#[derive(Debug, thiserror::Error)]
#[error("its endpoint is paused")]
pub struct Paused(Uuid);

impl Paused {
    /// When the job is to run again, asked in the transaction that defers it. The endpoint may have been
    /// resumed since the run saw it paused, and whoever resumes it makes only those jobs due that were
    /// deferred before.
    pub async fn pause(&self, tx: &mut Tx) -> sql::Result<Duration> {
        let endpoint = endpoints::lock(tx, self.0).await?;
        let is_paused = endpoint.is_some_and(|endpoint| endpoint.state != State::Active);
        Ok(if is_paused { PAUSED } else { Duration::ZERO })
    }
}

pub fn count(sent: &Result<(), Failed>) {
    let outcome = match sent {
        Ok(()) => "accepted",
        Err(Failed::Address(_)) => "address",
        Err(Failed::Unreachable(_)) => "unreachable",
        Err(Failed::TooSlow) => "too_slow",
        Err(Failed::Status { .. }) => "status",
        Err(Failed::Gone) => "gone",
    };
    metrics::counter!("waybill_webhooks_sent_total", "outcome" => outcome).increment(1);
}

pub fn log_pause(endpoint: Uuid, state: State) {
    tracing::error!(
        %endpoint, %state,
        "an endpoint is paused; mend it, then run `waybill endpoints resume`"
    );
}

/// Records that an endpoint accepted a webhook. If it was away before, all that waits for it is due.
pub async fn accepted(tx: &mut Tx, endpoint: &Endpoint, now: Timestamp) -> sql::Result<()> {
    if endpoints::delivered(tx, endpoint, now).await? {
        let first = endpoints::first_jobs(tx, endpoint.id).await?;
        operators::endpoints::release(tx, first, now).await?;
        tracing::info!(endpoint = %endpoint.id, "an endpoint accepts webhooks again");
    }
    Ok(())
}

/// Records how the work of this job ended.
pub async fn record(tx: &mut Tx, job: &Job, ended: Ended, now: Timestamp) -> Result<()> {
    let Body {
        endpoint_id,
        event_id,
    } = outbox::body(job)?;
    if let Some(endpoint) = endpoints::lock(tx, endpoint_id).await? {
        go_on(tx, endpoint_id, event_id, now).await?;
        if ended == Ended::Accepted {
            accepted(tx, &endpoint, now).await?;
        }
    }
    Ok(())
}

/// Records that the webhook of this job is given up. An endpoint that has accepted nothing for a
/// day is paused then.
pub async fn on_exhausted(tx: &mut Tx, job: &Job, now: Timestamp) -> sql::Result<()> {
    let Ok(Body {
        endpoint_id,
        event_id,
    }) = outbox::body(job)
    else {
        return Ok(());
    };
    let Some(endpoint) = endpoints::lock(tx, endpoint_id).await? else {
        return Ok(());
    };
    go_on(tx, endpoint_id, event_id, now).await?;
    let is_failing = endpoint
        .failing_since
        .is_some_and(|since| since <= now.minus(FAILING));
    if is_failing && endpoints::set_state(tx, endpoint_id, State::Failing, now).await? {
        log_pause(endpoint_id, State::Failing);
    }
    Ok(())
}

/// Makes the next event of the object due.
async fn go_on(tx: &mut Tx, endpoint: Uuid, event: Uuid, now: Timestamp) -> sql::Result<()> {
    let position = events::position_in(event);
    if let Some(next) = endpoints::remove_waiting(tx, endpoint, position).await? {
        jobs::wake(tx, next, now).await?;
    }
    Ok(())
}
