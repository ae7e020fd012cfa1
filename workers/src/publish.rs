//! Sends events to the broker: each event at least once, and the events of one object in their
//! sequence. Every worker process runs this task, but only the one that holds the lease [`EVENTS`]
//! sends; the others wait for the lease.
//!
//! Events are sent in the sequence of their positions, up to the head (`store::event_head`), and one cursor says up to
//! which of them the broker has all: that of the broker's row among the endpoints (`store::broker`). No event is written
//! again when it is sent: with a mark of its own it would be, and with it all its entries in indices. While an operator has
//! paused the broker's endpoint nothing is sent.
//!
//! A receiver that ignores repeats gets the events of an object in the sequence in which they
//! happened. For this, the next event of an object is sent only after the broker has confirmed the
//! one before it; events that are sent at the same time belong to different objects. This holds
//! even if two processes believe that they hold the lease: the cursor passes an event only after
//! the event was confirmed. So two publishers at the same time would only send an event twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bus::Published;
use domain::endpoint::State;
use domain::envelope::Envelope;
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use store::endpoints::Endpoint;
use store::leases::EVENTS;
use store::{broker, event_head, events};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Worker;
use crate::failure::storable;
use crate::lease::Lease;

/// How long the lease lasts. Events wait for at most this time when the process that publishes
/// them is killed.
const LEASE_LENGTH: Duration = Duration::from_secs(10);
/// The pause between two tries to get the lease while another process holds it.
const WAIT_FOR_LEASE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
/// How long it waits for more events, so that many are sent together.
const GATHERING: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How soon it is seen that an operator has resumed the broker's endpoint.
const WHILE_PAUSED: Duration = Duration::from_secs(1);
/// How many events are read at a time.
const BATCH: i64 = 500;
/// How many events of one object are sent in a batch. An object with many events needs a round for each.
const ROUNDS: usize = 20;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let Some(url) = worker.parts.bus.events_address() else {
        if let Err(error) = broker::end(&worker.parts.db, worker.parts.clock.now()).await {
            tracing::debug!(%error, "RabbitMQ stays among the endpoints");
        }
        return;
    };
    let mut publisher = Publisher::new(worker, url);
    while !shutdown.is_cancelled() && publisher.worker.may_work(&shutdown).await {
        let pause = publisher.turn().await;
        let next = async {
            if publisher.has_published_all {
                // Those of another process are found after the pause.
                let committed = publisher.worker.shared.events.notified();
                let _ = tokio::time::timeout(pause, committed).await;
                tokio::time::sleep(GATHERING).await;
            } else {
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            biased;
            () = next => {}
            () = shutdown.cancelled() => {}
        }
    }
    publisher.lease.let_go(&publisher.worker.parts).await;
}

struct Publisher {
    worker: Arc<Worker>,
    /// The address of the broker's endpoint.
    url: String,
    lease: Lease,
    /// The cursor as this process has seen it last.
    cursor: Option<i64>,
    /// The events after the cursor that the broker has confirmed all the same, to this process, by their positions.
    confirmed: BTreeMap<i64, Uuid>,
    /// How many events are sent at a time. After a failure it is one, so that few events are
    /// repeated until the broker confirms again.
    batch: i64,
    /// Whether the last turn left nothing to publish.
    has_published_all: bool,
    backoff: Backoff,
    /// Whether the last turn failed.
    is_failing: bool,
}

enum Turn {
    /// There may be more events to publish.
    More,
    Done,
    /// This process cannot reach the broker.
    Away,
    /// Another process holds the lease and publishes.
    NotOurs,
    /// An operator has paused the broker's endpoint.
    Paused,
}

impl Publisher {
    fn new(worker: Arc<Worker>, url: String) -> Self {
        Publisher {
            lease: Lease::new(&worker.parts, EVENTS, LEASE_LENGTH),
            worker,
            url,
            cursor: None,
            confirmed: BTreeMap::new(),
            batch: BATCH,
            has_published_all: false,
            backoff: Backoff::new(PAUSE, LONGEST_PAUSE),
            is_failing: false,
        }
    }

