//! The doorbell: tells workers which jobs are ready. It never carries data, and nothing is
//! lost when it is: jobs stay in the database and the sweep rings them again. A message is
//! up to [`RING_SIZE`] job ids of one queue and one kind, as a JSON array of UUIDs. RabbitMQ
//! between processes; a channel within one. Events go out the same way, to whoever has bound
//! a queue to their exchange.

mod local;
mod rabbitmq;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lapin::options::BasicAckOptions;
use tokio::time::timeout;
use uuid::Uuid;

pub use local::Local;
pub use rabbitmq::{DeadLetters, Found, Holds, RabbitMq, Tap, Topology, inspect};

use domain::envelope::Envelope;
use domain::job::{JobId, Queue};
use domain::trace::TraceContext;

/// The broker, and what names there begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub url: String,
    pub prefix: String,
}

const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// The most job ids in one message.
pub const RING_SIZE: usize = 32;

/// Whether a URL names a broker, without asking it.
pub fn is_url(url: &str) -> bool {
    url.parse::<lapin::uri::AMQPUri>().is_ok()
}

/// A job to be rung. The message carries the trace that it came with, and nothing else of it.
#[derive(Clone, Copy, Debug)]
pub struct Bell {
    pub job: JobId,
    pub traceparent: Option<TraceContext>,
}

impl From<JobId> for Bell {
    fn from(job: JobId) -> Self {
        Bell {
            job,
            traceparent: None,
        }
    }
}

/// The bus of this process. Clones share it.
#[derive(Clone)]
pub enum Bus {
    RabbitMq(RabbitMq),
    Local(Local),
}

impl Bus {
    /// RabbitMQ at `url` with exchanges and queues named after `prefix`. Connecting goes on
    /// in the background, now and after every loss.
    pub fn rabbitmq(url: &str, prefix: &str) -> Result<Self> {
        Ok(Bus::RabbitMq(RabbitMq::start(url, prefix)?))
    }

    /// Within this process.
    pub fn local() -> Self {
        Bus::Local(Local::default())
    }

    pub fn is_local(&self) -> bool {
        matches!(self, Bus::Local(_))
    }

    /// True when a ring would probably get through. When not, a job is left for the sweep.
    pub fn is_ready(&self, queue: Queue) -> bool {
        match self {
            Bus::RabbitMq(bus) => bus.is_ready(),
            Bus::Local(bus) => bus.has_room(queue),
        }
    }

    /// True unless there is a broker and it cannot be reached.
    pub fn is_up(&self) -> bool {
        match self {
            Bus::RabbitMq(bus) => bus.is_ready(),
            Bus::Local(_) => true,
        }
    }

    /// Tells the queue's workers that jobs of `kind` are ready. `Ok` means that the broker
    /// has stored the message in a queue. At most [`RING_SIZE`] jobs.
    pub async fn ring<J>(&self, queue: Queue, kind: &str, jobs: &[J]) -> Result<()>
    where
        J: Copy + Into<Bell>,
    {
        let rung = match self {
            Bus::RabbitMq(bus) => bus.ring(queue, kind, &bells(jobs)).await,
            Bus::Local(bus) => bus.ring(queue, &bells(jobs), false),
        };
        count(queue, rung)
    }

    /// As [`Bus::ring`], for jobs that an earlier process may have died running.
    pub async fn ring_again<J>(&self, queue: Queue, kind: &str, jobs: &[J]) -> Result<()>
    where
        J: Copy + Into<Bell>,
    {
        let rung = match self {
            Bus::RabbitMq(bus) => bus.ring(queue, kind, &bells(jobs)).await,
            Bus::Local(bus) => bus.ring(queue, &bells(jobs), true),
        };
        count(queue, rung)
    }

    /// Shows a job that was given up in the broker's dead-letter queue.
    pub async fn bury(&self, queue: Queue, kind: &str, job: Bell) -> Result<()> {
        match self {
            Bus::RabbitMq(bus) => bus.bury(queue, kind, job).await,
            Bus::Local(_) => Ok(()),
        }
    }

    /// What [`Bus::bury`] has shown, to take away what is true no more; `None`: nothing is shown.
    pub async fn dead_letters(&self) -> Result<Option<DeadLetters>> {
        match self {
            Bus::RabbitMq(bus) => bus.dead_letters().await.map(Some),
            Bus::Local(_) => Ok(None),
        }
    }

