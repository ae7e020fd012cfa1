//! The worker loop: it takes messages from the bus and does the work of their jobs exactly once.
//!
//! For each message one transaction marks its jobs done and writes their effects, so a job is done
//! if and only if its effects are there. There are three ways to run the jobs of a message, and
//! each is slower and safer than the one before:
//!
//! 1. **as a batch**: all jobs run in one transaction, with multi-row statements. If any job
//!    fails, the transaction is rolled back, and the message is run in the second way.
//! 2. **with savepoints**: all jobs run in one transaction with a savepoint for each job, so that
//!    the failed jobs are recorded and the others succeed. If a run panics or takes too long, or
//!    if the broker redelivers the message, the third way is taken.
//! 3. **isolated**: each job runs in a transaction of its own, and each run is counted in a
//!    separate commit before it starts. A job that ends its process again and again is
//!    dead-lettered after [`MAX_UNFINISHED_ATTEMPTS`] runs.
//!
//! Jobs that call a provider run outside of these transactions, and the loop goes on meanwhile:
//! see `call`.
//!
//! Everything that can be computed from a body without the database is prepared before the
//! transaction begins, because SQLite has only one writer, and because no row should stay locked
//! while a body is read.

mod attempt;
pub mod attention;
mod call;
mod deadlines;
mod failure;
mod handlers;
mod heartbeat;
mod housekeeping;
mod lease;
pub mod mail;
mod pauses;
mod pending;
mod port;
mod publish;
pub mod reconcile;
mod report;
mod run;
mod shapes;
mod sweep;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use anyhow::Result;
use bus::{Listener, Message};
use domain::job::Queue;
use flows::Context;
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use platform::metrics::By;
use platform::task;
use process::{Parts, registry};
use store::jobs;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Removal of exports that have expired, or that contain data of somebody who was erased.
pub use handlers::privacy::export::{remove_all_of, remove_expired};
/// Erasing again what a database does not know that was restored from a backup.
pub use handlers::privacy::reapply;
pub use port::Port;

use crate::call::Calls;
use crate::handlers::Providers;
use crate::heartbeat::Heartbeat;
use crate::pauses::Pauses;
use crate::shapes::Shapes;

/// The worker of one queue in this process.
pub struct Worker {
    pub parts: Parts,
    pub queue: Queue,
    /// How many messages are handled at a time.
    pub concurrency: u16,
    /// When the newest job arrived whose message has come, in milliseconds. The sweep finds by it
    /// which messages should have come.
    newest: AtomicI64,
    /// Notified when a message has come.
    received: Notify,
    providers: Providers,
    calls: Calls,
    heartbeat: Arc<Heartbeat>,
    shared: Arc<Shared>,
}

/// What the workers of one process share, so that it is looked for once and not by each of them.
#[derive(Default)]
struct Shared {
    /// Notified when events may have been committed.
    events: Notify,
    pauses: Pauses,
    shapes: Shapes,
}

impl Worker {
    /// The only worker of a process.
    pub fn new(parts: Parts, queue: Queue, concurrency: u16) -> Self {
        Self::with(parts, queue, concurrency, Arc::default())
    }

    /// A worker of each queue, all in one process. Each handles `concurrency` messages at a time.
    pub fn of_all_queues(parts: &Parts, concurrency: u16) -> impl Iterator<Item = Self> {
        let shared = Arc::new(Shared::default());
        let worker = move |queue| Self::with(parts.clone(), queue, concurrency, shared.clone());
        Queue::ALL.into_iter().map(worker)
    }

    fn with(parts: Parts, queue: Queue, concurrency: u16, shared: Arc<Shared>) -> Self {
        Worker {
            providers: Providers::new(&parts),
            parts,
            queue,
            concurrency,
            newest: AtomicI64::new(0),
            received: Notify::new(),
            calls: Calls::new(queue),
            // Two more are the task that begins the calls that wait, and the one that reads what is paused.
            heartbeat: Arc::new(Heartbeat::new(concurrency + 2)),
            shared,
        }
    }

    /// Whether all tasks of this worker run, asked at any time after it has begun.
    pub fn liveness(&self) -> impl Fn() -> bool + Send + use<> {
        let heartbeat = self.heartbeat.clone();
        move || heartbeat.is_alive()
    }

    /// Waits until the database knows every erasure of the journal, and this process the connections. False when the
    /// worker is to stop before that.
    pub(crate) async fn may_work(&self, shutdown: &CancellationToken) -> bool {
        let current = async {
            self.parts.journal.current().await;
            registry::known(&self.parts.connections).await;
        };
        shutdown.run_until_cancelled(current).await.is_some()
    }

