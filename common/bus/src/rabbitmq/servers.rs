//! The servers of a broker, of which any will do: those of a cluster share exchanges and queues.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lapin::types::FrameSize;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};
use tokio::time::timeout;

/// How long one of several servers may take, and the only one.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(3);
const ONLY_ONE: Duration = Duration::from_secs(5);

/// The pause between heartbeats in seconds, unless the URL sets another. A dead peer is noticed within two; the
/// client's default is a minute.
const HEARTBEAT: u16 = 10;
/// The size of a frame in bytes, unless the URL sets another. The client keeps room for 64 frames of each
/// connection, so with the 128 KiB that RabbitMQ would choose a connection takes 8 MiB. Messages may be larger: they are sent as several frames.
const FRAME_MAX: FrameSize = 16 * 1024;

pub struct Servers {
    servers: Vec<AMQPUri>,
    /// The place of the one to try first: the one that worked last, or the one after a server that failed.
    first: AtomicUsize,
}

impl Servers {
    /// Reads a list of URLs with commas between them.
    pub fn parse(list: &str) -> Result<Self> {
        let servers: Result<Vec<AMQPUri>> = list.split(',').map(server).collect();
        Ok(Servers {
            // Processes that start together share the servers among them.
            first: AtomicUsize::new(usize::from(RandomState::new().hash_one(0).to_le_bytes()[0])),
            servers: servers?,
        })
    }

    /// Connects to the first server that answers, and returns its place for [`Servers::works`]. The error is
    /// that of the last one.
    pub async fn connect(&self, name: &str) -> Result<(Connection, usize)> {
        let limit = if self.servers.len() == 1 {
            ONLY_ONE
        } else {
            ONE_OF_SEVERAL
        };
        let mut last = None;
        for _ in &self.servers {
            let nth = self.first.load(Ordering::Relaxed) % self.servers.len();
            // Unless it turns out to work, the next try is with the next server.
            self.first.store(nth + 1, Ordering::Relaxed);
            match open(self.servers[nth].clone(), name, limit).await {
                Ok(connection) => return Ok((connection, nth)),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None => bail!("AMQP_URL names no server"),
        }
    }

    /// Notes that a server does what is asked of it. One that has lost touch with the others of its cluster
    /// lets clients in and then does nothing for them.
    pub fn works(&self, nth: usize) {
        self.first.store(nth, Ordering::Relaxed);
    }
}

async fn open(server: AMQPUri, name: &str, limit: Duration) -> Result<Connection> {
    let properties =
        ConnectionProperties::default().with_connection_name(format!("waybill {name}").into());
    let connected = timeout(limit, Connection::connect_uri(server, properties));
    Ok(connected.await.context("connecting took too long")??)
}

/// Reads the URL of a server, and adds what it does not set.
fn server(url: &str) -> Result<AMQPUri> {
    let mut server: AMQPUri = url
        .trim()
        .parse()
        .map_err(|problem| anyhow!("AMQP_URL: {problem}"))?;
    server.query.heartbeat.get_or_insert(HEARTBEAT);
    server.query.frame_max.get_or_insert(FRAME_MAX);
    Ok(server)
}

#[cfg(test)]
#[path = "../../tests/unit/rabbitmq/servers.rs"]
mod tests;
