//! Sends events to the endpoints of the merchant's own systems as webhooks.
//!
//! One process does it for all, the one that holds the lease [`WEBHOOKS`]; the others wait for the
//! lease. Each endpoint has a task of its own, so that a slow one delays no other. A task reads the
//! events after the endpoint's cursor in waves, sends up to [`AT_ONCE`] of them at a time, those of
//! one object one after the other, and then commits what became of the wave in one transaction: the
//! cursor moves past all of them, and for each event that was not accepted a job is stored, which
//! sends it again (`handlers::webhooks`). Later events of the same object wait behind it.
//!
//! When an endpoint accepts nothing of a wave, the rest of the wave is left for later, and the next
//! wave is tried after a pause that grows up to [`LONGEST_REST`], or as soon as the endpoint accepts
//! one of the events that are sent again. An endpoint that accepts some events and not others gets
//! the next ones at once.
//!
//! If the process dies before the commit, the wave is sent again. A receiver knows repeats by the
//! id of the webhook, which is the event's. If two processes believe that they hold the lease, the
//! one that commits second finds that the cursor has moved, and discards its wave.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use domain::endpoint::{Secret, State};
use domain::envelope::Envelope;
use domain::job::{Internal, Kind, Queue};
use domain::time::Timestamp;
use flows::outbox::JobNotification;
use futures_util::{StreamExt, stream};
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use platform::task;
use providers::endpoints::{Failed, Webhook};
use store::endpoints::{self, Endpoint, MOST_WAITING, Object, Waiting};
use store::event_head;
use store::events;
use store::jobs::{self, NewJob};
use store::leases::WEBHOOKS;
use store::sql::Tx;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Worker;
use crate::failure::storable;
use crate::handlers::webhooks::{self as handler, Body};
use crate::lease::Lease;

/// Webhooks wait for at most this time when the process that sends them is killed.
const LEASE_LENGTH: Duration = Duration::from_secs(10);
/// The pause between two tries to get the lease while another process holds it.
const WAIT_FOR_LEASE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After this time endpoints are read again, even if nothing happened: one may have been added.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many events a wave looks at.
const WAVE: i64 = 256;
/// How many webhooks are on their way to one endpoint at a time.
const AT_ONCE: usize = 16;
/// After so many failures and no success, the rest of a wave is left to a later one.
const FAILURES: usize = 8;
/// How long an endpoint rests after such a wave, the first time and at most.
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(5);
/// When an event that was not accepted is sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// A job that waits for an earlier event of its object is made due when that one ends, which is
/// long before this time.
const BEHIND: Duration = Duration::from_hours(10 * 365 * 24);
/// How long webhooks that are on their way may take after the process was asked to stop.
const GRACE: Duration = Duration::from_secs(5);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    if worker.queue != Queue::Endpoints {
        return;
    }
    let mut sending = Sending::new(worker, shutdown.clone());
    while !shutdown.is_cancelled() && sending.worker.may_work(&shutdown).await {
        let pause = sending.turn().await;
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => {}
        }
    }
    sending.end().await;
}

/// The process that sends webhooks.
struct Sending {
    worker: Arc<Worker>,
    shutdown: CancellationToken,
    lease: Lease,
    /// The tasks that send, by endpoint.
    tasks: BTreeMap<Uuid, Task>,
    /// The endpoints that accepted nothing of their last wave.
    rests: HashMap<Uuid, Rest>,
    /// The head up to which events were seen, and the time at which endpoints were last read.
    seen: Option<(i64, Instant)>,
    /// Whether any endpoint was active then.
    is_any_active: bool,
    backoff: Backoff,
    /// Whether the last turn failed.
    is_failing: bool,
}

