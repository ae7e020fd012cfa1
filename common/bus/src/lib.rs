//! The bus, which notifies workers of jobs that are ready. It carries no data, and a lost message
//! loses nothing: the jobs stay in the database, and the sweep notifies workers of them again. A
//! message is up to [`MAX_JOBS_PER_MESSAGE`] job ids of one queue and one kind, as a JSON array
//! of UUIDs. Between processes the bus is RabbitMQ; within one process it is a channel. Events
//! are sent the same way, to everyone who has bound a queue to their exchange.

mod ahead;
mod local;
mod rabbitmq;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lapin::options::BasicAckOptions;
use tokio::time::timeout;
use uuid::Uuid;

use self::ahead::Room;
pub use local::{Exchange, Local};
pub use rabbitmq::{DeadLetters, Holds, QueueState, RabbitMq, Tap, Topology, inspect};

use domain::envelope::Envelope;
use domain::job::{JobId, Queue};
use domain::trace::TraceContext;
use telemetry::Span;

const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// The most job ids in one message that is sent.
pub const MAX_JOBS_PER_MESSAGE: usize = 64;
/// A message with more job ids is foreign. More are read than are sent, so that a later version may put more into a message
/// while workers of this one still run.
const MAX_JOBS_READ: usize = 256;

/// A job of which workers are to be notified. The message has the job's id and the trace that the
/// job came with, and nothing else.
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
    /// RabbitMQ at the servers of `url`, with exchanges and queues whose names begin with `prefix`. It connects
    /// in the background, and connects again whenever the connection is lost.
    pub fn rabbitmq(url: &str, prefix: &str) -> Result<Self> {
        Ok(Bus::RabbitMq(RabbitMq::start(url, prefix)?))
    }

    /// The bus within this process.
    pub fn local() -> Self {
        Bus::Local(Local::default())
    }

    /// A bus for the processes of a test, which outlives them as a broker does.
    pub fn apart(exchange: Arc<dyn Exchange>) -> Self {
        Bus::Local(Local::apart(exchange))
    }

    pub fn is_local(&self) -> bool {
        matches!(self, Bus::Local(bus) if !bus.is_apart())
    }

    /// Where events are published, in the form in which an endpoint has its address. `None`: there is no broker.
    pub fn events_address(&self) -> Option<String> {
        match self {
            Bus::RabbitMq(bus) => Some(format!("amqp:{}", bus.events_exchange())),
            Bus::Local(bus) => bus.is_apart().then(|| "amqp:events".to_owned()),
        }
    }

    /// True when a message would probably get through and would not wait long. When it would not, the
    /// job is left for the sweep, which takes the jobs of all shops by turns.
    pub fn is_ready(&self, queue: Queue) -> bool {
        self.is_up() && matches!(self.has_room(queue), Room::Little | Room::Enough)
    }

    /// The same for a job that is already marked as notified, which may also have the room that is kept
    /// for the sweep.
    pub fn is_ready_for_marked(&self, queue: Queue) -> bool {
        self.is_up() && self.has_room(queue) != Room::None
    }

    fn has_room(&self, queue: Queue) -> Room {
        match self {
            Bus::RabbitMq(bus) => bus.has_room(queue),
            Bus::Local(bus) => bus.has_room(queue),
        }
    }

    /// True unless there is a broker and it cannot be reached.
    pub fn is_up(&self) -> bool {
        match self {
            Bus::RabbitMq(bus) => bus.is_up(),
            Bus::Local(bus) => bus.is_up(),
        }
    }

    /// How many more messages may be sent to the queue, so that each that waits there is taken within
    /// about half a second. Asks the broker.
    pub async fn room(&self, queue: Queue) -> Result<u32> {
        match self {
            Bus::RabbitMq(bus) => bus.room(queue).await,
            Bus::Local(bus) => Ok(bus.room(queue)),
        }
    }

    /// Notifies the queue's workers that jobs of `kind` are ready. `Ok` means that the broker has
    /// stored the message in a queue. `jobs` has at most [`MAX_JOBS_PER_MESSAGE`] entries.
    pub async fn notify<J>(&self, queue: Queue, kind: &str, jobs: &[J]) -> Result<()>
    where
        J: Copy + Into<JobRef>,
    {
        let jobs = job_refs(jobs);
        let span = spans::message(self, queue, kind, &jobs);
        self.send(queue, kind, &jobs, false, span).await
    }

    /// The same as [`Bus::notify`], for jobs of which it is not known here with which trace they came.
    pub async fn notify_ids(&self, queue: Queue, kind: &str, jobs: &[JobId]) -> Result<()> {
        self.send(queue, kind, &job_refs(jobs), false, None).await
    }

    /// The same as [`Bus::notify`], for jobs that an earlier process may have died running.
    pub async fn notify_again<J>(&self, queue: Queue, kind: &str, jobs: &[J]) -> Result<()>
    where
        J: Copy + Into<JobRef>,
    {
        let jobs = job_refs(jobs);
        let span = spans::message(self, queue, kind, &jobs);
        self.send(queue, kind, &jobs, true, span).await
    }

    async fn send(
        &self,
        queue: Queue,
        kind: &str,
        jobs: &[JobRef],
        again: bool,
        mut span: Option<Span>,
    ) -> Result<()> {
        let context = span.as_ref().map(Span::context);
        let sent = match self {
            Bus::RabbitMq(bus) => bus.notify(queue, kind, jobs, context).await,
            Bus::Local(bus) => bus.notify(queue, jobs, context, again),
        };
        if let (Some(span), Err(_)) = (&mut span, &sent) {
            span.fail("not_taken");
        }
        count(queue, sent)
    }

    /// The name under which messages of a queue are sent.
    pub fn destination(&self, queue: Queue) -> String {
        match self {
            Bus::RabbitMq(bus) => bus.destination(queue),
            Bus::Local(_) => queue.into_str().to_owned(),
        }
    }

    /// What carries messages, as the conventions for messaging name it.
    pub fn system(&self) -> &'static str {
        match self {
            Bus::RabbitMq(_) => "rabbitmq",
            Bus::Local(_) => "waybill",
        }
    }

    /// Records that an event may be read from now on. With a broker it is recorded where the event
    /// is sent.
    pub fn record_readable(&self, context: Option<TraceContext>, kind: impl FnOnce() -> String) {
        if let (Bus::Local(_), Some(context)) = (self, context) {
            drop(spans::event(self.system(), "events", &kind(), context));
        }
    }

    /// Shows a dead job in the broker's dead-letter queue.
    pub async fn dead_letter(&self, queue: Queue, kind: &str, job: JobRef) -> Result<()> {
        match self {
            Bus::RabbitMq(bus) => bus.dead_letter(queue, kind, job).await,
            Bus::Local(_) => Ok(()),
        }
    }

    /// The jobs that [`Bus::dead_letter`] has shown, so that the caller can remove those that are
    /// no longer dead. `None` when the bus shows none.
    pub async fn dead_letters(&self) -> Result<Option<DeadLetters>> {
        match self {
            Bus::RabbitMq(bus) => bus.dead_letters().await.map(Some),
            Bus::Local(_) => Ok(None),
        }
    }

    /// Sends events to everyone who has bound a queue to their exchange. They are sent all at
    /// once, so events that must arrive in sequence need a call each.
    pub async fn publish_events(&self, events: &[&Envelope]) -> Published {
        match self {
            Bus::RabbitMq(bus) => bus.publish_events(events).await,
            Bus::Local(bus) => bus.publish_events(events),
        }
    }

    /// Messages of `queue`. At most `prefetch` of them are unanswered at a time.
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

    /// Disconnects from the broker. Messages that are under way are sent first.
    pub async fn close(&self) {
        match self {
            Bus::RabbitMq(bus) => bus.close().await,
            Bus::Local(_) => {}
        }
    }
}

