//! The bus: it notifies workers of jobs that are ready. It never carries data, and nothing is
//! lost when it is: jobs stay in the database and the sweep notifies workers of them again. A
//! message is up to [`MAX_JOBS_PER_MESSAGE`] job ids of one queue and one kind, as a JSON array of
//! UUIDs. RabbitMQ between processes; a channel within one. Events go out the same way, to whoever
//! has bound a queue to their exchange.

mod local;
mod rabbitmq;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lapin::options::BasicAckOptions;
use tokio::time::timeout;
use uuid::Uuid;

pub use local::Local;
pub use rabbitmq::{DeadLetters, Holds, QueueState, RabbitMq, Tap, Topology, inspect};

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
pub const MAX_JOBS_PER_MESSAGE: usize = 32;

/// Whether a URL names a broker, without asking it.
pub fn is_url(url: &str) -> bool {
    url.parse::<lapin::uri::AMQPUri>().is_ok()
}

/// A job that workers are to be notified of. The message carries the trace that it came with, and
/// nothing else of it.
#[derive(Clone, Copy, Debug)]
pub struct JobRef {
    pub job: JobId,
    pub traceparent: Option<TraceContext>,
}

impl From<JobId> for JobRef {
    fn from(job: JobId) -> Self {
        JobRef {
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

    /// True when a message would probably get through. When not, a job is left for the sweep.
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

    /// Notifies the queue's workers that jobs of `kind` are ready. `Ok` means that the broker
    /// has stored the message in a queue. At most [`MAX_JOBS_PER_MESSAGE`] jobs.
    pub async fn notify<J>(&self, queue: Queue, kind: &str, jobs: &[J]) -> Result<()>
    where
        J: Copy + Into<JobRef>,
    {
        let sent = match self {
            Bus::RabbitMq(bus) => bus.notify(queue, kind, &job_refs(jobs)).await,
            Bus::Local(bus) => bus.notify(queue, &job_refs(jobs), false),
        };
        count(queue, sent)
    }

    /// As [`Bus::message`], for jobs that an earlier process may have died running.
    pub async fn notify_again<J>(&self, queue: Queue, kind: &str, jobs: &[J]) -> Result<()>
    where
        J: Copy + Into<JobRef>,
    {
        let sent = match self {
            Bus::RabbitMq(bus) => bus.notify(queue, kind, &job_refs(jobs)).await,
            Bus::Local(bus) => bus.notify(queue, &job_refs(jobs), true),
        };
        count(queue, sent)
    }

    /// Shows a job that was given up in the broker's dead-letter queue.
    pub async fn dead_letter(&self, queue: Queue, kind: &str, job: JobRef) -> Result<()> {
        match self {
            Bus::RabbitMq(bus) => bus.dead_letter(queue, kind, job).await,
            Bus::Local(_) => Ok(()),
        }
    }

    /// What [`Bus::dead_letter`] has shown, to take away what is true no more; `None`: nothing is
    /// shown.
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

    /// Messages for `queue`, at most `prefetch` of them unanswered.
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

    /// Lets go of the broker. Messages that are under way are sent first.
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

/// A stream of messages. Clones share the stream: each message goes to one of them.
#[derive(Clone)]
pub enum Listener {
    RabbitMq(rabbitmq::Listener),
    Local(local::Listener),
}

impl Listener {
    /// The next message; waits through outages of the broker. `None` once closed.
    pub async fn next(&self) -> Option<Message> {
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

/// A message: these jobs may be ready. It must be answered with [`Message::ack`]; dropped
/// without, the broker delivers it again.
pub struct Message {
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

impl Message {
    /// Acknowledges the message: all is committed. A lost answer is harmless.
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

fn count(queue: Queue, sent: Result<()>) -> Result<()> {
    let outcome = if sent.is_ok() { "sent" } else { "failed" };
    metrics::counter!("waybill_bus_messages_total", "queue" => queue.as_str(), "outcome" => outcome)
        .increment(1);
    sent
}

fn job_refs<J: Copy + Into<JobRef>>(jobs: &[J]) -> Vec<JobRef> {
    jobs.iter().map(|job| (*job).into()).collect()
}

fn encode(jobs: &[JobRef]) -> Result<Vec<u8>> {
    let ids: Vec<String> = jobs.iter().map(|job_ref| job_ref.job.to_string()).collect();
    serde_json::to_vec(&ids).context("job ids as JSON")
}

fn decode(message: &[u8]) -> Result<Vec<JobId>> {
    let ids: Vec<&str> =
        serde_json::from_slice(message).context("the message is not a JSON array of job ids")?;
    if ids.len() > MAX_JOBS_PER_MESSAGE {
        bail!("the message has more than {MAX_JOBS_PER_MESSAGE} job ids");
    }
    ids.iter()
        .map(|id| Uuid::parse_str(id).context("an id in the message is not a UUID"))
        .collect()
}
