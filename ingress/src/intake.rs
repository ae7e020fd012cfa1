//! Stores deliveries as jobs in batches. All requests that wait while a commit is under way belong
//! to the next batch.
//!
//! There is no timer: an idle service commits a single delivery at once, and a busy one commits
//! hundreds with two statements and one flush to disk. Batches are stored by tasks of their own,
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
use std::sync::atomic::{AtomicBool, Ordering};
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
use store::sql::{self, Db, is_connection_error, is_read_only};
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
/// How many deliveries one transaction stores at most, and how many bytes of bodies, because it has to
/// be stored within [`STORE_DEADLINE`]. A body that is larger is stored alone.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A batch of this size is stored at once, even while another one is under way.
const ENOUGH: usize = 32;
/// How long a commit may take. If the database takes longer, it counts as down, so that the client
/// gets its answer within 1.5 s.
const STORE_DEADLINE: Duration = Duration::from_secs(1);
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

/// The error that a delivery was not stored. Its id is not remembered either.
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
        let own = db.apart(CONNECTIONS);
        let writer = BatchWriter {
            db: own.as_ref().unwrap_or(db).clone(),
            bus: bus.clone(),
            clock: parts.clock.clone(),
            keys: parts.keys.clone(),
            dedupe_ttl: parts.config.dedupe.then_some(parts.config.dedupe_ttl),
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
            task::spawn_in(&mut under_way, "batch", writer.clone().store(turns.batch()));
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
    /// The next batch: as many bodies as fit into one transaction, and at least one.
    fn batch(&mut self) -> Vec<Waiting> {
        let mut batch = Vec::with_capacity(self.len.min(BATCH));
        let mut left = BATCH_BYTES;
        while batch.len() < BATCH
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

struct BatchWriter {
    db: Db,
    bus: Bus,
    clock: Clock,
    keys: Arc<Keys>,
    /// How long ids are remembered; `None`: they are not.
    dedupe_ttl: Option<Duration>,
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
    async fn store(self: Arc<Self>, mut batch: Vec<Waiting>) {
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
        let begun = Instant::now();
        let stored = match timeout(STORE_DEADLINE, self.commit_with_retry(&batch)).await {
            Ok(stored) => stored.map_err(|error| error.to_string()),
            Err(_) => Err("it took longer than a second".to_owned()),
        };
        metrics::histogram!("waybill_intake_commit_seconds").record(begun.elapsed());
        match stored {
            Ok(stored) => {
                self.outage.over();
                self.answer(batch, &stored);
            }
            // When the batch is dropped, all its requests are answered with 503.
            Err(error) => self.outage.begun(&error),
        }
    }

    /// Stores a batch. If its connection turns out to be dead before the commit, nothing is lost,
    /// and the batch is stored on another one. After the server was away, all idle connections are
    /// dead, so this may happen several times. One that leads to a server which has become read-only is
    /// replaced once, because the address may lead to another server by now.
    async fn commit_with_retry(&self, batch: &[Waiting]) -> sql::Result<Stored> {
        if self.outage.is_on() && self.db.waiting_for_standby().await? >= MOST_ON_SERVER {
            let why = "too many commits wait for a standby of the server";
            return Err(sql::Error::Protocol(why.into()));
        }
        let mut stored = self.commit(batch).await;
        if let Err(Failed::BeforeCommit(error)) = &stored
            && is_read_only(error)
        {
            stored = self.commit(batch).await;
        }
        for _ in 0..MOST_DEAD {
            match stored {
                Err(Failed::BeforeCommit(error)) if is_connection_error(&error) => {
                    stored = self.commit(batch).await;
                }
                other => return other.map_err(Failed::into_inner),
            }
        }
        stored.map_err(Failed::into_inner)
    }

    /// Stores a batch in one transaction: it remembers the ids, and inserts the jobs of those that
    /// are new.
    async fn commit(&self, batch: &[Waiting]) -> Result<Stored, Failed> {
        let waiting = batch.iter().filter(|_| self.dedupe_ttl.is_some());
        let first = first_of_each_id(waiting.map(|it| (&it.job, it.body_hash)));
        let mut tx = self.db.begin().await.map_err(Failed::BeforeCommit)?;
        let stored = write(
            &mut tx,
            batch,
            &first,
            self.dedupe_ttl,
            &self.clock,
            &self.keys,
        )
        .await
        .map_err(Failed::BeforeCommit)?;
        tx.commit().await.map_err(Failed::InCommit)?;
        Ok(stored)
    }

    fn answer(&self, batch: Vec<Waiting>, stored: &Stored) {
        metrics::histogram!("waybill_intake_batch_size")
            .record(f64::from(u32::try_from(batch.len()).unwrap_or(u32::MAX)));
        for Waiting { job, answer, .. } in batch {
            if !stored.fresh.contains(&job.id) {
                let _ = answer.send(if stored.held.contains(&job.id) {
                    Verdict::Held
                } else {
                    Verdict::Duplicate
                });
                continue;
            }
            let _ = answer.send(Verdict::Accepted);
            if job.notified_at.is_some() {
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
}

enum Failed {
    BeforeCommit(sql::Error),
    /// The outcome of the commit is not known. When the sender tries again, it is a duplicate or
    /// accepted.
    InCommit(sql::Error),
}

impl Failed {
    fn into_inner(self) -> sql::Error {
        match self {
            Failed::BeforeCommit(error) | Failed::InCommit(error) => error,
        }
    }
}

/// The sorted ids of deliveries, each with the one that brought it first.
fn first_of_each_id<'a>(
    deliveries: impl Iterator<Item = (&'a NewJob, Option<BodyHash>)>,
) -> BTreeMap<DeliveryId, First> {
    let mut first = BTreeMap::new();
    for (job, body) in deliveries {
        if let Some(id) = id_of(job) {
            first.entry(id).or_insert(First { job: job.id, body });
        }
    }
    first
}

fn id_of(job: &NewJob) -> Option<DeliveryId> {
    let id = job.external_id.as_deref()?;
    // A shop is the same one while it moves from one connection to another.
    let sender = job.shop.as_deref().or(job.connection.as_deref());
    Some(DeliveryId::new(job.source, sender, id))
}

fn claims(first: &BTreeMap<DeliveryId, First>) -> Vec<Claim> {
    let claim = |(&id, &First { job, body }): (&DeliveryId, &First)| Claim { id, job, body };
    first.iter().map(claim).collect()
}

/// The jobs that a batch has inserted.
struct Stored {
    fresh: HashSet<JobId>,
    held: HashSet<JobId>,
}

/// Writes a batch.
async fn write(
    tx: &mut sql::Tx,
    batch: &[Waiting],
    first: &BTreeMap<DeliveryId, First>,
    ttl: Option<Duration>,
    clock: &Clock,
    keys: &Keys,
) -> sql::Result<Stored> {
    let (fresh, held) = match ttl {
        Some(ttl) => {
            let ids = webhook_ids::remember(tx, &claims(first), clock.now(), ttl).await?;
            let others = of_another_body(batch, first, &ids);
            (ids.fresh, remember_held(tx, others, clock, ttl).await?)
        }
        None => (HashSet::new(), Vec::new()),
    };
    let new: Vec<&NewJob> = batch
        .iter()
        .map(|waiting| &waiting.job)
        .filter(|job| ttl.is_none() || job.external_id.is_none() || fresh.contains(&job.id))
        .collect();
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
    let requests = kept.into_iter().filter(|job| job.queue == Queue::Privacy);
    privacy_requests::open(tx, keys, audit::STOREFRONT, &requests.collect::<Vec<_>>()).await?;
    Ok(Stored {
        fresh: new.iter().map(|job| job.id).collect(),
        held: held.iter().map(|job| job.id).collect(),
    })
}

/// The deliveries whose id came before with another body, as jobs that wait for an operator. Their own ids hold the hash
/// of the body, so that each of them is kept once. The erasure of a shop keeps the time until which it is held, so
/// that it is held as well when an operator requeues it.
fn of_another_body(
    batch: &[Waiting],
    first: &BTreeMap<DeliveryId, First>,
    ids: &Remembered,
) -> Vec<NewJob> {
    let other = |waiting: &Waiting| {
        // One of which nothing is made has no effect, whatever its body says.
        let is_ready = waiting.job.state == State::Ready;
        let id = id_of(&waiting.job).filter(|_| is_ready)?;
        let body = waiting.body_hash?;
        let first = ids.known.get(&id).or_else(|| first.get(&id))?.body?;
        let external_id = waiting.job.external_id.as_deref()?;
        (first != body).then(|| NewJob {
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
    let first = first_of_each_id(others.iter().map(|job| (job, None)));
    let ids = webhook_ids::remember(tx, &claims(&first), clock.now(), ttl).await?;
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
