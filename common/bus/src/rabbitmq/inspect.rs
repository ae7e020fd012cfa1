//! Inspects a broker without changing it. Every process declares the exchanges and queues that it
//! needs when it connects, so a command that wants to find out what is wrong must not connect
//! that way.

use anyhow::{Context, Result};
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ExchangeKind};

use super::servers::Servers;
use super::{EXCHANGES, dead_arguments, queue_arguments};
use domain::job::Queue;

/// What was found at the broker.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Our exchanges that do not exist.
    pub missing_exchanges: Vec<String>,
    pub queues: Vec<QueueState>,
    /// The queue that shows dead letters.
    pub dead: Option<QueueState>,
}

#[derive(Clone, Debug)]
pub struct QueueState {
    pub name: String,
    /// What the queue has. None when the queue does not exist.
    pub holds: Option<Holds>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    pub messages: u32,
    pub consumers: u32,
    /// True when the queue was made with other arguments than ours.
    pub is_foreign: bool,
}

/// Connects to one of the servers, whose URLs have commas between them, and inspects each of our exchanges
/// and queues, whose names begin with the prefix. Nothing that is missing is made.
pub async fn inspect(url: &str, prefix: &str) -> Result<Topology> {
    let (connection, _) = Servers::parse(url)?.connect("doctor").await?;
    let looked = look(&connection, prefix).await;
    let _ = connection.close(200, "looked".into()).await;
    looked
}

async fn look(connection: &Connection, prefix: &str) -> Result<Topology> {
    let name = |what: &str| format!("{prefix}.{what}");
    let mut topology = Topology::default();
    for exchange in EXCHANGES.map(name) {
        if !has_exchange(connection, &exchange).await? {
            topology.missing_exchanges.push(exchange);
        }
    }
    for queue in Queue::ALL {
        let arguments = queue_arguments(name("dead"));
        let found = queue_of(connection, name(queue.into_str()), arguments).await?;
        topology.queues.push(found);
    }
    topology.dead = Some(queue_of(connection, name("dead"), dead_arguments()).await?);
    Ok(topology)
}

async fn has_exchange(connection: &Connection, name: &str) -> Result<bool> {
    // Each question has a channel of its own, because the broker closes a channel on which
    // somebody asks for something that does not exist.
    let channel = connection.create_channel().await.context("a channel")?;
    let options = ExchangeDeclareOptions {
        passive: true,
        ..ExchangeDeclareOptions::default()
    };
    let kind = ExchangeKind::Topic;
    let asked = channel.exchange_declare(name.into(), kind, options, FieldTable::default());
    let is_there = asked.await.is_ok();
    if is_there {
        let _ = channel.close(200, "looked".into()).await;
    }
    Ok(is_there)
}

async fn queue_of(
    connection: &Connection,
    name: String,
    arguments: FieldTable,
) -> Result<QueueState> {
    let channel = connection.create_channel().await.context("a channel")?;
    let passive = QueueDeclareOptions {
        passive: true,
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let asked = channel.queue_declare(name.as_str().into(), passive, FieldTable::default());
    let Ok(queue) = asked.await else {
        return Ok(QueueState { name, holds: None });
    };
    let (messages, consumers) = (queue.message_count(), queue.consumer_count());
    // The queue exists, so declaring it makes nothing. The broker only compares the arguments.
    let ours = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let compared = channel.queue_declare(name.as_str().into(), ours, arguments);
    let is_foreign = compared.await.is_err();
    if !is_foreign {
        let _ = channel.close(200, "looked".into()).await;
    }
    let holds = Some(Holds {
        messages,
        consumers,
        is_foreign,
    });
    Ok(QueueState { name, holds })
}