impl Sending {
    fn new(worker: Arc<Worker>, shutdown: CancellationToken) -> Self {
        Sending {
            lease: Lease::new(&worker.parts, WEBHOOKS, LEASE_LENGTH),
            worker,
            shutdown,
            tasks: BTreeMap::new(),
            rests: HashMap::new(),
            seen: None,
            is_any_active: false,
            backoff: Backoff::new(PAUSE, LONGEST_PAUSE),
            is_failing: false,
        }
    }

    /// Starts a task for each endpoint that has events to get and no task, and returns how long to
    /// wait before the next turn.
    async fn turn(&mut self) -> Duration {
        match self.start_tasks().await {
            Ok(true) => {
                self.backoff.reset();
                self.is_failing = false;
                if self.is_any_active {
                    PAUSE
                } else {
                    LOOK_AGAIN
                }
            }
            Ok(false) => WAIT_FOR_LEASE,
            Err(error) => {
                if !self.is_failing {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "no webhooks are sent to endpoints; trying again");
                }
                self.is_failing = true;
                self.backoff.next_pause()
            }
        }
    }

    /// False when another process holds the lease.
    async fn start_tasks(&mut self) -> Result<bool> {
        if !self.hold().await? {
            return Ok(false);
        }
        self.end_tasks();
        let worker = self.worker.clone();
        if worker.is_paused().await? {
            for task in self.tasks.values() {
                task.stop.cancel();
            }
            self.seen = None;
            return Ok(true);
        }
        let db = &worker.parts.db;
        let known = self.seen.map_or(0, |(head, _)| head);
        let head = event_head::newest_after(db, known).await?;
        let is_seen = |(seen, at): (i64, Instant)| seen == head && at.elapsed() < LOOK_AGAIN;
        if self.seen.is_some_and(is_seen) {
            return Ok(true);
        }
        let looked_at = Instant::now();
        let endpoints = endpoints::of_webhooks(db).await?;
        for (id, task) in &self.tasks {
            if !endpoints.iter().any(|it| it.id == *id && task.suits(it)) {
                task.stop.cancel();
            }
        }
        let is_active = |id: &Uuid| {
            let mut endpoints = endpoints.iter();
            endpoints.any(|it| it.id == *id && it.state == State::Active)
        };
        self.rests.retain(|id, _| is_active(id));
        self.is_any_active = endpoints.iter().any(|it| it.state == State::Active);
        // The head may be the position of an event that was rolled back.
        let newest = events::last(db, head).await?;
        let newest = newest.map_or(0, |event| event.position);
        for endpoint in endpoints {
            let wants = endpoint.state == State::Active && endpoint.position < newest;
            let rests = Rest::goes_on(self.rests.get(&endpoint.id), endpoint.failing_since);
            if wants && !rests && !self.tasks.contains_key(&endpoint.id) {
                let stop = self.shutdown.child_token();
                let sends = send_all(worker.clone(), endpoint.id, stop.clone());
                let (ended, next) = oneshot::channel();
                let sends = async move {
                    // The one who started it may be gone.
                    let _ = ended.send(sends.await);
                };
                let task = Task {
                    task: task::spawn("webhooks of an endpoint", sends),
                    next,
                    stop,
                    former_secret_until: endpoint.former_secret_until,
                };
                self.tasks.insert(endpoint.id, task);
            }
        }
        self.seen = Some((head, looked_at));
        Ok(true)
    }

    /// Removes the tasks that have ended. A task whose endpoint is to rest says so.
    fn end_tasks(&mut self) {
        let ended = self.tasks.iter().filter(|(_, it)| it.task.is_finished());
        let ended: Vec<Uuid> = ended.map(|(endpoint, _)| *endpoint).collect();
        for endpoint in ended {
            let Some(mut ended) = self.tasks.remove(&endpoint) else {
                continue;
            };
            match ended.next.try_recv() {
                Ok(Next::Rest(wait)) => self.rests.entry(endpoint).or_default().begin(wait),
                Ok(Next::Wait(wait)) => {
                    self.rests.insert(endpoint, Rest::asked_for(wait));
                }
                _ => {
                    self.rests.remove(&endpoint);
                }
            }
        }
    }

    /// Whether this process holds the lease. When another one does, what it sends is ended.
    async fn hold(&mut self) -> Result<bool> {
        let ours = self.lease.hold(&self.worker.parts).await?;
        if !ours {
            for ended in std::mem::take(&mut self.tasks).into_values() {
                ended.task.abort();
            }
        }
        Ok(ours)
    }

    async fn end(&mut self) {
        for ended in std::mem::take(&mut self.tasks).into_values() {
            // A task that panicked has said so.
            let _ = ended.task.await;
        }
        self.lease.let_go(&self.worker.parts).await;
    }
}

