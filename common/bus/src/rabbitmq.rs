//! RabbitMQ: its exchanges and queues, confirmed publishing, consuming, and reconnecting.
//!
//! Publishing and consuming have connections of their own, because a broker in a memory or disk
//! alarm stops reading from connections that publish, and so would not read their
//! acknowledgements either.
//!
//! Anything that goes wrong on a connection ends that connection: the broker closed a channel, a
//! message was returned because no queue was bound for it, or a consumer was cancelled because
//! its queue was deleted. A new connection is then opened, with growing pauses, and declares all
//! exchanges and queues again. This one way repairs a restarted broker as well as a deleted
//! queue.

mod dead_letters;
mod events;
mod inspect;
mod servers;

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    BasicRejectOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, Consumer, ExchangeKind};
use platform::lock::lock;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub use dead_letters::DeadLetters;
pub use events::Tap;
pub use inspect::{Holds, QueueState, Topology, inspect};

use self::servers::Servers;
use super::ahead::{Ahead, Room};
use super::{ANSWER_DEADLINE, Answer, JobRef, Message, decode, encode, nth};
use domain::job::Queue;
use domain::trace::TraceContext;
use platform::backoff::Backoff;
use platform::task;

/// The header with a place in a trace (W3C Trace Context: AMQP).
const TRACEPARENT: &str = "traceparent";

/// How long to wait for a confirm. A broker in alarm accepts a publish and never confirms it.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(5);
/// How long it may take to read all dead letters, each of which is one answer of the broker.
const READING_DEADLINE: Duration = Duration::from_secs(20);
/// The pause between two looks at how many messages wait, and the one when there seems to be little room.
const WATCH_PAUSE: Duration = Duration::from_millis(100);
const SHORT_WATCH_PAUSE: Duration = Duration::from_millis(10);
/// How long nothing is sent to a broker that does not confirm.
const STALL_PAUSE: Duration = Duration::from_secs(5);
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// How long it may take to connect, to declare everything and to open a channel.
const SETUP_DEADLINE: Duration = Duration::from_secs(12);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a message may be delivered before it goes to the dead-letter exchange. Its jobs stay
/// in the database, and workers are notified of them again. This is only a safety net, because a
/// job that ends its worker's process is dead-lettered long before.
const DELIVERY_LIMIT: i32 = 20;
/// How many messages the dead-letter queue keeps. The jobs themselves are in the database.
const DEAD_LETTERS: i32 = 10_000;

/// The exchanges, by the last word of their names.
const EXCHANGES: [&str; 6] = [
    "orders",
    "payments",
    "privacy",
    "endpoints",
    "events",
    "dead",
];

#[derive(Clone)]
pub struct RabbitMq {
    shared: Arc<Shared>,
}

struct Shared {
    servers: Servers,
    prefix: String,
    link: watch::Sender<Option<Link>>,
    /// While confirms are late, which means that the broker is in alarm, nothing is published
    /// until this time. Then publishing is tried again.
    stalled_until: StdMutex<Option<Instant>>,
    /// One for each queue, in the order of [`Queue::ALL`].
    ahead: [Ahead; 4],
    /// Notified when somebody wants to know more of how many messages wait.
    look: Notify,
    closed: CancellationToken,
}

/// The publishing connection and its channels in confirm mode.
#[derive(Clone)]
struct Link {
    connection: Arc<Connection>,
    channel: Channel,
    /// A channel apart from that for jobs, because a queue that is not ours may delay the
    /// confirms of events.
    events: Channel,
    /// For questions about queues. The broker closes it if the queue does not exist.
    depth: Channel,
    /// Notified when the connection must be replaced.
    broken: Arc<Notify>,
}

impl RabbitMq {
    pub fn start(url: &str, prefix: &str) -> Result<Self> {
        let shared = Arc::new(Shared {
            servers: Servers::parse(url)?,
            prefix: prefix.to_owned(),
            link: watch::Sender::new(None),
            stalled_until: StdMutex::new(None),
            ahead: Default::default(),
            look: Notify::new(),
            closed: CancellationToken::new(),
        });
        task::spawn("bus publisher", keep_publishing(shared.clone()));
        let bus = RabbitMq { shared };
        task::spawn("bus watcher", bus.clone().watch());
        Ok(bus)
    }

    pub fn is_up(&self) -> bool {
        self.shared.link.borrow().is_some() && !self.shared.is_stalled()
    }