    /// Publishes the events that are there, and returns how long to wait before the next turn.
    async fn turn(&mut self) -> Duration {
        let published = self.publish().await;
        self.has_published_all = matches!(published, Ok(Turn::Done));
        match published {
            Ok(turn @ (Turn::More | Turn::Done)) => {
                self.batch = BATCH;
                if self.is_failing {
                    tracing::info!("events are published again");
                }
                self.is_failing = false;
                self.backoff.reset();
                match turn {
                    Turn::More => Duration::ZERO,
                    _ => PAUSE,
                }
            }
            // The bus has already logged this failure.
            Ok(Turn::Away) => PAUSE,
            Ok(Turn::Paused) => WHILE_PAUSED,
            Ok(Turn::NotOurs) => WAIT_FOR_LEASE,
            Err(error) => {
                if !self.is_failing {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "events cannot be published; trying again"
                    );
                }
                self.batch = 1;
                self.is_failing = true;
                self.backoff.next_pause()
            }
        }
    }

    async fn publish(&mut self) -> Result<Turn> {
        let worker = self.worker.clone();
        let db = &worker.parts.db;
        if self.cursor.is_none() {
            self.cursor = broker::find(db).await?.map(|it| it.position);
        }
        if !worker.parts.bus.is_up() {
            if self.lease.is_held() {
                broker::failed(db, "it cannot be reached", worker.parts.clock.now()).await?;
            }
            self.lease.let_go(&worker.parts).await;
            return Ok(Turn::Away);
        }
        let was_ours = self.lease.is_held();
        if !self.lease.hold(&worker.parts).await? {
            return Ok(Turn::NotOurs);
        }
        if !was_ours {
            tracing::info!("publishing events");
        }
        let endpoint = self.endpoint().await?;
        if endpoint.state != State::Active {
            return Ok(Turn::Paused);
        }
        let cursor = endpoint.position;
        self.confirmed = self.confirmed.split_off(&(cursor + 1));
        let head = event_head::newest_after(db, cursor).await?;
        if head <= cursor {
            if endpoint.failing_since.is_some() {
                broker::recovered(db, worker.parts.clock.now()).await?;
            }
            return Ok(Turn::Done);
        }
        let events = events::after(db, cursor, head, self.batch).await?;
        let is_full = events.len() >= usize::try_from(self.batch)?;
        let batch = Batch::of(&events, &self.confirmed);
        let is_cut = batch.events.len() < events.len();
        let Published { confirmed, failure } = self.send(&batch.rounds).await;
        metrics::counter!("waybill_events_published_total").increment(confirmed.len() as u64);
        let confirmed: HashSet<Uuid> = confirmed.into_iter().collect();
        let confirmed = batch.events.iter().filter(|it| confirmed.contains(&it.id));
        self.confirmed
            .extend(confirmed.map(|it| (it.position, it.id)));
        let is_confirmed = |it: &&Envelope| has(&self.confirmed, it);
        if let Some(last) = batch.events.iter().take_while(is_confirmed).last() {
            // The cursor is moved even if this process has lost the lease meanwhile, because the
            // broker has confirmed the events.
            broker::advance(db, last.position, worker.parts.clock.now()).await?;
            self.cursor = Some(last.position);
        }
        if let Some(error) = failure {
            broker::failed(db, &storable(&error), worker.parts.clock.now()).await?;
            return Err(error);
        }
        Ok(if is_full || is_cut {
            Turn::More
        } else {
            Turn::Done
        })
    }

    /// The broker's endpoint. Where a worker without a broker was started beside this one, which removes it, it goes on
    /// where it was.
    async fn endpoint(&mut self) -> Result<Endpoint> {
        let parts = &self.worker.parts;
        let found = broker::find(&parts.db).await?;
        let endpoint = if let Some(endpoint) = found {
            endpoint
        } else {
            broker::begin(&parts.db, &self.url, self.cursor, parts.clock.now()).await?;
            let begun = broker::find(&parts.db).await?;
            begun.context("the endpoint of RabbitMQ was removed")?
        };
        self.cursor = Some(endpoint.position);
        Ok(endpoint)
    }

    /// Sends round after round, and stops after a round of which not all events were confirmed.
    async fn send(&self, rounds: &[Vec<&Envelope>]) -> Published {
        let mut all = Published::default();
        for round in rounds {
            crash_point::reach(Point::Publish).await;
            let published = self.worker.parts.bus.publish_events(round).await;
            crash_point::reach(Point::Published).await;
            all.confirmed.extend(published.confirmed);
            all.failure = published.failure;
            if all.failure.is_some() {
                break;
            }
        }
        all
    }
}

/// Events that are sent before the cursor is moved and the database is read again.
struct Batch<'a> {
    /// In their sequence.
    events: &'a [Envelope],
    /// The events that are to be sent, in the same sequence. No round has two events of one object.
    rounds: Vec<Vec<&'a Envelope>>,
}

impl<'a> Batch<'a> {
    /// It ends before the first event of an object that already has [`ROUNDS`] in it. What comes after that one would
    /// be sent again and again, because the cursor could not pass it.
    fn of(events: &'a [Envelope], confirmed: &BTreeMap<i64, Uuid>) -> Self {
        let mut next: HashMap<(Option<&str>, &str), usize> = HashMap::new();
        let mut rounds: Vec<Vec<&Envelope>> = Vec::new();
        for (place, event) in events.iter().enumerate() {
            if has(confirmed, event) {
                continue;
            }
            let object = (event.shop.as_deref(), event.object_id.as_str());
            let round = next.entry(object).or_default();
            if *round == ROUNDS {
                return Batch {
                    events: &events[..place],
                    rounds,
                };
            }
            if *round == rounds.len() {
                rounds.push(Vec::new());
            }
            rounds[*round].push(event);
            *round += 1;
        }
        Batch { events, rounds }
    }
}

/// Whether an event is confirmed. A server that has lost its last commits may give a position again, so the id counts too.
fn has(confirmed: &BTreeMap<i64, Uuid>, event: &Envelope) -> bool {
    confirmed.get(&event.position) == Some(&event.id)
}

#[cfg(test)]
#[path = "../tests/unit/publish.rs"]
mod tests;