/// The result of publishing events.
#[derive(Debug, Default)]
pub struct Published {
    /// The events that the broker has stored in every queue they belong to.
    pub confirmed: Vec<Uuid>,
    /// Why the others are not confirmed. Some of them may have arrived nevertheless.
    pub failure: Option<anyhow::Error>,
}

/// A stream of messages. Clones share the stream, and each message goes to one of them.
#[derive(Clone)]
pub enum Listener {
    RabbitMq(rabbitmq::Listener),
    Local(local::Listener),
}

impl Listener {
    /// The next message. Waits while the broker cannot be reached. `None` after the listener was
    /// closed.
    pub async fn next(&self) -> Option<Message> {
        match self {
            Listener::RabbitMq(listener) => listener.next().await,
            Listener::Local(listener) => listener.next().await,
        }
    }

    /// Takes no further messages. [`Listener::next`] still returns those already taken, and then
    /// `None`.
    pub fn close(&self) {
        match self {
            Listener::RabbitMq(listener) => listener.close(),
            Listener::Local(_) => {}
        }
    }
}

/// A message, which says that these jobs may be ready. It must be answered with [`Message::ack`];
/// if it is dropped without that, the broker delivers it again.
pub struct Message {
    pub jobs: Vec<JobId>,
    /// True when the message was delivered before and not answered. The process that ran its jobs
    /// may have died because of them.
    pub redelivered: bool,
    /// The span with which it was sent, if that is recorded.
    pub context: Option<TraceContext>,
    answer: Answer,
}

enum Answer {
    RabbitMq {
        delivery: Box<lapin::message::Delivery>,
        /// Kept open until the message is answered.
        _channel: lapin::Channel,
        _connection: Arc<lapin::Connection>,
    },
    Local(local::Unanswered),
}

impl Message {
    /// Acknowledges the message, after everything is committed. If the answer is lost, nothing is
    /// lost: the message comes again.
    pub async fn ack(mut self) {
        let delivery = match &mut self.answer {
            Answer::RabbitMq { delivery, .. } => delivery,
            Answer::Local(unanswered) => return unanswered.ack(),
        };
        let ack = delivery.acker.ack(BasicAckOptions::default());
        // The answer may wait forever if the connection ends at the same time.
        if !matches!(timeout(ANSWER_DEADLINE, ack).await, Ok(Ok(_))) {
            tracing::debug!("an ack was lost; the message will come again");
        }
    }
}

/// The place of what belongs to a queue in an array of [`Queue::ALL`].
fn nth(queue: Queue) -> usize {
    match queue {
        Queue::Orders => 0,
        Queue::Payments => 1,
        Queue::Privacy => 2,
        Queue::Endpoints => 3,
    }
}

fn count(queue: Queue, sent: Result<()>) -> Result<()> {
    let outcome = if sent.is_ok() { "sent" } else { "failed" };
    metrics::counter!("waybill_bus_messages_total", "queue" => queue.into_str(), "outcome" => outcome)
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
    if ids.len() > MAX_JOBS_READ {
        bail!("the message has more than {MAX_JOBS_READ} job ids");
    }
    ids.iter()
        .map(|id| Uuid::parse_str(id).context("an id in the message is not a UUID"))
        .collect()
}

#[cfg(test)]
#[path = "../tests/unit/lib.rs"]
mod tests;