    pub fn has_room(&self, queue: Queue) -> Room {
        let room = self.shared.ahead[nth(queue)].room();
        if room != Room::Enough {
            self.shared.look.notify_one();
        }
        room
    }

    pub async fn room(&self, queue: Queue) -> Result<u32> {
        let depth = self.depth(queue).await?;
        Ok(self.shared.ahead[nth(queue)].looked(depth))
    }

    /// Looks at the queues to which this process sends messages, while it does.
    async fn watch(self) {
        while !self.shared.closed.is_cancelled() {
            tokio::time::sleep(SHORT_WATCH_PAUSE).await;
            let _ = timeout(WATCH_PAUSE, self.shared.look.notified()).await;
            for queue in Queue::ALL {
                if self.shared.ahead[nth(queue)].is_watched() {
                    // What goes wrong on the connection ends it, and another one is opened.
                    let _ = self.room(queue).await;
                }
            }
        }
    }

    pub async fn notify(
        &self,
        queue: Queue,
        kind: &str,
        jobs: &[JobRef],
        context: Option<TraceContext>,
    ) -> Result<()> {
        let exchange = self.destination(queue);
        self.publish(&exchange, kind, jobs, context).await?;
        self.shared.ahead[nth(queue)].sent();
        Ok(())
    }

    /// The name of a queue, and of the exchange through which it is reached.
    pub fn destination(&self, queue: Queue) -> String {
        self.shared.name(queue.into_str())
    }

    pub async fn dead_letter(&self, queue: Queue, kind: &str, job: JobRef) -> Result<()> {
        let exchange = self.shared.name("dead");
        let key = format!("{queue}.{kind}");
        self.publish(&exchange, &key, &[job], None).await
    }

    async fn publish(
        &self,
        exchange: &str,
        kind: &str,
        jobs: &[JobRef],
        context: Option<TraceContext>,
    ) -> Result<()> {
        let Some(link) = self.shared.link.borrow().clone() else {
            bail!("the broker is not connected");
        };
        let published = timeout(
            CONFIRM_DEADLINE,
            publish(&link.channel, exchange, kind, jobs, context),
        );
        match published.await {
            Ok(Ok(())) => {
                self.shared.confirmed();
                Ok(())
            }
            Ok(Err(error)) => {
                link.broken.notify_one();
                Err(error)
            }
            Err(_) => {
                self.shared.stall();
                bail!("the broker did not confirm in time")
            }
        }
    }

    pub async fn dead_letters(&self) -> Result<DeadLetters> {
        let Some(link) = self.shared.link.borrow().clone() else {
            bail!("the broker is not connected");
        };
        let name = self.shared.name("dead");
        let read = DeadLetters::read(&link.connection, &name);
        match timeout(READING_DEADLINE, read).await {
            Ok(read) => read,
            Err(_) => bail!("the broker did not answer in time"),
        }
    }

    pub async fn depth(&self, queue: Queue) -> Result<u32> {
        let Some(link) = self.shared.link.borrow().clone() else {
            bail!("the broker is not connected");
        };
        let name = self.shared.name(queue.into_str());
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let asked = link
            .depth
            .queue_declare(name.as_str().into(), options, FieldTable::default());
        match timeout(CONFIRM_DEADLINE, asked).await {
            Ok(Ok(queue)) => Ok(queue.message_count()),
            Ok(Err(error)) => {
                link.broken.notify_one();
                Err(error.into())
            }
            Err(_) => bail!("the broker did not answer in time"),
        }
    }

    pub fn listen(&self, queue: Queue, prefetch: u16) -> Listener {
        // The broker never sends more than `prefetch` unanswered messages, so the channel is
        // never full.
        let (sender, receiver) = mpsc::channel(usize::from(prefetch).max(1));
        let closed = CancellationToken::new();
        let consuming =
            keep_consuming(self.shared.clone(), queue, prefetch, sender, closed.clone());
        task::spawn("bus consumer", consuming);
        Listener {
            receiver: Arc::new(Mutex::new(receiver)),
            closed,
        }
    }

    pub async fn close(&self) {
        self.shared.closed.cancel();
        let link = self.shared.link.send_replace(None);
        if let Some(link) = link {
            let closing = link.connection.close(200, "shutting down".into());
            let _ = timeout(Duration::from_secs(1), closing).await;
        }
    }
}