/// The task that sends to an endpoint.
struct Task {
    task: JoinHandle<()>,
    /// What it says when it ends.
    next: oneshot::Receiver<Next>,
    /// Ends the task soon: what is on its way may end, and the rest of the wave waits.
    stop: CancellationToken,
    /// By this time it is seen that the endpoint got another secret.
    former_secret_until: Option<Timestamp>,
}

impl Task {
    /// Whether the task may go on: the endpoint is active and has the same secrets as before.
    fn suits(&self, endpoint: &Endpoint) -> bool {
        let is_same = endpoint.former_secret_until == self.former_secret_until;
        endpoint.state == State::Active && is_same
    }
}

/// The pause of an endpoint that accepts nothing, or that has asked for one.
struct Rest {
    backoff: Backoff,
    until: Instant,
    is_asked_for: bool,
}

impl Default for Rest {
    fn default() -> Self {
        Rest {
            backoff: Backoff::new(REST, LONGEST_REST),
            until: Instant::now(),
            is_asked_for: false,
        }
    }
}

impl Rest {
    /// The pause that an endpoint has asked for which accepts other webhooks.
    fn asked_for(wait: Duration) -> Self {
        Rest {
            until: Instant::now() + wait,
            is_asked_for: true,
            ..Rest::default()
        }
    }

    /// Begins a pause that is at least as long as the endpoint asks for.
    fn begin(&mut self, wait: Duration) {
        self.until = Instant::now() + self.backoff.next_pause().max(wait);
    }

    /// Whether an endpoint is still to be left alone. One that accepted nothing is not, once it has
    /// accepted something.
    fn goes_on(rest: Option<&Rest>, failing_since: Option<Timestamp>) -> bool {
        rest.is_some_and(|rest| {
            (rest.is_asked_for || failing_since.is_some()) && Instant::now() < rest.until
        })
    }
}

/// What is next for an endpoint after a wave.
enum Next {
    /// There may be more to send.
    Wave,
    /// It has all events, or too many of them wait, or it is paused.
    Nothing,
    /// It accepts nothing, and asks for a pause of this length, which may be zero.
    Rest(Duration),
    /// It accepts some and asks for a pause of this length.
    Wait(Duration),
}

/// Sends wave after wave to an endpoint, until it has all events or is to be left alone.
async fn send_all(worker: Arc<Worker>, endpoint: Uuid, shutdown: CancellationToken) -> Next {
    while !shutdown.is_cancelled() {
        match worker.send_wave(endpoint, &shutdown).await {
            Ok(Next::Wave) => {}
            Ok(next) => return next,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(%endpoint, error, "webhooks are not sent to an endpoint; trying again");
                // The next turn starts another task.
                return Next::Nothing;
            }
        }
    }
    Next::Nothing
}

/// What became of an event.
enum Outcome {
    Accepted,
    /// It is sent again after this pause.
    Failed(Duration),
    /// It was not sent, because it has to wait for an earlier event, or because the process stops.
    NotSent,
}

/// What became of a wave.
struct Wave {
    /// The events in their sequence.
    events: Vec<(events::Placed, Outcome)>,
    /// The cursor may move up to here.
    position: i64,
    failures: usize,
    /// Whether the endpoint accepted nothing, and the rest of the wave was not tried.
    is_hopeless: bool,
    last_error: Option<String>,
    /// How long the endpoint asks us to wait.
    wait: Duration,
    /// Whether the endpoint answered 410.
    is_gone: bool,
}

