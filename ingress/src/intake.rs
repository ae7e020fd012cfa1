//! Stores deliveries as jobs in batches. All requests that wait while a commit is under way belong
//! to the next batch.
//!
//! There is no timer: an idle service commits a single delivery at once, and a busy one commits
//! hundreds with one statement and one flush to disk, or with a few statements what is not plain. Batches are stored by tasks of their own,
//! up to two at a time, which go on when a client disconnects. The number and the bytes of waiting
//! deliveries are limited, and beyond that the answer is 503 at once. A shop or an account may have as many, and as many
//! bytes, waiting as there is room left for others, and a batch takes one of each in turn, so nobody who sends very many
//! keeps others out.
//!
//! Privacy requests have batches of their own. Each is also written to the audit, whose log one
//! transaction at a time goes on with, and no other delivery waits for that.
//!
//! These invariants hold. A delivery is answered as accepted only after its job is committed, and
//! as a duplicate only after the job of the first delivery is committed. Ids are sorted within a
//! batch, so that two batches never wait for each other's locks in a circle. Workers are notified
//! after the commit, by a task of its own; if a notification fails, the sweep finds the job, only
//! later.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::{Bus, JobRef, MAX_JOBS_PER_MESSAGE};
use domain::job::{JobId, Queue, Source, State};
use domain::privacy::Keys;
use futures_util::stream::{self, StreamExt};
use platform::clock::Clock;
use platform::crash_point::{self, Point};
use platform::lock::lock;
use platform::task;
use process::Parts;
use store::audit;
use store::jobs::{self, NewJob};
use store::privacy_requests;
use store::sql::{self, Db, is_connection_error, is_late, is_read_only};
use store::webhook_ids::{self, BodyHash, Claim, DeliveryId, First, Remembered};

use crate::delivery::Delivery;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

/// How many batches are under way at a time, but on SQLite, which has one writer.
const BATCHES: usize = 2;
/// How many connections to PostgreSQL the intake has for itself: one for each batch, of deliveries and of
/// privacy requests. So no delivery waits for those who read, however many they are.
pub const CONNECTIONS: u32 = 3;
/// How many dead connections a batch tries before it gives up: at least as many as a pool keeps
/// idle.
const MOST_DEAD: usize = 20;
/// Why a delivery waits for an operator.
const OTHER_BODY: &str = "another delivery of its shop came before with its id and another body, so the provider was \
                          answered as to a duplicate; if this one is the provider's, requeue it";
/// How many deliveries may wait for a batch.
pub(crate) const WAITING: usize = 4096;
/// The byte budget in KiB: how much memory the bodies that are being read or wait may take.
pub(crate) const WAITING_KIB: usize = 64 * 1024;
/// The part of the byte budget that is reserved for small bodies, and how large a small body is.
/// Nearly all bodies are small, so a few senders of large bodies cannot keep all others out.
pub(crate) const KEPT_KIB: usize = 16 * 1024;
pub(crate) const SMALL: usize = 64 * 1024;
/// How many deliveries a batch has at most, and how many bytes of bodies, because it has to
/// be stored within [`STORE_DEADLINE`]. A body that is larger is stored alone. While the database is slow, batches have
/// fewer ([`Most`]).
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A batch of this size is stored at once, even while another one is under way.
const ENOUGH: usize = 32;
/// How long a commit may take. If the database takes longer, it counts as down, so that the client
/// gets its answer within 1.5 s.
const STORE_DEADLINE: Duration = Duration::from_secs(1);
/// When PostgreSQL ends a statement, so that it does not go on to its commit after its batch was given up.
const STATEMENT_DEADLINE: Duration = Duration::from_millis(900);
const ANSWER_DEADLINE: Duration = Duration::from_millis(1300);
/// While so many sessions wait on the server for its standby, no more are opened: each batch that is given
/// up leaves one there, and others need the server's connections too.
const MOST_ON_SERVER: i64 = 8;
/// How many committed jobs may wait for their notification. Beyond that the sweep finds them.
const MAX_COMMITTED: usize = 65_536;
/// How many messages may wait for the broker's confirm at a time.
const MESSAGES_AT_ONCE: usize = 32;