impl Shared {
    fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.prefix)
    }

    fn is_stalled(&self) -> bool {
        let until = *lock(&self.stalled_until);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn stall(&self) {
        let until = Instant::now() + STALL_PAUSE;
        if lock(&self.stalled_until).replace(until).is_none() {
            record_up(false);
            tracing::warn!(
                "the broker accepts messages but does not confirm them, probably a memory or \
                 disk alarm; jobs wait in the database"
            );
        }
    }

    fn confirmed(&self) {
        if lock(&self.stalled_until).take().is_some() {
            record_up(true);
            tracing::info!("the broker confirms messages again");
        }
    }
}

/// The routing key of a kind. Routing keys are words between dots, so that `orders.*` can be
/// bound.
fn routing_key(kind: &str) -> String {
    kind.replace('/', ".")
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    kind: &str,
    jobs: &[JobRef],
    context: Option<TraceContext>,
) -> Result<()> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let mut properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2);
    if let Some(headers) = headers(jobs, context) {
        properties = properties.with_headers(headers);
    }
    let key = routing_key(kind);
    let confirm = channel
        .basic_publish(
            exchange.into(),
            key.as_str().into(),
            options,
            &encode(jobs)?,
            properties,
        )
        .await
        .context("publishing")?;
    match confirm.await.context("waiting for the confirm")? {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) => bail!("no queue is bound for the message"),
        Confirmation::Nack(_) => bail!("the broker refused the message"),
        Confirmation::NotRequested => bail!("the channel is not in confirm mode"),
    }
}

/// The headers of a message: `traceparents`, and `traceparent` with the span of the message itself if
/// that is recorded.
fn headers(jobs: &[JobRef], context: Option<TraceContext>) -> Option<FieldTable> {
    let headers = traceparents(jobs);
    let Some(context) = context else {
        return headers;
    };
    let mut headers = headers.unwrap_or_default();
    let value = AMQPValue::LongString(context.to_string().into());
    headers.insert(TRACEPARENT.into(), value);
    Some(headers)
}

/// The span of a message, if its headers name one.
fn context(delivery: &Delivery) -> Option<TraceContext> {
    let headers = delivery.properties.headers().as_ref()?;
    match headers.inner().get(TRACEPARENT)? {
        AMQPValue::LongString(text) => TraceContext::parse(&text.to_string()),
        _ => None,
    }
}

/// The header `traceparents`: one entry for each job id of the body, in the same sequence. The
/// entry is void for a job whose trace begins with the job itself. A message that has only such
/// jobs has no header.
fn traceparents(jobs: &[JobRef]) -> Option<FieldTable> {
    if jobs.iter().all(|job_ref| job_ref.traceparent.is_none()) {
        return None;
    }
    let each = |job_ref: &JobRef| match job_ref.traceparent {
        Some(context) => AMQPValue::LongString(context.child(job_ref.job).to_string().into()),
        None => AMQPValue::Void,
    };
    let all: Vec<AMQPValue> = jobs.iter().map(each).collect();
    let mut headers = FieldTable::default();
    headers.insert("traceparents".into(), AMQPValue::FieldArray(all.into()));
    Some(headers)
}

async fn connect(shared: &Shared, name: &str) -> Result<Connection> {
    let (connection, server) = shared.servers.connect(name).await?;
    let declared = timeout(CONNECT_DEADLINE, declare(&connection, shared));
    declared
        .await
        .context("declaring took too long")?
        .context("declaring exchanges and queues")?;
    shared.servers.works(server);
    Ok(connection)
}

/// Declares every exchange and queue on a channel of its own, which is closed afterwards. A
/// refused declaration closes its channel, and must not close one that carries messages.
async fn declare(connection: &Connection, shared: &Shared) -> Result<()> {
    let channel = connection.create_channel().await?;
    for exchange in EXCHANGES {
        declare_exchange(&channel, &shared.name(exchange)).await?;
    }
    for queue in Queue::ALL {
        let arguments = queue_arguments(shared.name("dead"));
        declare_queue(&channel, &shared.name(queue.into_str()), arguments).await?;
    }
    declare_queue(&channel, &shared.name("dead"), dead_arguments()).await?;
    let _ = channel.close(200, "declared".into()).await;
    Ok(())
}

