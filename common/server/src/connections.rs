//! Limits the number of connections, in all and for each client network, so that one network
//! cannot take all of them. A trusted proxy stands for many clients, so it is not limited to the
//! share of one network, and some places are kept free for trusted proxies. The requests that are under way are
//! counted for each client network as well, so a client has the same share behind a proxy, and a part of the places
//! is kept for paths that must always be answered.
//!
//! When there is no place left, the oldest connection ends that waits for its client: one that has not sent a whole
//! request, or else one of a stranger that is idle. So whoever holds connections open only holds them until
//! somebody else comes.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ipnet::IpNet;
use platform::counted::Counted;
use platform::lock::lock;
use tokio_util::sync::CancellationToken;

use crate::exchange::Exchange;

/// One network may have this fraction of all connections (an eighth), and the same fraction is
/// kept for trusted proxies.
pub const SHARE: usize = 8;

/// This fraction of the requests under way is kept for paths that must always be answered (a quarter).
pub const RESERVE: usize = 4;

/// The reasons for ending a connection: its client does not read; its place is needed.
pub const UNREAD: &str = "unread";
const CROWDED: &str = "crowded";

/// How long an idle connection of a stranger is kept when half of all connections are taken. It is
/// as long as a stranger may take for the headers of a request, so keeping connections idle gains
/// nothing.
const CROWDED_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How many files a process needs beside its connections, for its database and the broker.
const OTHER_FILES: usize = 128;

/// How many connections a port serves, for whom, and for how long.
#[derive(Clone, Debug)]
pub struct Limits {
    pub connections: usize,
    pub trusted_proxies: Vec<IpNet>,
    /// How long an idle connection is kept, while there is room.
    pub keep_alive: Duration,
    /// The paths for which a part of the requests under way is kept.
    pub is_kept_for: fn(&str) -> bool,
}

/// The network of a client. For IPv6 it is the /56, which is what one line has, and a client can choose any
/// address in it.
pub fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let host = u128::MAX >> 56;
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Why a connection or a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Full {
    /// The client's network has its share of the connections already.
    Network,
    /// The greatest number of connections is reached.
    All,
    /// The client's network has its share of the requests under way already.
    Requests,
    /// What is left of the requests under way is kept for other paths.
    Reserve,
}

impl Full {
    pub fn label(self) -> &'static str {
        match self {
            Full::Network => "network",
            Full::All => "all",
            Full::Requests => "requests",
            Full::Reserve => "reserve",
        }
    }
}

pub struct Connections {
    most: usize,
    /// The most connections of all clients together that are not trusted proxies.
    most_of_strangers: usize,
    most_of_network: usize,
    /// The most requests under way of all paths for which none are kept.
    most_of_others: usize,
    pub trusted: Vec<IpNet>,
    keep_alive: Duration,
    is_kept_for: fn(&str) -> bool,
    open: Mutex<Open>,
    pub refused: Counted<Full>,
}

#[derive(Default)]
struct Open {
    /// The connections by the sequence in which they were opened.
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    strangers: usize,
    networks: HashMap<IpAddr, usize>,
    /// The requests under way of each client network, and those of paths for which none are kept.
    requests: HashMap<IpAddr, usize>,
    others: usize,
}

struct Connection {
    /// `None` for a connection of a trusted proxy.
    network: Option<IpAddr>,
    exchange: Arc<Exchange>,
    /// Cancelled when its place is given to another one.
    ended: CancellationToken,
}

/// The place of a connection, which becomes free when this value is dropped.
pub struct Place {
    connections: Arc<Connections>,
    number: u64,
    is_trusted: bool,
    /// Cancelled when the place is given to another connection.
    pub ended: CancellationToken,
}

/// A request that is under way until this value is dropped.
pub struct UnderWay {
    connections: Arc<Connections>,
    network: Option<IpAddr>,
    is_other: bool,
}

impl Connections {
    pub fn new(limits: Limits) -> Self {
        let most = affordable(limits.connections);
        let share = (most / SHARE).max(1);
        let kept = if limits.trusted_proxies.is_empty() {
            0
        } else {
            share
        };
        let full = [Full::Network, Full::All, Full::Requests, Full::Reserve];
        for reason in full.map(Full::label).into_iter().chain([UNREAD, CROWDED]) {
            // The counter starts at 0, so that the first time can be seen as an increase.
            metrics::counter!("waybill_connections_cut_total", "reason" => reason).increment(0);
        }
        Connections {
            most,
            most_of_strangers: most - kept,
            most_of_network: share,
            most_of_others: (most - most / RESERVE).max(1),
            trusted: limits.trusted_proxies,
            keep_alive: limits.keep_alive,
            is_kept_for: limits.is_kept_for,
            open: Mutex::default(),
            refused: Counted::default(),
        }
    }

    /// A place for a connection of this peer, or why there is none.
    pub fn admit(self: &Arc<Self>, peer: IpAddr, exchange: Arc<Exchange>) -> Result<Place, Full> {
        let network = self.stranger(peer);
        let ended = CancellationToken::new();
        let connection = Connection {
            network,
            exchange,
            ended: ended.clone(),
        };
        let admitted = lock(&self.open).add(connection, self);
        let number = admitted.inspect_err(|full| count_cut(full.label()))?;
        metrics::gauge!("waybill_connections").increment(1);
        Ok(Place {
            connections: self.clone(),
            number,
            is_trusted: network.is_none(),
            ended,
        })
    }

