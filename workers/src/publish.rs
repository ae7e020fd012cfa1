//! Sends events to the broker: each event at least once, and the events of one object in their
//! sequence. Every worker process runs this task, but only the one that holds the lease `events`
//! sends; the others wait for the lease.
//!
//! Events are sent in the sequence of their positions, up to the head (`store::event_head`), and one cursor says up to
//! which of them the broker has all (`store::broker_cursor`). No event is written again when it is sent: with a mark of its
//! own it would be, and with it all its entries in indices.
//!
//! A receiver that ignores repeats gets the events of an object in the sequence in which they
//! happened. For this, the next event of an object is sent only after the broker has confirmed the
//! one before it; events that are sent at the same time belong to different objects. This holds
//! even if two processes believe that they hold the lease: the cursor passes an event only after
//! the event was confirmed. So two publishers at the same time would only send an event twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bus::Published;
use domain::envelope::Envelope;
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use store::broker_cursor::{self, NO_BROKER};
use store::{event_head, events, leases};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Worker;

const LEASE: &str = "events";
/// How long the lease lasts. Events wait for at most this time when the process that publishes
/// them is killed.
const LEASE_LENGTH: Duration = Duration::from_secs(10);
const RENEW_AFTER: Duration = Duration::from_secs(3);
/// The pause between two tries to get the lease while another process holds it.
const WAIT_FOR_LEASE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
/// How long it waits for more events, so that many are sent together.
const GATHERING: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many events are read at a time.
const BATCH: i64 = 500;
/// How many events of one object are sent in a batch. An object with many events needs a round for each.
const ROUNDS: usize = 20;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    if worker.parts.bus.is_local() {
        if let Err(error) = broker_cursor::end(&worker.parts.db).await {
            tracing::debug!(%error, "a broker that is added now may get events of before");
        }
        return;
    }
    let mut publisher = Publisher::new(worker);
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
    if let Err(error) = publisher.let_go().await {
        tracing::debug!(%error, "the lease to publish events ends by itself");
    }
}

struct Publisher {
    worker: Arc<Worker>,
    holder: Uuid,
    /// When this process last renewed the lease. `None`: it does not hold the lease.
    renewed_at: Option<Instant>,
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
}

impl Publisher {
    fn new(worker: Arc<Worker>) -> Self {
        Publisher {
            holder: worker.parts.clock.id(),
            worker,
            renewed_at: None,
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
            // It gets what happens from now on, also if it cannot be reached yet.
            self.cursor().await?;
        }
        if !worker.parts.bus.is_up() {
            self.let_go().await?;
            return Ok(Turn::Away);
        }
        if !self.hold().await? {
            return Ok(Turn::NotOurs);
        }
        let cursor = self.cursor().await?;
        self.confirmed = self.confirmed.split_off(&(cursor + 1));
        let head = event_head::newest_after(db, cursor).await?;
        if head <= cursor {
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
            broker_cursor::advance(db, last.position).await?;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(if is_full || is_cut {
            Turn::More
        } else {
            Turn::Done
        })
    }

    /// The cursor. Where there was no broker so far, it begins at the head. Where a worker without a broker was started beside
    /// this one, it goes on where it was.
    async fn cursor(&mut self) -> Result<i64> {
        let db = &self.worker.parts.db;
        let mut cursor = broker_cursor::position(db).await?;
        if cursor == NO_BROKER {
            let has = match self.cursor {
                Some(seen) => seen,
                None => event_head::newest(db).await?,
            };
            broker_cursor::begin(db, has).await?;
            cursor = broker_cursor::position(db).await?;
        }
        self.cursor = Some(cursor);
        Ok(cursor)
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

    /// Renews the lease or tries to get it, and returns whether this process holds it.
    async fn hold(&mut self) -> Result<bool> {
        if self.renewed_at.is_some_and(|at| at.elapsed() < RENEW_AFTER) {
            return Ok(true);
        }
        let parts = &self.worker.parts;
        let asked_at = Instant::now();
        let now = parts.clock.now();
        let until = now.plus(LEASE_LENGTH);
        let ours = leases::take(&parts.db, LEASE, self.holder, now, until).await?;
        if ours && self.renewed_at.is_none() {
            tracing::info!("publishing events");
        }
        self.renewed_at = ours.then_some(asked_at);
        Ok(ours)
    }

    async fn let_go(&mut self) -> Result<()> {
        if self.renewed_at.take().is_some() {
            leases::release(&self.worker.parts.db, LEASE, self.holder).await?;
        }
        Ok(())
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