/// The verdict on a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    /// A delivery with this id was accepted before.
    Duplicate,
    /// Another body with this id was accepted before, so this one is kept for an operator.
    Held,
}

/// The error that a delivery is not known to be stored. In nearly all cases it was not, and its id is not remembered.
#[derive(Debug)]
pub enum Unavailable {
    /// There is no room, or the database does not take it.
    NotStored,
    /// Its shop or account has more waiting than there is room left for others.
    OverShare,
}

/// The intake as handlers see it. All clones put deliveries into the same batches.
#[derive(Clone)]
pub struct Intake {
    lanes: Option<Lanes>,
    /// Whether ids are remembered.
    dedupes: bool,
    budget: Arc<Semaphore>,
}

/// Where deliveries wait for their batch.
#[derive(Clone)]
struct Lanes {
    privacy: Lane,
    others: Lane,
}

impl Lanes {
    fn of(&self, queue: Queue) -> &Lane {
        match queue {
            Queue::Privacy => &self.privacy,
            Queue::Orders | Queue::Payments | Queue::Endpoints => &self.others,
        }
    }
}

#[derive(Clone)]
struct Lane {
    waiting: mpsc::Sender<Waiting>,
    shares: Arc<Shares>,
}

impl Lane {
    fn new() -> (Self, mpsc::Receiver<Waiting>) {
        let (waiting, received) = mpsc::channel(WAITING);
        let shares = Arc::default();
        (Lane { waiting, shares }, received)
    }
}

/// The shop or account of deliveries, as a hash.
type Sender = u64;

/// How many deliveries of each sender wait for their batch, or for its commit.
#[derive(Default)]
struct Shares {
    hasher: RandomState,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of: HashMap<Sender, Own>,
}

/// What waits of one sender.
#[derive(Default)]
struct Own {
    deliveries: usize,
    kib: usize,
}

impl Shares {
    /// A place for one more of this size, while so many KiB of the byte budget are left. One sender alone has at most half
    /// of all places and bytes, each of two a third, and so on.
    fn enter(
        self: &Arc<Self>,
        sender: (Source, Option<&str>),
        kib: usize,
        kib_left: usize,
    ) -> Result<Place, Unavailable> {
        let sender = self.hasher.hash_one(sender);
        let mut taken = lock(&self.taken);
        let left = WAITING - taken.all;
        if left == 0 {
            return Err(Unavailable::NotStored);
        }
        let own = taken.of.entry(sender).or_default();
        if own.deliveries >= left || own.kib > kib_left {
            return Err(Unavailable::OverShare);
        }
        own.deliveries += 1;
        own.kib += kib;
        taken.all += 1;
        Ok(Place {
            shares: self.clone(),
            sender,
            kib,
        })
    }
}

/// A sender's place among those that wait.
struct Place {
    shares: Arc<Shares>,
    sender: Sender,
    kib: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.shares.taken);
        taken.all -= 1;
        if let Some(own) = taken.of.get_mut(&self.sender) {
            own.deliveries -= 1;
            own.kib -= self.kib;
            if own.deliveries == 0 {
                taken.of.remove(&self.sender);
            }
        }
    }
}

struct Waiting {
    place: Place,
    job: NewJob,
    /// `None`: it is not deduplicated.
    id: Option<DeliveryId>,
    body_hash: Option<BodyHash>,
    /// Why nothing is made of it.
    note: Option<&'static str>,
    answer: oneshot::Sender<Verdict>,
    _budget: ByteBudgetPermit,
}

/// A delivery's share of the byte budget. It is held until the delivery is stored.
#[derive(Debug)]
pub struct ByteBudgetPermit {
    permit: OwnedSemaphorePermit,
    size: Size,
}

/// How long a body will be, as far as this is known before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Small,
    /// A body that is longer than a small one, or whose length is not known.
    Large,
}

