//! Stores waiting deliveries, batch by batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bus::{Bus, JobRef};
use domain::job::{Queue, State};
use domain::privacy::Keys;
use platform::clock::Clock;
use platform::task;
use store::jobs::NewJob;
use store::sql::{self, Db, is_connection_error, is_late, is_read_only};
use store::webhook_ids::{self, Claim, Remembered};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::notify::CommittedJob;
use super::turns::Turns;
use super::write::{Firsts, claim, first_of_each_id, verdict_by_id, write};
use super::{STATEMENT_DEADLINE, Verdict, Waiting};

/// How many dead connections a batch tries before it gives up: at least as many as a pool keeps
/// idle.
const MOST_DEAD: usize = 20;
/// How many deliveries a batch has at most, because it has to be stored within [`STORE_DEADLINE`]. While the database is
/// slow, batches have fewer ([`Most`]).
pub(super) const BATCH: usize = 256;
/// A batch of this size is stored at once, even while another one is under way.
const ENOUGH: usize = 32;
/// How long a commit may take. If the database takes longer, it counts as down, so that the client
/// gets its answer within 1.5 s.
const STORE_DEADLINE: Duration = Duration::from_secs(1);
/// While so many sessions wait on the server for its standby, no more are opened: each batch that is given
/// up leaves one there, and others need the server's connections too.
const MOST_ON_SERVER: i64 = 8;

/// Puts waiting deliveries into batches and starts a task for each batch. At most `most` batches are under
/// way at a time; on SQLite it is one, because SQLite has one writer.
///
/// A batch is stored when no other is under way, or when it is large enough to be worth a commit
/// beside the others. So under light load one fsync serves all deliveries that came meanwhile, and
/// under heavy load several batches use the database at the same time.
pub(super) async fn collect(
    mut waiting: mpsc::Receiver<Waiting>,
    writer: Arc<BatchWriter>,
    most: usize,
) {
    let mut received = Vec::with_capacity(BATCH);
    let mut turns = Turns::default();
    let most_in_batch = Most::new();
    let mut under_way = JoinSet::new();
    let mut is_open = true;
    let left = metrics::gauge!("waybill_intake_waiting");
    let mut counted = 0.0;
    while is_open || turns.len > 0 || !under_way.is_empty() {
        tokio::select! {
            biased;
            _ = under_way.join_next(), if !under_way.is_empty() => {}
            taken = waiting.recv_many(&mut received, BATCH), if is_open => {
                is_open = taken > 0;
            }
        }
        turns.extend(received.drain(..));
        if under_way.is_empty() && turns.len > 0 {
            // This lets requests that are ready to run join the batch. There is no timer, so a
            // single request is stored at once.
            tokio::task::yield_now().await;
        }
        turns.extend(std::iter::from_fn(|| waiting.try_recv().ok()));
        let leaves = under_way.is_empty() || (turns.len >= ENOUGH && under_way.len() < most);
        if leaves && turns.len > 0 {
            let batch = turns.batch(most_in_batch.get());
            let stores = writer.clone().store(batch, most_in_batch.clone());
            task::spawn_in(&mut under_way, "batch", stores);
        }
        let count = f64::from(u32::try_from(turns.len + waiting.len()).unwrap_or(u32::MAX));
        left.increment(count - counted);
        counted = count;
    }
}

/// How many deliveries the next batch of a lane may have. A database that reads a page of its disk for each of them,
/// because it was started a moment ago, cannot store a large batch in time, however often it is tried.
struct Most(AtomicUsize);

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Yes,
    /// The database took too long for it.
    Late,
    /// For another reason.
    No,
}

impl Most {
    fn new() -> Arc<Self> {
        Arc::new(Most(AtomicUsize::new(BATCH)))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Learns from a batch of this size that ended so after this time. After a full one that was stored in time the next
    /// one may be larger, and far larger if it took less than half of the time.
    fn learn(&self, size: usize, stored: Stored, took: Duration) {
        let most = self.get();
        let next = match stored {
            // The time of a single one says nothing about the size.
            Stored::Late if size > 1 => most.min(size / 2),
            Stored::Yes if size >= most && took < STATEMENT_DEADLINE / 2 => most * 2,
            Stored::Yes if size >= most => most + (most / 16).max(1),
            _ => return,
        };
        self.0.store(next.min(BATCH), Ordering::Relaxed);
    }
}

pub(super) struct BatchWriter {
    pub(super) db: Db,
    pub(super) bus: Bus,
    pub(super) clock: Clock,
    pub(super) keys: Arc<Keys>,
    /// How long ids are remembered.
    pub(super) dedupe_ttl: Duration,
    pub(super) committed: mpsc::Sender<CommittedJob>,
    pub(super) outage: Outage,
}

impl BatchWriter {
    async fn store(self: Arc<Self>, mut batch: Vec<Waiting>, most: Arc<Most>) {
        // A request that no longer waits has already been answered with 503.
        batch.retain(|waiting| !waiting.answer.is_closed());
        if batch.is_empty() {
            return;
        }
        let notified_at = self.clock.now();
        for waiting in &mut batch {
            let job = &mut waiting.job;
            let is_due = job.state == State::Ready && job.run_at == job.created_at;
            let is_notified = is_due && self.bus.is_ready(job.queue);
            job.notified_at = is_notified.then_some(notified_at);
        }
        let (begun, size) = (Instant::now(), batch.len());
        let committed = self.commit_with_retry(&mut batch);
        let (committed, stored) = match timeout(STORE_DEADLINE, committed).await {
            Ok(Ok(())) => (Ok(()), Stored::Yes),
            Ok(Err(error)) if is_late(&error) => (Err(error.to_string()), Stored::Late),
            Ok(Err(error)) => (Err(error.to_string()), Stored::No),
            Err(_) => (Err("it took longer than a second".to_owned()), Stored::Late),
        };
        let took = begun.elapsed();
        most.learn(size, stored, took);
        metrics::histogram!("waybill_intake_commit_seconds").record(took);
        match committed {
            Ok(()) => {
                self.outage.over();
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                metrics::histogram!("waybill_intake_batch_size").record(f64::from(size));
            }
            // When the rest of the batch is dropped, its requests are answered with 503.
            Err(error) => self.outage.begun(&error),
        }
    }

