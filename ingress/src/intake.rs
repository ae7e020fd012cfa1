//! Stores deliveries as jobs in batches. All requests that wait while a commit is under way belong
//! to the next batch.
//!
//! There is no timer: an idle service commits a single delivery at once, and a busy one commits
//! hundreds with one statement and one flush to disk, or with a few statements what is not plain. Batches are stored by
//! tasks of their own, up to two at a time, which go on when a client disconnects (`batches`, `write`). The number and the
//! bytes of waiting deliveries are limited, and beyond that the answer is 503 at once. A shop or an account may have as
//! many, and as many bytes, waiting as there is room left for others, and a batch takes one of each in turn, so nobody who
//! sends very many keeps others out (`turns`).
//!
//! Privacy requests have batches of their own. Each is also written to the audit, whose log one
//! transaction at a time goes on with, and no other delivery waits for that.
//!
//! These invariants hold. A delivery is answered as accepted only after its job is committed, and
//! as a duplicate only after the job of the first delivery is committed. Ids are sorted within a
//! batch, so that two batches never wait for each other's locks in a circle. Workers are notified
//! after the commit, by a task of its own (`notify`); if a notification fails, the sweep finds the job, only
//! later.

mod batches;
mod notify;
mod turns;
mod write;

use std::sync::Arc;
use std::time::Duration;

use domain::job::Queue;
use platform::crash_point::{self, Point};
use platform::task;
use process::Parts;
use store::jobs::NewJob;
use store::sql::Db;
use store::webhook_ids::{BodyHash, DeliveryId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::batches::{BatchWriter, Outage, collect};
use self::notify::notify;
use self::turns::{Place, Shares};
use self::write::id_of;
use crate::delivery::Delivery;

/// How many batches are under way at a time, but on SQLite, which has one writer.
const BATCHES: usize = 2;
/// How many connections to PostgreSQL the intake has for itself: one for each batch, of deliveries and of
/// privacy requests. So no delivery waits for those who read, however many they are.
pub const CONNECTIONS: u32 = 3;
/// How many deliveries may wait for a batch.
pub(crate) const WAITING: usize = 4096;
/// The byte budget in KiB: how much memory the bodies that are being read or wait may take.
pub(crate) const WAITING_KIB: usize = 64 * 1024;
/// The part of the byte budget that is reserved for small bodies, and how large a small body is.
/// Nearly all bodies are small, so a few senders of large bodies cannot keep all others out.
pub(crate) const KEPT_KIB: usize = 16 * 1024;
pub(crate) const SMALL: usize = 64 * 1024;
/// When PostgreSQL ends a statement, so that it does not go on to its commit after its batch was given up.
const STATEMENT_DEADLINE: Duration = Duration::from_millis(900);
const ANSWER_DEADLINE: Duration = Duration::from_millis(1300);
/// How many committed jobs may wait for their notification. Beyond that the sweep finds them.
const MAX_COMMITTED: usize = 65_536;

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

#[cfg(test)]
#[path = "../tests/unit/intake.rs"]
mod tests;