/// The arguments of a worker's queue.
fn queue_arguments(dead_exchange: String) -> FieldTable {
    let mut arguments = quorum();
    let dead = AMQPValue::LongString(dead_exchange.into());
    arguments.insert("x-dead-letter-exchange".into(), dead);
    let limit = AMQPValue::LongInt(DELIVERY_LIMIT);
    arguments.insert("x-delivery-limit".into(), limit);
    arguments
}

/// The arguments of the queue that shows dead letters.
fn dead_arguments() -> FieldTable {
    let mut arguments = quorum();
    let limit = AMQPValue::LongInt(DEAD_LETTERS);
    arguments.insert("x-max-length".into(), limit);
    arguments
}

async fn declare_exchange(channel: &Channel, name: &str) -> Result<()> {
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let arguments = FieldTable::default();
    channel
        .exchange_declare(name.into(), ExchangeKind::Topic, options, arguments)
        .await
        .with_context(|| format!("exchange {name}"))
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    let kind = AMQPValue::LongString("quorum".into());
    arguments.insert("x-queue-type".into(), kind);
    arguments
}

/// Declares a queue, and binds it to the exchange of the same name for every routing key.
async fn declare_queue(channel: &Channel, name: &str, arguments: FieldTable) -> Result<()> {
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(name.into(), durable, arguments)
        .await
        .with_context(|| {
            format!(
                "queue {name}: if it exists with other arguments, drain and delete it, \
                 or set another AMQP_PREFIX"
            )
        })?;
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(
            name.into(),
            name.into(),
            "#".into(),
            bind,
            FieldTable::default(),
        )
        .await
        .with_context(|| format!("binding queue {name}"))
}

async fn open_publisher(shared: &Shared) -> Result<Link> {
    let connection = connect(shared, "publisher").await?;
    Ok(Link {
        channel: open_confirming(&connection).await?,
        events: open_confirming(&connection).await?,
        depth: connection.create_channel().await?,
        connection: Arc::new(connection),
        broken: Arc::default(),
    })
}

async fn open_confirming(connection: &Connection) -> Result<Channel> {
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .context("confirm mode")?;
    Ok(channel)
}

/// Keeps a publishing connection open until the bus is closed.
async fn keep_publishing(shared: Arc<Shared>) {
    let closed = shared.closed.clone();
    let mut reconnecting = Reconnecting::new("publisher");
    record_up(false);
    loop {
        let opened = tokio::select! {
            opened = timeout(SETUP_DEADLINE, open_publisher(&shared)) => {
                opened.unwrap_or_else(|_| Err(anyhow!("the broker did not answer in time")))
            }
            () = closed.cancelled() => return,
        };
        match opened {
            Ok(link) => {
                reconnecting.recovered();
                shared.confirmed();
                shared.link.send_replace(Some(link.clone()));
                record_up(true);
                tokio::select! {
                    () = lost(&link) => {}
                    () = link.broken.notified() => {}
                    () = closed.cancelled() => return,
                }
                shared.link.send_replace(None);
                record_up(false);
                let closing = link.connection.close(200, "starting over".into());
                let _ = timeout(Duration::from_secs(1), closing).await;
            }
            Err(error) => reconnecting.failed(&error),
        }
        tokio::select! {
            () = reconnecting.pause() => {}
            () = closed.cancelled() => return,
        }
    }
}

/// Records whether messages get through, as far as this process knows.
fn record_up(up: bool) {
    metrics::gauge!("waybill_broker_up").set(if up { 1.0 } else { 0.0 });
}

/// Returns when the connection or one of its channels is closed.
async fn lost(link: &Link) {
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    while link.connection.status().connected()
        && link.channel.status().connected()
        && link.events.status().connected()
    {
        ticks.tick().await;
    }
}

/// Waits between attempts to connect. It logs only changes: one line when the broker is lost, and
/// one when it is back.
struct Reconnecting {
    who: &'static str,
    backoff: Backoff,
    down: bool,
}

impl Reconnecting {
    fn new(who: &'static str) -> Self {
        Reconnecting {
            who,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            down: false,
        }
    }

    fn failed(&mut self, error: &anyhow::Error) {
        let who = self.who;
        count_connect(who, "failed");
        if self.down {
            tracing::debug!(who, error = format!("{error:#}"), "still no broker");
        } else {
            tracing::warn!(
                who,
                error = format!("{error:#}"),
                "cannot reach the broker; trying again until it is back"
            );
        }
        self.down = true;
    }