impl Size {
    pub fn announced(length: Option<u64>) -> Self {
        match length {
            Some(length) if length <= SMALL as u64 => Size::Small,
            Some(_) | None => Size::Large,
        }
    }
}

impl ByteBudgetPermit {
    /// Makes the share large enough for `bytes`.
    pub fn grow(&mut self, intake: &Intake, bytes: usize) -> Result<(), Unavailable> {
        let held = self.permit.num_permits();
        let wanted = bytes / 1024 + 1;
        if wanted > held {
            self.permit.merge(intake.budget(wanted - held, self.size)?);
        }
        Ok(())
    }
}

impl Intake {
    /// An intake that stores nothing and accepts everything, so that benchmarks can measure the
    /// rest.
    pub fn verify_only() -> Self {
        Intake {
            lanes: None,
            dedupes: false,
            budget: Arc::new(Semaphore::new(WAITING_KIB)),
        }
    }

    /// Reserves memory for a body, at first for one byte.
    pub fn reserve(&self, size: Size) -> Result<ByteBudgetPermit, Unavailable> {
        let permit = self.budget(1, size)?;
        Ok(ByteBudgetPermit { permit, size })
    }

    fn budget(&self, kib: usize, size: Size) -> Result<OwnedSemaphorePermit, Unavailable> {
        let kept = match size {
            Size::Small => 0,
            Size::Large => KEPT_KIB,
        };
        if self.budget.available_permits() < kib + kept {
            return Err(Unavailable::NotStored);
        }
        let kib = u32::try_from(kib).map_err(|_| Unavailable::NotStored)?;
        let permit = self.budget.clone().try_acquire_many_owned(kib);
        permit.map_err(|_| Unavailable::NotStored)
    }

    /// Stores a delivery, and returns when it is committed.
    pub async fn accept(&self, delivery: Delivery) -> Result<Verdict, Unavailable> {
        let Some(lanes) = &self.lanes else {
            return Ok(Verdict::Accepted);
        };
        let (answer, verdict) = oneshot::channel();
        let lane = lanes.of(delivery.job.queue);
        let job = &delivery.job;
        let sender = job.shop.as_deref().or(job.connection.as_deref());
        let sender = sender.or(delivery.account.as_deref());
        let kib = delivery.budget.permit.num_permits();
        let left = self.budget.available_permits();
        let waiting = Waiting {
            place: lane.shares.enter((job.source, sender), kib, left)?,
            id: id_of(job).filter(|_| self.dedupes),
            job: delivery.job,
            body_hash: delivery.body_hash,
            note: delivery.not_understood,
            answer,
            _budget: delivery.budget,
        };
        let sent = lane.waiting.try_send(waiting);
        sent.map_err(|_| Unavailable::NotStored)?;
        match timeout(ANSWER_DEADLINE, verdict).await {
            Ok(Ok(verdict)) => {
                crash_point::reach(Point::Answer).await;
                Ok(verdict)
            }
            Ok(Err(_)) | Err(_) => Err(Unavailable::NotStored),
        }
    }
}

/// The tasks behind an [`Intake`].
pub struct IntakeTasks {
    own: Option<Db>,
    collectors: [JoinHandle<()>; 2],
    notifier: JoinHandle<()>,
}

impl IntakeTasks {
    pub fn start(parts: &Parts) -> (Intake, IntakeTasks) {
        let (db, bus) = (&parts.db, &parts.bus);
        let (privacy, waiting_requests) = Lane::new();
        let (others, waiting) = Lane::new();
        let (committed, waiting_jobs) = mpsc::channel(MAX_COMMITTED);
        let own = db.apart(CONNECTIONS, STATEMENT_DEADLINE);
        let writer = BatchWriter {
            db: own.as_ref().unwrap_or(db).clone(),
            bus: bus.clone(),
            clock: parts.clock.clone(),
            keys: parts.keys.clone(),
            dedupe_ttl: parts.config.dedupe_ttl,
            committed,
            outage: Outage::default(),
        };
        let writer = Arc::new(writer);
        let of_privacy = collect(waiting_requests, writer.clone(), 1);
        let of_others = collect(waiting, writer, db.writers(BATCHES));
        let collectors = [
            task::spawn("intake of privacy requests", of_privacy),
            task::spawn("intake", of_others),
        ];
        let notifier = task::spawn("notifier", notify(bus.clone(), db.clone(), waiting_jobs));
        let intake = Intake {
            lanes: Some(Lanes { privacy, others }),
            dedupes: parts.config.dedupe,
            budget: Arc::new(Semaphore::new(WAITING_KIB)),
        };
        let tasks = IntakeTasks {
            own,
            collectors,
            notifier,
        };
        (intake, tasks)
    }