    /// Stores a batch and answers it. If a connection turns out to be dead, nothing is lost, and what is not answered yet
    /// is stored on another one. After the server was away, all idle connections are dead, so this may happen several
    /// times. One that leads to a server which has become read-only is replaced once, because the address may lead to
    /// another server by now.
    async fn commit_with_retry(&self, batch: &mut Vec<Waiting>) -> sql::Result<()> {
        if self.outage.is_on() && self.db.waiting_for_standby().await? >= MOST_ON_SERVER {
            let why = "too many commits wait for a standby of the server";
            return Err(sql::Error::Protocol(why.into()));
        }
        let mut is_replaced = false;
        for _ in 0..MOST_DEAD {
            match self.commit(batch).await {
                Ok(()) => return Ok(()),
                Err(Failed::Retryable(error)) if is_connection_error(&error) => {}
                Err(Failed::Retryable(error)) if is_read_only(&error) && !is_replaced => {
                    is_replaced = true;
                }
                Err(Failed::Retryable(error) | Failed::Unknown(error)) => return Err(error),
            }
        }
        self.commit(batch).await.map_err(Failed::into_inner)
    }

    /// Stores a batch, and answers each delivery as soon as it is committed. Nearly all deliveries are new, and are stored
    /// by one statement, where the database can do that. The others are written in a transaction after it.
    async fn commit(&self, batch: &mut Vec<Waiting>) -> Result<(), Failed> {
        let first = first_of_each_id(batch.iter());
        // This may be tried again whatever happened, because it finds out what was stored.
        let ids = self.store_new(batch, &first).await;
        let ids = ids.map_err(Failed::Retryable)?;
        for waiting in std::mem::take(batch) {
            match verdict_by_id(&waiting, &first, &ids) {
                Some(verdict) => self.answer(waiting, verdict),
                None => batch.push(waiting),
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let mut tx = self.db.begin().await.map_err(Failed::Retryable)?;
        let written = write(&mut tx, batch, self.dedupe_ttl, &self.clock, &self.keys);
        let (new, held) = written.await.map_err(Failed::Retryable)?;
        tx.commit().await.map_err(Failed::Unknown)?;
        for waiting in batch.drain(..) {
            let verdict = match waiting.job.id {
                id if new.contains(&id) => Verdict::Accepted,
                id if held.contains(&id) => Verdict::Held,
                _ => Verdict::Duplicate,
            };
            self.answer(waiting, verdict);
        }
        Ok(())
    }

    /// Stores those deliveries of a batch that are the first ones of their ids, if their ids are new and they need
    /// nothing but that.
    async fn store_new(&self, batch: &[Waiting], first: &Firsts) -> sql::Result<Remembered> {
        let is_plain = |it: &&Waiting| it.job.queue != Queue::Privacy && it.note.is_none();
        let is_first = |it: &&Waiting| {
            let first = it.id.and_then(|id| first.get(&id));
            first.is_some_and(|first| first.job == it.job.id)
        };
        let plain = batch.iter().filter(is_plain).filter(is_first);
        let mut new: Vec<(Claim, &NewJob)> = plain
            .filter_map(|it| Some((claim(it.id?, it.job.id, it.body_hash), &it.job)))
            .collect();
        new.sort_unstable_by_key(|(claim, _)| *claim);
        let (now, ttl) = (self.clock.now(), self.dedupe_ttl);
        webhook_ids::store_new(&self.db, &new, now, ttl).await
    }

    /// Answers a delivery, and has workers notified of its job if it is a new one.
    fn answer(&self, waiting: Waiting, verdict: Verdict) {
        let Waiting { job, answer, .. } = waiting;
        let _ = answer.send(verdict);
        if verdict == Verdict::Accepted && job.notified_at.is_some() {
            let job_ref = JobRef {
                job: job.id,
                traceparent: job.traceparent,
            };
            let NewJob { queue, kind, .. } = job;
            // If the channel is full, the bus has not worked for long, and the sweep finds the
            // job.
            let _ = self.committed.try_send(CommittedJob {
                job_ref,
                queue,
                kind,
            });
        }
    }
}

enum Failed {
    /// It may be tried again.
    Retryable(sql::Error),
    /// The outcome of the commit is not known. When the sender tries again, it is a duplicate or
    /// accepted.
    Unknown(sql::Error),
}

impl Failed {
    fn into_inner(self) -> sql::Error {
        match self {
            Failed::Retryable(error) | Failed::Unknown(error) => error,
        }
    }
}

/// Logs the beginning and the end of an outage, and not each batch that fails during it.
#[derive(Default)]
pub(super) struct Outage(AtomicBool);

impl Outage {
    fn begun(&self, error: &str) {
        metrics::counter!("waybill_intake_failures_total").increment(1);
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::error!(
                error,
                "deliveries cannot be stored; answering 503 until they can"
            );
        }
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn over(&self) {
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("deliveries are stored again");
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/intake/batches.rs"]
mod tests;