impl Worker {
    /// Sends the next events to an endpoint.
    async fn send_wave(&self, id: Uuid, shutdown: &CancellationToken) -> Result<Next> {
        let (db, clock) = (&self.parts.db, &self.parts.clock);
        let found = endpoints::with_secrets(db, &self.parts.keys, id, clock.now()).await?;
        let Some((endpoint, secrets)) = found else {
            return Ok(Next::Nothing);
        };
        let waiting = endpoints::objects(db, id).await?;
        if endpoint.state != State::Active || waiting.len() >= MOST_WAITING {
            return Ok(Next::Nothing);
        }
        let head = event_head::newest_after(db, endpoint.position).await?;
        let next = events::placed_after(db, endpoint.position, head, WAVE).await?;
        let Some(position) = next.last().map(|event| event.position) else {
            return Ok(Next::Nothing);
        };
        let fits = |event: &events::Placed| {
            let mut patterns = endpoint.types.iter();
            patterns.any(|pattern| pattern.fits(&event.kind))
        };
        let fitting: Vec<events::Placed> = next.into_iter().filter(fits).collect();
        let waiting: HashSet<Object> = waiting.into_iter().collect();
        let wave = self.send(&endpoint, &secrets, fitting, &waiting, shutdown);
        let mut wave = wave.await?;
        wave.position = wave.position.min(position);
        let (is_hopeless, wait) = (wave.is_hopeless, wave.wait);
        let goes_on = self.commit_wave(&endpoint, wave).await?;
        Ok(match (goes_on, is_hopeless) {
            (false, _) => Next::Nothing,
            (true, true) => Next::Rest(wait),
            (true, false) if !wait.is_zero() => Next::Wait(wait),
            (true, false) => Next::Wave,
        })
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        secrets: &[Secret],
        fitting: Vec<events::Placed>,
        waiting: &HashSet<Object>,
        shutdown: &CancellationToken,
    ) -> Result<Wave> {
        let ids: Vec<Uuid> = fitting
            .iter()
            .filter(|event| !waiting.contains(&object(event)))
            .map(|event| event.id)
            .collect();
        let of_objects = if ids.is_empty() {
            Vec::new()
        } else {
            by_object(events::by_ids(&self.parts.db, ids).await?)
        };
        let result = WaveResult::default();
        let sender = ObjectSender {
            worker: self,
            endpoint,
            secrets,
            result: &result,
            shutdown,
        };
        let sent = stream::iter(of_objects)
            .map(|events| sender.send(events))
            .buffer_unordered(AT_ONCE);
        let mut outcomes: HashMap<Uuid, Outcome> = sent.flat_map(stream::iter).collect().await;
        let outcome = |event: events::Placed| {
            let is_waiting = waiting.contains(&object(&event));
            // An event that is no longer kept was not read, and cannot be sent any more.
            let outcome = outcomes.remove(&event.id);
            let outcome = outcome.or(is_waiting.then_some(Outcome::NotSent))?;
            Some((event, outcome))
        };
        let events = fitting.into_iter().filter_map(outcome).collect();
        Ok(result.into_wave(events, waiting))
    }

