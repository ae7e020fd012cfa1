//! The worker loop: a message of the bus becomes work done once.
//!
//! One transaction a message marks its jobs done and does their work, so a job is done
//! exactly when its work is. Three ways to run the jobs of a message, each slower and
//! safer than the one before:
//!
//! 1. **as a batch**: all in one transaction, with multi-row statements. If any fails, nothing of
//!    it stays and
//! 2. **with savepoints**: one transaction with a savepoint a job, so that the failed ones are
//!    recorded and their neighbours succeed. If a run panics or takes too long, or the
//!    message was delivered before and not answered,
//! 3. **isolated**: a transaction a job, each run counted in a commit of its own before it
//!    starts. A job that keeps ending its process is dead-lettered after
//!    [`MAX_UNFINISHED_ATTEMPTS`] runs.
//!
//! Jobs that ask a provider go another way, beside the messages and without an open
//! transaction: see `call`.
//!
//! What is to be computed of a body is prepared before the transaction opens: SQLite has
//! one writer, and no row lock should wait for a QR code to be drawn.

mod call;
mod command;
mod deadlines;
mod endpoint;
mod failure;
mod handlers;
mod heartbeat;
mod housekeeping;
pub mod mail;
mod publish;
mod run;
mod sweep;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use anyhow::Result;
use bus::{Listener, Message};
use domain::job::Queue;
use platform::backoff::Backoff;
use platform::metrics::By;
use platform::task;
use process::Parts;
use store::jobs;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use command::main;
pub use endpoint::Endpoint;
pub use handlers::kinds;
/// Exports that are to be gone: expired, or of somebody whose data is erased.
pub use handlers::privacy::export::{remove_all_of, remove_expired};

use crate::call::Calls;
use crate::handlers::{Context, Providers};
use crate::heartbeat::Heartbeat;

/// A process' share of a queue.
pub struct Worker {
    pub parts: Parts,
    pub queue: Queue,
    /// Messages worked on at a time.
    pub concurrency: u16,
    /// When the newest job arrived whose message has come, in milliseconds: the sweep's
    /// measure of whose turn it has been.
    newest: AtomicI64,
    providers: Providers,
    calls: Calls,
    heartbeat: Arc<Heartbeat>,
}

impl Worker {
    pub fn new(parts: Parts, queue: Queue, concurrency: u16) -> Self {
        Worker {
            providers: Providers::new(&parts.config, &parts.clock),
            parts,
            queue,
            concurrency,
            newest: AtomicI64::new(0),
            calls: Calls::new(queue),
            heartbeat: Arc::new(Heartbeat::new(concurrency)),
        }
    }

    fn context(&self) -> Context<'_> {
        Context {
            config: &self.parts.config,
            clock: &self.parts.clock,
            keys: &self.parts.keys,
        }
    }
}

/// Works until `shutdown`, then finishes the messages under way.
pub async fn run(worker: Worker, shutdown: CancellationToken) -> Result<()> {
    platform::metrics::begin(By::Worker);
    let worker = Arc::new(worker);
    let bus = &worker.parts.bus;
    // One message in work and one in hand for each task.
    let prefetch = worker.concurrency.saturating_mul(2);
    let listener = bus.listen(worker.queue, prefetch);
    let tasks = TaskTracker::new();
    for _ in 0..worker.concurrency {
        let work = work(worker.clone(), listener.clone(), shutdown.clone());
        task::spawn("worker", tasks.track_future(work));
    }
    let sweep = sweep::run(worker.clone(), shutdown.clone());
    task::spawn("sweep", tasks.track_future(sweep));
    let housekeeping = housekeeping::run(worker.clone(), shutdown.clone());
    task::spawn("housekeeping", tasks.track_future(housekeeping));
    let publish = publish::run(worker.clone(), shutdown.clone());
    task::spawn("publisher", tasks.track_future(publish));
    tracing::info!(queue = %worker.queue, concurrency = worker.concurrency, "working");
    shutdown.cancelled().await;
    worker.calls.close();
    listener.close();
    tasks.close();
    tasks.wait().await;
    worker.calls.end().await;
    if bus.is_local() {
        // Nothing is running: the next start need not suspect these of killing it.
        jobs::clear_all_notified(&worker.parts.db, worker.queue).await?;
    }
    Ok(())
}

async fn work(worker: Arc<Worker>, listener: Listener, shutdown: CancellationToken) {
    let _at_work = worker.heartbeat.at_work();
    while let Some(message) = next(&worker, &listener, &shutdown).await {
        worker.answer(message, &shutdown).await;
    }
}

/// After shutdown a local channel is left as it is: its jobs are in the database.
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

impl Worker {
    /// Runs the jobs of a message and acknowledges it. While the database is away the message
    /// is kept and tried again; unanswered at the end, it is delivered to someone else.
    async fn answer(self: &Arc<Self>, message: Message, shutdown: &CancellationToken) {
        metrics::counter!(
            "waybill_bus_messages_received_total", "queue" => self.queue.as_str(),
            "redelivered" => if message.redelivered { "yes" } else { "no" }
        )
        .increment(1);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut logged = false;
        let mut counted = HashSet::new();
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
                () = tokio::time::sleep(backoff.next_pause()) => {}
                () = shutdown.cancelled() => return,
            }
        }
        if logged {
            tracing::info!("the message was worked on after all");
        }
        message.ack().await;
    }
}
