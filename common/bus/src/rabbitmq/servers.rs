//! The servers of a broker, of which any will do: those of a cluster share exchanges and queues.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lapin::{Connection, ConnectionProperties};
use tokio::time::timeout;

/// How long one of several servers may take, and the only one.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(3);
const ONLY_ONE: Duration = Duration::from_secs(5);

pub struct Servers {
    urls: Vec<String>,
    /// The place of the one to try first: the one that worked last, or the one after a server that failed.
    first: AtomicUsize,
}

impl Servers {
    /// Reads a list of URLs with commas between them.
    pub fn parse(list: &str) -> Result<Self> {
        let urls: Vec<String> = list
            .split(',')
            .map(|url| with_heartbeat(url.trim()))
            .collect();
        for url in &urls {
            url.parse::<lapin::uri::AMQPUri>()
                .map_err(|problem| anyhow!("AMQP_URL: {problem}"))?;
        }
        Ok(Servers {
            // Processes that start together share the servers among them.
            first: AtomicUsize::new(usize::from(RandomState::new().hash_one(0).to_le_bytes()[0])),
            urls,
        })
    }

    /// Connects to the first server that answers, and returns its place for [`Servers::works`]. The error is
    /// that of the last one.
    pub async fn connect(&self, name: &str) -> Result<(Connection, usize)> {
        let limit = if self.urls.len() == 1 {
            ONLY_ONE
        } else {
            ONE_OF_SEVERAL
        };
        let mut last = None;
        for _ in &self.urls {
            let nth = self.first.load(Ordering::Relaxed) % self.urls.len();
            // Unless it turns out to work, the next try is with the next server.
            self.first.store(nth + 1, Ordering::Relaxed);
            match open(&self.urls[nth], name, limit).await {
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

async fn open(url: &str, name: &str, limit: Duration) -> Result<Connection> {
    let properties =
        ConnectionProperties::default().with_connection_name(format!("waybill {name}").into());
    let connected = timeout(limit, Connection::connect(url, properties));
    Ok(connected.await.context("connecting took too long")??)
}

/// The URL with a heartbeat of 10 seconds, unless it sets one. A dead peer is noticed within two
/// heartbeats; the client's default is a minute.
fn with_heartbeat(url: &str) -> String {
    if url.contains("heartbeat=") {
        return url.to_owned();
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}heartbeat=10")
}