    /// The network of a client; `None` if it is a trusted proxy.
    fn stranger(&self, client: IpAddr) -> Option<IpAddr> {
        let client = client.to_canonical();
        let is_trusted = self.trusted.iter().any(|network| network.contains(&client));
        (!is_trusted).then(|| network(client))
    }

    /// Counts a request of this client, or says why it is not served. The requests of a proxy that names no client
    /// are not limited.
    pub fn begin(self: &Arc<Self>, client: IpAddr, path: &str) -> Result<UnderWay, Full> {
        let network = self.stranger(client);
        let is_other = !(self.is_kept_for)(path);
        let begun = lock(&self.open).begin(network, is_other, self);
        begun.inspect_err(|full| count_cut(full.label()))?;
        Ok(UnderWay {
            connections: self.clone(),
            network,
            is_other,
        })
    }
}

impl Place {
    /// How long this connection is kept when it is idle.
    pub fn keep_alive(&self) -> Duration {
        let connections = &self.connections;
        let is_crowded = lock(&connections.open).connections.len() * 2 > connections.most;
        if is_crowded && !self.is_trusted {
            connections.keep_alive.min(CROWDED_KEEP_ALIVE)
        } else {
            connections.keep_alive
        }
    }
}

impl Open {
    /// The number of the connection among all.
    fn add(&mut self, connection: Connection, limits: &Connections) -> Result<u64, Full> {
        let network = connection.network;
        let of_network = network.and_then(|network| self.networks.get(&network));
        if of_network.is_some_and(|of_network| *of_network >= limits.most_of_network) {
            return Err(Full::Network);
        }
        let are_many = network.is_some() && self.strangers >= limits.most_of_strangers;
        if are_many || self.connections.len() >= limits.most {
            self.make_room(are_many)?;
        }
        if let Some(network) = network {
            *self.networks.entry(network).or_default() += 1;
            self.strangers += 1;
        }
        self.opened += 1;
        self.connections.insert(self.opened, connection);
        Ok(self.opened)
    }

    /// Ends the oldest connection that waits for its client.
    fn make_room(&mut self, of_strangers: bool) -> Result<(), Full> {
        let all = self.connections.iter();
        let mut all = all.filter(|(_, it)| !of_strangers || it.network.is_some());
        let unfinished = all.clone().find(|(_, it)| it.exchange.is_unfinished());
        let is_idle = |it: &Connection| it.network.is_some() && it.exchange.is_idle();
        let oldest = unfinished.or_else(|| all.find(|(_, it)| is_idle(it)));
        let Some((&number, connection)) = oldest else {
            return Err(Full::All);
        };
        connection.ended.cancel();
        self.remove(number);
        count_cut(CROWDED);
        Ok(())
    }

    fn remove(&mut self, number: u64) {
        let connection = self.connections.remove(&number);
        let Some(network) = connection.and_then(|it| it.network) else {
            return;
        };
        self.strangers -= 1;
        subtract(&mut self.networks, network);
    }

    fn begin(
        &mut self,
        network: Option<IpAddr>,
        is_other: bool,
        limits: &Connections,
    ) -> Result<(), Full> {
        let of_network = network.and_then(|network| self.requests.get(&network));
        if of_network.is_some_and(|of_network| *of_network >= limits.most_of_network) {
            return Err(Full::Requests);
        }
        if is_other && self.others >= limits.most_of_others {
            return Err(Full::Reserve);
        }
        self.others += usize::from(is_other);
        if let Some(network) = network {
            *self.requests.entry(network).or_default() += 1;
        }
        Ok(())
    }
}

fn subtract(counts: &mut HashMap<IpAddr, usize>, network: IpAddr) {
    if let Some(count) = counts.get_mut(&network) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&network);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.connections.open).remove(self.number);
        metrics::gauge!("waybill_connections").decrement(1);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.open);
        open.others -= usize::from(self.is_other);
        if let Some(network) = self.network {
            subtract(&mut open.requests, network);
        }
    }
}

/// Counts a connection that was refused, or that was ended because of its client.
pub fn count_cut(reason: &'static str) {
    metrics::counter!("waybill_connections_cut_total", "reason" => reason).increment(1);
}

/// The requested number of connections, or as many as the process may open files for. The soft
/// limit of open files is often only a thousand, so it is first raised as far as the system
/// allows.
fn affordable(connections: usize) -> usize {
    let files = raise_file_limit().unwrap_or(usize::MAX);
    let affordable = files.saturating_sub(OTHER_FILES).max(1);
    if affordable < connections {
        tracing::warn!(
            connections = affordable,
            files,
            "fewer connections are served than MAX_CONNECTIONS says, because the process may not \
             open more files; raise its limit (ulimit -n)"
        );
    }
    connections.min(affordable)
}

/// Raises this process's limit of open files as far as possible, and returns the limit
/// afterwards.
pub fn raise_file_limit() -> Option<usize> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let given = limit.current;
    limit.current = limit.maximum;
    if setrlimit(Resource::Nofile, limit).is_err() {
        limit.current = given;
    }
    limit.current.and_then(|files| usize::try_from(files).ok())
}