    fn recovered(&mut self) {
        let who = self.who;
        count_connect(who, "connected");
        tracing::info!(who, "connected to the broker");
        self.down = false;
        self.backoff.reset();
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.backoff.next_pause()).await;
    }
}

fn count_connect(connection: &'static str, outcome: &'static str) {
    metrics::counter!(
        "waybill_broker_connects_total", "connection" => connection, "outcome" => outcome
    )
    .increment(1);
}

#[derive(Clone)]
pub struct Listener {
    receiver: Arc<Mutex<mpsc::Receiver<Message>>>,
    closed: CancellationToken,
}

impl Listener {
    pub async fn next(&self) -> Option<Message> {
        self.receiver.lock().await.recv().await
    }

    pub fn close(&self) {
        self.closed.cancel();
    }
}

/// Keeps a consuming connection open until the listener is closed or dropped.
async fn keep_consuming(
    shared: Arc<Shared>,
    queue: Queue,
    prefetch: u16,
    messages: mpsc::Sender<Message>,
    closed: CancellationToken,
) {
    let mut reconnecting = Reconnecting::new(queue.into_str());
    loop {
        let consumed = consume(
            &shared,
            queue,
            prefetch,
            &messages,
            &closed,
            &mut reconnecting,
        )
        .await;
        match consumed {
            Ok(()) => return,
            Err(error) => reconnecting.failed(&error),
        }
        tokio::select! {
            () = reconnecting.pause() => {}
            () = closed.cancelled() => return,
        }
    }
}

/// Passes messages on until the connection ends, which is an error, or until the listener is
/// closed.
async fn consume(
    shared: &Shared,
    queue: Queue,
    prefetch: u16,
    messages: &mpsc::Sender<Message>,
    closed: &CancellationToken,
    reconnecting: &mut Reconnecting,
) -> Result<()> {
    let opened = tokio::select! {
        opened = timeout(SETUP_DEADLINE, open_consumer(shared, queue, prefetch)) => opened,
        () = closed.cancelled() => return Ok(()),
    };
    let (connection, channel, mut consumer) =
        opened.context("the broker did not answer in time")??;
    reconnecting.recovered();
    loop {
        let delivery = tokio::select! {
            delivery = consumer.next() => delivery,
            () = closed.cancelled() => {
                let cancel = BasicCancelOptions::default();
                let cancelled = channel.basic_cancel(consumer.tag(), cancel);
                let _ = timeout(Duration::from_secs(1), cancelled).await;
                // Messages that were passed on keep the connection open until they are answered.
                return Ok(());
            }
        };
        let Some(delivery) = delivery else {
            bail!("the broker ended the consumer");
        };
        hand_out(
            delivery.context("receiving")?,
            &connection,
            &channel,
            messages,
        )
        .await;
    }
}

async fn open_consumer(
    shared: &Shared,
    queue: Queue,
    prefetch: u16,
) -> Result<(Arc<Connection>, Channel, Consumer)> {
    let connection = Arc::new(connect(shared, queue.into_str()).await?);
    let channel = connection.create_channel().await?;
    channel
        .basic_qos(prefetch, BasicQosOptions::default())
        .await
        .context("setting the prefetch")?;
    let name = shared.name(queue.into_str());
    let consumer = channel
        .basic_consume(
            name.as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .context("consuming")?;
    Ok((connection, channel, consumer))
}

async fn hand_out(
    delivery: Delivery,
    connection: &Arc<Connection>,
    channel: &Channel,
    messages: &mpsc::Sender<Message>,
) {
    match decode(&delivery.data) {
        Ok(jobs) => {
            let message = Message {
                jobs,
                redelivered: delivery.redelivered,
                context: context(&delivery),
                answer: Answer::RabbitMq {
                    delivery: Box::new(delivery),
                    _channel: channel.clone(),
                    _connection: connection.clone(),
                },
            };
            // If the receiver is gone, the broker delivers the message again.
            let _ = messages.send(message).await;
        }
        Err(error) => {
            tracing::warn!(
                error = format!("{error:#}"),
                "a foreign message was dead-lettered"
            );
            let reject = BasicRejectOptions { requeue: false };
            let rejected = timeout(ANSWER_DEADLINE, delivery.acker.reject(reject)).await;
            if !matches!(rejected, Ok(Ok(_))) {
                tracing::debug!("a reject was lost; the message will come again");
            }
        }
    }
}