    /// Commits what became of a wave. True when there may be more to send.
    async fn commit_wave(&self, seen: &Endpoint, wave: Wave) -> Result<bool> {
        let now = self.parts.clock.now();
        let mut tx = self.parts.db.begin().await?;
        let endpoint = endpoints::lock(&mut tx, seen.id).await?;
        let Some(endpoint) = endpoint.filter(|it| it.position == seen.position) else {
            // It was removed, or another process has sent the same events.
            tx.rollback().await?;
            return Ok(false);
        };
        endpoints::move_cursor(&mut tx, endpoint.id, wave.position).await?;
        let is_accepted = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Accepted);
        if wave.events.iter().any(is_accepted) {
            handler::accepted(&mut tx, &endpoint, now).await?;
        } else if let Some(error) = &wave.last_error {
            endpoints::failed(&mut tx, endpoint.id, wave.failures, error, now).await?;
        }
        let not_accepted = wave.events.into_iter().filter(|it| !is_accepted(it));
        let not_accepted = kept(&mut tx, not_accepted.collect()).await?;
        let notifications = self.store_waiting(&mut tx, &endpoint, not_accepted).await?;
        let is_paused =
            wave.is_gone && endpoints::set_state(&mut tx, endpoint.id, State::Gone, now).await?;
        tx.commit().await?;
        if is_paused {
            handler::log_pause(endpoint.id, State::Gone);
        }
        self.notify(notifications);
        Ok(!is_paused)
    }

    /// Stores a job for each of these events, which were not accepted. Of each object only the first one is due.
    async fn store_waiting(
        &self,
        tx: &mut Tx,
        endpoint: &Endpoint,
        events: Vec<(events::Placed, Outcome)>,
    ) -> Result<Vec<JobNotification>> {
        let kind = Kind::Internal(Internal::SendEvent);
        let now = self.parts.clock.now();
        let already = endpoints::waiting(tx, endpoint.id).await?;
        let mut objects: HashSet<Object> = already.into_iter().collect();
        let mut notifications = Vec::new();
        let (mut waiting, mut jobs) = (Vec::new(), Vec::new());
        for (event, outcome) in events {
            let job_id = self.parts.clock.id();
            let object = object(&event);
            let run_at = match outcome {
                _ if !objects.insert(object.clone()) => now.plus(BEHIND),
                Outcome::Failed(pause) => now.plus(pause),
                _ => now,
            };
            let is_due = run_at <= now;
            if is_due {
                notifications.push(handler::notification(job_id));
            }
            let body = serde_json::to_vec(&Body {
                endpoint_id: endpoint.id,
                event_id: event.id,
            })?;
            jobs.push(NewJob {
                shop: event.shop.clone(),
                object_id: Some(event.object_id.clone()),
                run_at,
                notified_at: is_due.then_some(now),
                ..NewJob::of(kind, job_id, body, now)
            });
            waiting.push(Waiting {
                position: event.position,
                object,
                job_id,
            });
        }
        if !jobs.is_empty() {
            endpoints::insert_waiting(tx, endpoint.id, &waiting).await?;
            jobs::insert(tx, &jobs.iter().collect::<Vec<_>>()).await?;
        }
        Ok(notifications)
    }
}

/// Leaves out the events that were deleted meanwhile, because their shop is erased.
async fn kept(
    tx: &mut Tx,
    events: Vec<(events::Placed, Outcome)>,
) -> Result<Vec<(events::Placed, Outcome)>> {
    if events.is_empty() {
        return Ok(events);
    }
    let positions = events.iter().map(|(event, _)| event.position).collect();
    let kept = events::kept(tx, positions).await?;
    let is_kept = |(event, _): &(events::Placed, Outcome)| kept.contains(&event.position);
    Ok(events.into_iter().filter(is_kept).collect())
}

fn object(event: &events::Placed) -> Object {
    (
        event.shop.clone().unwrap_or_default(),
        event.object_id.clone(),
    )
}

/// Groups events by their objects. Both the groups and the events of each keep their sequence.
fn by_object(events: Vec<Envelope>) -> Vec<Vec<Envelope>> {
    let mut places: HashMap<Object, usize> = HashMap::new();
    let mut groups: Vec<Vec<Envelope>> = Vec::new();
    for event in events {
        let shop = event.shop.clone().unwrap_or_default();
        let place = places
            .entry((shop, event.object_id.clone()))
            .or_insert(groups.len());
        if *place == groups.len() {
            groups.push(Vec::new());
        }
        groups[*place].push(event);
    }
    groups
}