    /// Waits until all accepted deliveries are committed and workers were notified of them. Every
    /// [`Intake`] must have been dropped before.
    pub async fn drained(self) {
        for collector in self.collectors {
            let _ = collector.await;
        }
        let _ = self.notifier.await;
        if let Some(db) = self.own {
            db.close().await;
        }
    }
}

/// Puts waiting deliveries into batches and starts a task for each batch. At most `most` batches are under
/// way at a time; on SQLite it is one, because SQLite has one writer.
///
/// A batch is stored when no other is under way, or when it is large enough to be worth a commit
/// beside the others. So under light load one fsync serves all deliveries that came meanwhile, and
/// under heavy load several batches use the database at the same time.
async fn collect(mut waiting: mpsc::Receiver<Waiting>, writer: Arc<BatchWriter>, most: usize) {
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

/// Deliveries that wait for a batch. Their senders take turns, so one that sends very many delays nobody but itself.
#[derive(Default)]
struct Turns {
    of: HashMap<Sender, VecDeque<Waiting>>,
    turns: VecDeque<Sender>,
    len: usize,
}

impl Turns {
    /// The next batch: as many bodies as fit into one transaction, at most `most` and at least one.
    fn batch(&mut self, most: usize) -> Vec<Waiting> {
        let mut batch = Vec::with_capacity(self.len.min(most));
        let mut left = BATCH_BYTES;
        while batch.len() < most
            && let Some(size) = self.next().map(|waiting| waiting.job.body.len())
            && (size <= left || batch.is_empty())
        {
            left = left.saturating_sub(size);
            batch.extend(self.take());
        }
        batch
    }

    fn next(&self) -> Option<&Waiting> {
        self.of.get(self.turns.front()?)?.front()
    }

    fn take(&mut self) -> Option<Waiting> {
        let sender = self.turns.pop_front()?;
        let of_sender = self.of.get_mut(&sender)?;
        let taken = of_sender.pop_front()?;
        if of_sender.is_empty() {
            self.of.remove(&sender);
        } else {
            self.turns.push_back(sender);
        }
        self.len -= 1;
        Some(taken)
    }
}

impl Extend<Waiting> for Turns {
    fn extend<I: IntoIterator<Item = Waiting>>(&mut self, all: I) {
        for waiting in all {
            let sender = waiting.place.sender;
            let of_sender = self.of.entry(sender).or_default();
            if of_sender.is_empty() {
                self.turns.push_back(sender);
            }
            of_sender.push_back(waiting);
            self.len += 1;
        }
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

struct BatchWriter {
    db: Db,
    bus: Bus,
    clock: Clock,
    keys: Arc<Keys>,
    /// How long ids are remembered.
    dedupe_ttl: Duration,
    committed: mpsc::Sender<CommittedJob>,
    outage: Outage,
}

/// A committed job of which workers are to be notified.
struct CommittedJob {
    job_ref: JobRef,
    queue: Queue,
    kind: String,
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

/// The sorted ids of deliveries, each with the one that brought it first.
type Firsts = BTreeMap<DeliveryId, First>;

fn first_of_each_id<'a>(deliveries: impl Iterator<Item = &'a Waiting>) -> Firsts {
    let mut firsts = Firsts::new();
    for Waiting {
        id, job, body_hash, ..
    } in deliveries
    {
        if let Some(id) = id {
            let (job, body) = (job.id, *body_hash);
            firsts.entry(*id).or_insert(First { job, body });
        }
    }
    firsts
}

fn id_of(job: &NewJob) -> Option<DeliveryId> {
    let id = job.external_id.as_deref()?;
    // A shop is the same one while it moves from one connection to another.
    let sender = job.shop.as_deref().or(job.connection.as_deref());
    Some(DeliveryId::new(job.source, sender, id))
}

fn claim(id: DeliveryId, job: JobId, body: Option<BodyHash>) -> Claim {
    Claim { id, job, body }
}

fn claims(first: &Firsts) -> Vec<Claim> {
    let of_first = |(id, first): (&DeliveryId, &First)| claim(*id, first.job, first.body);
    first.iter().map(of_first).collect()
}

/// The verdict on a delivery whose id was stored or is known. `None`: it is still to be written, because it has no id,
/// nothing is known of its id, or it has another body than the first one with its id.
fn verdict_by_id(waiting: &Waiting, first: &Firsts, ids: &Remembered) -> Option<Verdict> {
    if ids.fresh.contains(&waiting.job.id) {
        return Some(Verdict::Accepted);
    }
    let id = waiting.id?;
    let in_batch = || first.get(&id).filter(|it| ids.fresh.contains(&it.job));
    let known = ids.known.get(&id).or_else(in_batch)?;
    (!is_of_another_body(waiting, *known)).then_some(Verdict::Duplicate)
}

/// Writes deliveries, and returns the jobs of those that are new, and of those that are kept for an operator.
async fn write(
    tx: &mut sql::Tx,
    batch: &[Waiting],
    ttl: Duration,
    clock: &Clock,
    keys: &Keys,
) -> sql::Result<(HashSet<JobId>, HashSet<JobId>)> {
    let first = first_of_each_id(batch.iter());
    let ids = webhook_ids::remember(tx, &claims(&first), clock.now(), ttl).await?;
    let others = of_another_body(batch, &first, &ids);
    let held = remember_held(tx, others, clock, ttl).await?;
    let is_new = |it: &&Waiting| it.id.is_none() || ids.fresh.contains(&it.job.id);
    let new = batch.iter().filter(is_new).map(|waiting| &waiting.job);
    let new: Vec<&NewJob> = new.collect();
    let kept: Vec<&NewJob> = new.iter().copied().chain(&held).collect();
    jobs::insert(tx, &kept).await?;
    for waiting in batch {
        if let Some(note) = waiting.note {
            jobs::note(tx, waiting.job.id, note).await?;
        }
    }
    for job in &held {
        jobs::note(tx, job.id, OTHER_BODY).await?;
    }
    let ids_of = |jobs: &[&NewJob]| jobs.iter().map(|job| job.id).collect();
    let written = (ids_of(&new), ids_of(&held.iter().collect::<Vec<_>>()));
    let requests = kept.into_iter().filter(|job| job.queue == Queue::Privacy);
    privacy_requests::open(tx, keys, audit::STOREFRONT, &requests.collect::<Vec<_>>()).await?;
    Ok(written)
}

/// Whether a delivery has another body than the first one with its id, and would have an effect. One of which nothing is made
/// has none, whatever its body says.
fn is_of_another_body(waiting: &Waiting, first: First) -> bool {
    let bodies = waiting.body_hash.zip(first.body);
    waiting.job.state == State::Ready && bodies.is_some_and(|(body, first)| body != first)
}

/// The deliveries whose id came before with another body, as jobs that wait for an operator. Their own ids hold the hash
/// of the body, so that each of them is kept once. The erasure of a shop keeps the time until which it is held, so
/// that it is held as well when an operator requeues it.
fn of_another_body(batch: &[Waiting], first: &Firsts, ids: &Remembered) -> Vec<NewJob> {
    let other = |waiting: &Waiting| {
        let id = waiting.id?;
        let first = ids.known.get(&id).or_else(|| first.get(&id))?;
        let (external_id, body) = (waiting.job.external_id.as_deref()?, waiting.body_hash?);
        is_of_another_body(waiting, *first).then(|| NewJob {
            external_id: Some(format!("{external_id}/{}", body.to_hex())),
            state: State::Dead,
            notified_at: None,
            ..waiting.job.clone()
        })
    };
    batch.iter().filter_map(other).collect()
}

/// Those of the deliveries that are not kept yet.
async fn remember_held(
    tx: &mut sql::Tx,
    mut others: Vec<NewJob>,
    clock: &Clock,
    ttl: Duration,
) -> sql::Result<Vec<NewJob>> {
    if others.is_empty() {
        return Ok(others);
    }
    let mut first = Firsts::new();
    for job in &others {
        if let Some(id) = id_of(job) {
            let (job, body) = (job.id, None);
            first.entry(id).or_insert(First { job, body });
        }
    }
    let claims = claims(&first);
    let ids = webhook_ids::remember(tx, &claims, clock.now(), ttl).await?;
    others.retain(|job| ids.fresh.contains(&job.id));
    Ok(others)
}

/// A message about up to [`MAX_JOBS_PER_MESSAGE`] jobs of one queue and kind.
struct Message {
    queue: Queue,
    kind: String,
    job_refs: Vec<JobRef>,
}

/// Notifies workers of committed jobs. It puts as many jobs as possible into one message, and
/// sends several messages at a time.
async fn notify(bus: Bus, db: Db, mut committed: mpsc::Receiver<CommittedJob>) {
    let mut waiting = Vec::new();
    while committed
        .recv_many(&mut waiting, MAX_JOBS_PER_MESSAGE * MESSAGES_AT_ONCE)
        .await
        > 0
    {
        let messages = into_messages(waiting.drain(..));
        let messages_sent = messages
            .into_iter()
            .map(|message| try_notify(&bus, message));
        let failed: Vec<JobId> = stream::iter(messages_sent)
            .buffer_unordered(MESSAGES_AT_ONCE)
            .concat()
            .await;
        clear_notified(&db, &failed).await;
    }
}

fn into_messages(jobs: impl Iterator<Item = CommittedJob>) -> Vec<Message> {
    let mut kinds: BTreeMap<(Queue, String), Vec<JobRef>> = BTreeMap::new();
    for job in jobs {
        let of_kind = kinds.entry((job.queue, job.kind)).or_default();
        of_kind.push(job.job_ref);
    }
    let mut messages = Vec::new();
    for ((queue, kind), job_refs) in kinds {
        for job_refs in job_refs.chunks(MAX_JOBS_PER_MESSAGE) {
            let (kind, job_refs) = (kind.clone(), job_refs.to_vec());
            messages.push(Message {
                queue,
                kind,
                job_refs,
            });
        }
    }
    messages
}

/// The jobs of which workers could not be notified.
async fn try_notify(bus: &Bus, message: Message) -> Vec<JobId> {
    let (queue, job_refs) = (message.queue, &message.job_refs);
    let ids = job_refs.iter().map(|job_ref| job_ref.job).collect();
    if !bus.is_ready_for_marked(queue) {
        return ids;
    }
    crash_point::reach(Point::IntakeNotify).await;
    match bus.notify(queue, &message.kind, job_refs).await {
        Ok(()) => {
            crash_point::reach(Point::IntakeNotified).await;
            Vec::new()
        }
        Err(_) => ids,
    }
}

/// Clears the time of the last notification of jobs whose message failed, so that the next sweep
/// notifies workers of them. If that fails too, the sweep finds the jobs a little later.
async fn clear_notified(db: &Db, ids: &[JobId]) {
    for ids in ids.chunks(BATCH) {
        tracing::debug!(
            jobs = ids.len(),
            "the bus did not take a message; the sweep will notify workers"
        );
        if let Err(error) = jobs::clear_notified(db, ids).await {
            tracing::debug!(%error, "could not mark jobs for the sweep");
            return;
        }
    }
}

/// Logs the beginning and the end of an outage, and not each batch that fails during it.
#[derive(Default)]
struct Outage(AtomicBool);

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
#[path = "../tests/unit/intake.rs"]
mod tests;