    /// Sends events to whoever has bound a queue to their exchange, all at once: whatever must
    /// arrive in order is sent one after the other.
    pub async fn publish_events(&self, events: &[&Envelope]) -> Published {
        match self {
            Bus::RabbitMq(bus) => bus.publish_events(events).await,
            // Read from the database, they are out.
            Bus::Local(_) => Published {
                confirmed: events.iter().map(|event| event.id).collect(),
                failure: None,
            },
        }
    }

    /// Rings for `queue`, at most `prefetch` of them unanswered.
    pub fn listen(&self, queue: Queue, prefetch: u16) -> Listener {
        match self {
            Bus::RabbitMq(bus) => Listener::RabbitMq(bus.listen(queue, prefetch)),
            Bus::Local(bus) => Listener::Local(bus.listen(queue)),
        }
    }

    /// How many messages wait in the queue.
    pub async fn depth(&self, queue: Queue) -> Result<u32> {
        match self {
            Bus::RabbitMq(bus) => bus.depth(queue).await,
            Bus::Local(bus) => Ok(bus.depth(queue)),
        }
    }

    /// Lets go of the broker. Rings that are under way end first.
    pub async fn close(&self) {
        match self {
            Bus::RabbitMq(bus) => bus.close().await,
            Bus::Local(_) => {}
        }
    }
}

/// What became of events that were published.
#[derive(Debug, Default)]
pub struct Published {
    /// The broker has these in every queue they belong to.
    pub confirmed: Vec<Uuid>,
    /// Why the others are not confirmed. Some of them may have arrived.
    pub failure: Option<anyhow::Error>,
}

/// A stream of rings. Clones share the stream: each ring goes to one of them.
#[derive(Clone)]
pub enum Listener {
    RabbitMq(rabbitmq::Listener),
    Local(local::Listener),
}

impl Listener {
    /// The next ring; waits through outages of the broker. `None` once closed.
    pub async fn next(&self) -> Option<Ring> {
        match self {
            Listener::RabbitMq(listener) => listener.next().await,
            Listener::Local(listener) => listener.next().await,
        }
    }

    /// Takes no further messages; [`Listener::next`] ends after those already taken.
    pub fn close(&self) {
        match self {
            Listener::RabbitMq(listener) => listener.close(),
            Listener::Local(_) => {}
        }
    }
}

/// A message: these jobs may be ready. It must be answered with [`Ring::ack`]; dropped
/// without, the broker delivers it again.
pub struct Ring {
    pub jobs: Vec<JobId>,
    /// It was delivered before and not answered: whoever ran it may have died of it.
    pub redelivered: bool,
    answer: Answer,
}

enum Answer {
    RabbitMq {
        delivery: Box<lapin::message::Delivery>,
        /// Open until the answer is given.
        _channel: lapin::Channel,
        _connection: Arc<lapin::Connection>,
    },
    Local,
}

impl Ring {
    /// Tells the broker that all is committed. A lost answer is harmless.
    pub async fn ack(self) {
        let Answer::RabbitMq { delivery, .. } = &self.answer else {
            return;
        };
        let ack = delivery.acker.ack(BasicAckOptions::default());
        // A connection that ends meanwhile may leave it unanswered for ever.
        if !matches!(timeout(ANSWER_DEADLINE, ack).await, Ok(Ok(_))) {
            tracing::debug!("an ack was lost; the message will come again");
        }
    }
}

fn count(queue: Queue, rung: Result<()>) -> Result<()> {
    let outcome = if rung.is_ok() { "sent" } else { "failed" };
    metrics::counter!("waybill_rings_total", "queue" => queue.as_str(), "outcome" => outcome)
        .increment(1);
    rung
}

fn bells<J: Copy + Into<Bell>>(jobs: &[J]) -> Vec<Bell> {
    jobs.iter().map(|job| (*job).into()).collect()
}

fn encode(jobs: &[Bell]) -> Result<Vec<u8>> {
    let ids: Vec<String> = jobs.iter().map(|bell| bell.job.to_string()).collect();
    serde_json::to_vec(&ids).context("job ids as JSON")
}

fn decode(message: &[u8]) -> Result<Vec<JobId>> {
    let ids: Vec<&str> =
        serde_json::from_slice(message).context("the message is not a JSON array of job ids")?;
    if ids.len() > RING_SIZE {
        bail!("the message has more than {RING_SIZE} job ids");
    }
    ids.iter()
        .map(|id| Uuid::parse_str(id).context("an id in the message is not a UUID"))
        .collect()
}