    fn context(&self) -> Context<'_> {
        Context {
            config: &self.parts.config,
            connections: &self.parts.connections,
            clock: &self.parts.clock,
            keys: &self.parts.keys,
        }
    }
}

/// Runs until `shutdown`, and then finishes the messages that are under way.
pub async fn run(worker: Worker, shutdown: CancellationToken) -> Result<()> {
    platform::metrics::begin(By::Worker);
    let worker = Arc::new(worker);
    let bus = &worker.parts.bus;
    // Each task handles one message and has the next one ready.
    let prefetch = worker.concurrency.saturating_mul(2);
    let listener = bus.listen(worker.queue, prefetch);
    let tasks = TaskTracker::new();
    for _ in 0..worker.concurrency {
        let work = work(worker.clone(), listener.clone(), shutdown.clone());
        task::spawn("worker", tasks.track_future(work));
    }
    let pending = worker.clone().begin_pending();
    task::spawn("pending calls", tasks.track_future(pending));
    let pauses = pauses::run(worker.clone(), shutdown.clone());
    task::spawn("pauses", tasks.track_future(pauses));
    let sweep = sweep::run(worker.clone(), shutdown.clone());
    task::spawn("sweep", tasks.track_future(sweep));
    let housekeeping = housekeeping::run(worker.clone(), shutdown.clone());
    task::spawn("housekeeping", tasks.track_future(housekeeping));
    let publish = publish::run(worker.clone(), shutdown.clone());
    task::spawn("publisher", tasks.track_future(publish));
    let webhooks = webhooks::run(worker.clone(), shutdown.clone());
    task::spawn("webhooks", tasks.track_future(webhooks));
    tracing::info!(queue = %worker.queue, concurrency = worker.concurrency, "working");
    shutdown.cancelled().await;
    worker.calls.close();
    listener.close();
    tasks.close();
    tasks.wait().await;
    worker.give_up_pending().await;
    worker.calls.end().await;
    worker.shared.shapes.flush(&worker.parts).await;
    if bus.is_local() {
        // No job is running, so after the next start no job is suspected of having ended the
        // process.
        jobs::clear_all_notified(&worker.parts.db, worker.queue).await?;
    }
    Ok(())
}

async fn work(worker: Arc<Worker>, listener: Listener, shutdown: CancellationToken) {
    let _at_work = worker.heartbeat.at_work();
    while let Some(message) = next(&worker, &listener, &shutdown).await {
        // The jobs of a message that is given back here are ready, as they were.
        if !worker.may_work(&shutdown).await {
            return;
        }
        // Boxed, because it is large, and every task that waits for a message would hold it.
        Box::pin(worker.answer(message, &shutdown)).await;
    }
}

/// The next message. After the shutdown the messages in a local channel are left, because their
/// jobs are in the database.
async fn next(
    worker: &Worker,
    listener: &Listener,
    shutdown: &CancellationToken,
) -> Option<Message> {
    if !worker.parts.bus.is_local() {
        return listener.next().await;
    }
    tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        message = listener.next() => message,
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a worker that ends tries to write that it was not a job that ended it.
const LAST_WRITE: Duration = Duration::from_secs(1);

impl Worker {
    /// Runs the jobs of a message and acknowledges it. While the database is away, the message is
    /// kept and tried again. If the process ends before that succeeds, the broker delivers the
    /// message to another worker.
    async fn answer(self: &Arc<Self>, message: Message, shutdown: &CancellationToken) {
        metrics::counter!(
            "waybill_bus_messages_received_total", "queue" => self.queue.into_str(),
            "redelivered" => if message.redelivered { "yes" } else { "no" }
        )
        .increment(1);
        self.received.notify_one();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut logged = false;
        let mut counted = None;
        loop {
            let error = match self.process(&message, &mut counted).await {
                Ok(()) => break,
                Err(error) => error,
            };
            if !logged {
                tracing::error!(%error, "the database did not take a message's work; trying again");
                logged = true;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(backoff.next_pause()) => {}
                () = shutdown.cancelled() => {
                    // If the database is away still, the next process waits before it runs the job.
                    let taken_back = self.take_back(&mut counted);
                    let _ = tokio::time::timeout(LAST_WRITE, taken_back).await;
                    return;
                }
            }
        }
        if logged {
            tracing::info!("the message was worked on after all");
        }
        crash_point::reach(Point::Ack).await;
        message.ack().await;
        crash_point::reach(Point::Acked).await;
    }
}
