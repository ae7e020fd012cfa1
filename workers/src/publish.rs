//! Sends events to the broker: each event at least once, and the events of one object in their
//! sequence. Every worker process runs this task, but only the one that holds the lease `events`
//! sends; the others wait for the lease.
//!
//! A receiver that ignores repeats gets the events of an object in the sequence in which they
//! happened. For this, the next event of an object is sent only after the broker has confirmed the
//! one before it; events that are sent at the same time belong to different objects. This holds
//! even if two processes believe that they hold the lease: an event is skipped only if it is
//! marked as published, and it is marked only after it was confirmed. So two publishers at the
//! same time would only send an event twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bus::Published;
use domain::envelope::Envelope;
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use store::events;
use store::leases;
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
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many events are read at a time.
const BATCH: i64 = 500;
/// How many rounds are sent before the lease is renewed and the database is read again. An object
/// with many events needs a round for each.
const ROUNDS: usize = 20;
/// An event becomes visible within this time after the time in its id, unless the clocks of the
/// hosts differ by more.
const LATE: Duration = Duration::from_mins(10);
/// Events that become visible later than that are found when all events are read.
const LOOK_AT_ALL: Duration = Duration::from_mins(1);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    if worker.parts.bus.is_local() {
        return;
    }
    let mut publisher = Publisher::new(worker);
    while !shutdown.is_cancelled() && publisher.worker.may_work(&shutdown).await {
        let pause = publisher.turn().await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
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
    /// All events before this id are published. Without this bound each read would go through all
    /// index entries of events that were published since PostgreSQL last cleaned the index: 14 ms
    /// for two million events.
    from: Uuid,
    looked_at_all: Option<Instant>,
    /// How many events are sent at a time. After a failure it is one, so that few events are
    /// repeated until the broker confirms again.
    batch: i64,
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
            from: Uuid::nil(),
            looked_at_all: None,
            batch: BATCH,
            backoff: Backoff::new(PAUSE, LONGEST_PAUSE),
            is_failing: false,
        }
    }

    /// Publishes the events that are there, and returns how long to wait before the next turn.
    async fn turn(&mut self) -> Duration {
        match self.publish().await {
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
        let (db, clock) = (&worker.parts.db, &worker.parts.clock);
        if !worker.parts.bus.is_up() {
            self.let_go().await?;
            return Ok(Turn::Away);
        }
        if !self.hold().await? {
            return Ok(Turn::NotOurs);
        }
        if self
            .looked_at_all
            .is_none_or(|at| at.elapsed() >= LOOK_AT_ALL)
        {
            self.from = Uuid::nil();
            self.looked_at_all = Some(Instant::now());
        }
        let looked_at = clock.now();
        let events = events::unpublished(db, self.from, self.batch).await?;
        let rounds = rounds(&events);
        let Published { confirmed, failure } = self.send(&rounds).await;
        if !confirmed.is_empty() {
            metrics::counter!("waybill_events_published_total").increment(confirmed.len() as u64);
            // The events are marked even if this process has lost the lease meanwhile, because the
            // broker has confirmed them.
            events::mark_published(db, confirmed, clock.now()).await?;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if rounds.len() > ROUNDS {
            return Ok(Turn::More);
        }
        let full = events.len() >= usize::try_from(self.batch)?;
        let until = match events.last() {
            Some(last) if full => looked_at.min(events::time_of(last.id)),
            _ => looked_at,
        };
        self.from = self.from.max(events::first_id(until.minus(LATE)));
        Ok(if full { Turn::More } else { Turn::Done })
    }

    /// Sends round after round, and stops after a round of which not all events were confirmed.
    async fn send(&self, rounds: &[Vec<&Envelope>]) -> Published {
        let mut all = Published::default();
        for round in rounds.iter().take(ROUNDS) {
            crash_point::reach(Point::Publish);
            let published = self.worker.parts.bus.publish_events(round).await;
            crash_point::reach(Point::Published);
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
            self.looked_at_all = None;
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

/// Divides the events into rounds. They keep their sequence, and no round has two events of one
/// object.
fn rounds(events: &[Envelope]) -> Vec<Vec<&Envelope>> {
    let mut next: HashMap<(Option<&str>, &str), usize> = HashMap::new();
    let mut rounds: Vec<Vec<&Envelope>> = Vec::new();
    for event in events {
        let object = (event.shop.as_deref(), event.object_id.as_str());
        let round = next.entry(object).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(event);
        *round += 1;
    }
    rounds
}
