//! Events on RabbitMQ: published with confirms, and read from a queue of the reader's own.
//!
//! If nobody has bound a queue, the broker confirms the events and drops them. Nothing is lost,
//! because they stay in the database. A queue that refuses events (`overflow: reject-publish`) or
//! never confirms them (a lost quorum) is not ours, so it neither ends the connection nor stops
//! the messages of jobs.

use anyhow::{Context, Result, anyhow};
use futures_util::StreamExt;
use futures_util::future::join_all;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, Consumer};
use tokio::time::{Instant, timeout, timeout_at};

use super::servers::Servers;
use super::{
    CONFIRM_DEADLINE, RabbitMq, SETUP_DEADLINE, TRACEPARENT, declare_exchange, routing_key,
};
use crate::{Published, spans};
use domain::envelope::Envelope;
use domain::trace::TraceContext;
use telemetry::Span;

/// How many events a slow reader of a [`Tap`] may have unanswered. Further events wait in its
/// queue.
const TAP_PREFETCH: u16 = 500;

impl RabbitMq {
    pub fn events_exchange(&self) -> String {
        self.shared.name("events")
    }

    /// Sends all events at once, and waits for their confirms within one deadline.
    pub async fn publish_events(&self, events: &[&Envelope]) -> Published {
        let mut published = Published::default();
        let Some(link) = self.shared.link.borrow().clone() else {
            published.failure = Some(anyhow!("the broker is not connected"));
            return published;
        };
        let exchange = self.events_exchange();
        let deadline = Instant::now() + CONFIRM_DEADLINE;
        let sending = events
            .iter()
            .map(|event| timeout_at(deadline, send(&link.events, &exchange, event)));
        for (event, sent) in events.iter().zip(join_all(sending).await) {
            let failure = match sent {
                Ok(Ok(Confirmation::Ack(_))) => {
                    published.confirmed.push(event.id);
                    continue;
                }
                Ok(Ok(Confirmation::Nack(_))) => anyhow!("a queue refused an event"),
                Ok(Ok(Confirmation::NotRequested)) => anyhow!("the channel is not in confirm mode"),
                Ok(Err(error)) => {
                    link.broken.notify_one();
                    error
                }
                Err(_) => anyhow!("the broker did not confirm events in time"),
            };
            published.failure.get_or_insert(failure);
        }
        published
    }
}

/// Sends an event. If its trace is recorded, the message names the span of being sent.
async fn send(channel: &Channel, exchange: &str, event: &Envelope) -> Result<Confirmation> {
    let recorded = |context| spans::event("rabbitmq", exchange, &event.kind, context);
    let mut span = event.traceparent.and_then(recorded);
    if let Some(span) = &mut span {
        span.text("messaging.message.id", event.id.to_string());
    }
    let context = span.as_ref().map(Span::context).or(event.traceparent);
    let sent = send_within(channel, exchange, event, context).await;
    if let (Some(span), false) = (&mut span, matches!(sent, Ok(Confirmation::Ack(_)))) {
        span.fail("not_confirmed");
    }
    sent
}

async fn send_within(
    channel: &Channel,
    exchange: &str,
    event: &Envelope,
    context: Option<TraceContext>,
) -> Result<Confirmation> {
    let mut properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2)
        .with_message_id(event.id.to_string().into())
        .with_type(event.kind.as_str().into())
        .with_timestamp(u64::try_from(event.created_at.unix_seconds()).unwrap_or(0));
    if let Some(context) = context {
        let mut headers = FieldTable::default();
        let value = AMQPValue::LongString(context.to_string().into());
        headers.insert(TRACEPARENT.into(), value);
        properties = properties.with_headers(headers);
    }
    let body = serde_json::to_vec(event).context("an event as JSON")?;
    let key = routing_key(&event.kind);
    let options = BasicPublishOptions::default();
    let confirm = channel
        .basic_publish(
            exchange.into(),
            key.as_str().into(),
            options,
            &body,
            properties,
        )
        .await
        .context("publishing an event")?;
    confirm.await.context("waiting for the confirm of an event")
}

/// The events that are published from now on. They come from a queue of its own, which is deleted
/// when the connection ends.
pub struct Tap {
    consumer: Consumer,
    _channel: Channel,
    _connection: Connection,
}

impl Tap {
    /// Reads the events whose kind matches `pattern`: words between dots, where `*` stands for
    /// one word and `#` for any number of words.
    pub async fn open(url: &str, prefix: &str, pattern: &str) -> Result<Self> {
        let servers = Servers::parse(url)?;
        let exchange = format!("{prefix}.events");
        let opened = timeout(SETUP_DEADLINE, open_tap(&servers, &exchange, pattern));
        opened.await.context("the broker did not answer in time")?
    }

    /// The next event. An error means that the connection is lost.
    pub async fn next(&mut self) -> Result<Envelope> {
        loop {
            let delivery = self.consumer.next().await;
            let delivery = delivery.context("the broker ended the consumer")??;
            delivery.acker.ack(BasicAckOptions::default()).await?;
            match serde_json::from_slice(&delivery.data) {
                Ok(event) => return Ok(event),
                Err(error) => tracing::warn!(%error, "a foreign message was skipped"),
            }
        }
    }
}

async fn open_tap(servers: &Servers, exchange: &str, pattern: &str) -> Result<Tap> {
    let (connection, _) = servers.connect("events tail").await?;
    let channel = connection.create_channel().await?;
    declare_exchange(&channel, exchange).await?;
    let options = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let nothing = FieldTable::default;
    let queue = channel.queue_declare("".into(), options, nothing()).await?;
    let bind = QueueBindOptions::default();
    let name = queue.name().clone();
    channel
        .queue_bind(
            name.clone(),
            exchange.into(),
            pattern.into(),
            bind,
            nothing(),
        )
        .await?;
    channel
        .basic_qos(TAP_PREFETCH, BasicQosOptions::default())
        .await?;
    let consume = BasicConsumeOptions::default();
    let consumer = channel
        .basic_consume(name, "".into(), consume, nothing())
        .await?;
    Ok(Tap {
        consumer,
        _channel: channel,
        _connection: connection,
    })
}