/// What the requests of a wave have in common while they are on their way.
#[derive(Default)]
struct WaveResult {
    accepted: AtomicUsize,
    failures: AtomicUsize,
    /// Why the last one failed.
    last: Mutex<Option<Failed>>,
    /// The longest wait that the endpoint asked for, in seconds.
    wait: AtomicU64,
}

impl WaveResult {
    /// Whether the rest of the wave is not worth sending.
    fn is_hopeless(&self) -> bool {
        self.accepted.load(Ordering::Relaxed) == 0
            && self.failures.load(Ordering::Relaxed) >= FAILURES
    }

    fn record(&self, sent: Result<(), Failed>) -> Outcome {
        let Err(failed) = sent else {
            self.accepted.fetch_add(1, Ordering::Relaxed);
            return Outcome::Accepted;
        };
        self.failures.fetch_add(1, Ordering::Relaxed);
        let wait = failed.retry_after().unwrap_or_default();
        self.wait.fetch_max(wait.as_secs(), Ordering::Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != Some(Failed::Gone) {
            *last = Some(failed);
        }
        Outcome::Failed(AGAIN.max(wait))
    }

    /// When an endpoint is away, only the events up to the first one that was not tried belong
    /// to the wave. None of the later ones was accepted, so all of them can be sent in a later wave.
    fn into_wave(
        self,
        mut events: Vec<(events::Placed, Outcome)>,
        waiting: &HashSet<Object>,
    ) -> Wave {
        let mut position = i64::MAX;
        let is_hopeless = self.is_hopeless();
        if is_hopeless {
            let not_tried = |(event, outcome): &(events::Placed, Outcome)| {
                matches!(outcome, Outcome::NotSent) && !waiting.contains(&object(event))
            };
            if let Some(first) = events.iter().position(not_tried) {
                position = events[first].0.position - 1;
                events.truncate(first);
            }
        }
        let last = self
            .last
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Wave {
            events,
            position,
            failures: self.failures.into_inner(),
            is_hopeless,
            wait: Duration::from_secs(self.wait.into_inner()),
            is_gone: last == Some(Failed::Gone),
            last_error: last.map(|failed| storable(&failed.into())),
        }
    }
}

/// Sends the events of one object, one after the other.
#[derive(Clone, Copy)]
struct ObjectSender<'a> {
    worker: &'a Worker,
    endpoint: &'a Endpoint,
    secrets: &'a [Secret],
    result: &'a WaveResult,
    shutdown: &'a CancellationToken,
}

impl ObjectSender<'_> {
    async fn send(self, events: Vec<Envelope>) -> Vec<(Uuid, Outcome)> {
        let mut outcomes = Vec::with_capacity(events.len());
        let mut goes_on = true;
        for event in events {
            goes_on = goes_on && !self.shutdown.is_cancelled() && !self.result.is_hopeless();
            let outcome = if goes_on {
                self.send_one(&event).await
            } else {
                Outcome::NotSent
            };
            goes_on = matches!(outcome, Outcome::Accepted);
            outcomes.push((event.id, outcome));
        }
        outcomes
    }

    async fn send_one(self, event: &Envelope) -> Outcome {
        let parts = &self.worker.parts;
        let Ok(body) = serde_json::to_vec(event) else {
            return Outcome::NotSent;
        };
        let now = parts.clock.now();
        let id = event.id.to_string();
        let webhook = Webhook::signed(&self.endpoint.url, self.secrets, id, now, body);
        let sent = self.worker.providers.endpoints.send(webhook);
        let too_late = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        crash_point::reach(Point::WebhookSend).await;
        tokio::select! {
            biased;
            sent = sent => {
                crash_point::reach(Point::WebhookSent).await;
                handler::count(&sent);
                self.result.record(sent)
            }
            () = too_late => Outcome::NotSent,
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/webhooks.rs"]
mod tests;
