//! Limits the number of connections, in all and for each client network, so that one network
//! cannot take all of them. A trusted proxy stands for many clients, so it is not limited to the
//! share of one network, and some places are kept free for trusted proxies.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ipnet::IpNet;
use platform::counted::Counted;
use platform::lock::lock;

/// One network may have this fraction of all connections (an eighth), and the same fraction is
/// kept for trusted proxies.
const SHARE: usize = 8;

/// The reason for ending a connection whose client does not read.
pub const UNREAD: &str = "unread";

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
}

/// The network of a client. For IPv6 it is the /64, because a client can choose any address in
/// it.
pub fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let host = u128::from(u64::MAX);
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Why a connection is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Full {
    /// The client's network has its share already.
    Network,
    /// The greatest number of connections is reached.
    All,
}

impl Full {
    pub fn label(self) -> &'static str {
        match self {
            Full::Network => "network",
            Full::All => "all",
        }
    }
}

pub struct Connections {
    most: usize,
    /// The most connections of all clients together that are not trusted proxies.
    most_of_strangers: usize,
    most_of_network: usize,
    trusted: Vec<IpNet>,
    keep_alive: Duration,
    open: Mutex<Open>,
    pub refused: Counted<Full>,
}

#[derive(Default)]
struct Open {
    all: usize,
    strangers: usize,
    networks: HashMap<IpAddr, usize>,
}

/// The place of a connection, which becomes free when this value is dropped.
pub struct Place {
    connections: Arc<Connections>,
    /// `None` for a connection of a trusted proxy.
    network: Option<IpAddr>,
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
        for reason in [Full::Network.label(), Full::All.label(), UNREAD] {
            // The counter starts at 0, so that the first time can be seen as an increase.
            metrics::counter!("waybill_connections_cut_total", "reason" => reason).increment(0);
        }
        Connections {
            most,
            most_of_strangers: most - kept,
            most_of_network: share,
            trusted: limits.trusted_proxies,
            keep_alive: limits.keep_alive,
            open: Mutex::default(),
            refused: Counted::default(),
        }
    }

    /// A place for a connection of this peer, or why there is none.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<Place, Full> {
        let peer = peer.to_canonical();
        let is_trusted = self.trusted.iter().any(|network| network.contains(&peer));
        let network = (!is_trusted).then(|| network(peer));
        let admitted = lock(&self.open).add(network, self);
        if let Err(full) = admitted {
            count_cut(full.label());
            return Err(full);
        }
        metrics::gauge!("waybill_connections").increment(1);
        Ok(Place {
            connections: self.clone(),
            network,
        })
    }
}

impl Place {
    /// How long this connection is kept when it is idle.
    pub fn keep_alive(&self) -> Duration {
        let connections = &self.connections;
        let is_crowded = lock(&connections.open).all * 2 > connections.most;
        match self.network {
            Some(_) if is_crowded => connections.keep_alive.min(CROWDED_KEEP_ALIVE),
            _ => connections.keep_alive,
        }
    }
}

impl Open {
    fn add(&mut self, network: Option<IpAddr>, limits: &Connections) -> Result<(), Full> {
        if self.all >= limits.most {
            return Err(Full::All);
        }
        if let Some(network) = network {
            if self.strangers >= limits.most_of_strangers {
                return Err(Full::All);
            }
            let of_network = self.networks.entry(network).or_default();
            if *of_network >= limits.most_of_network {
                return Err(Full::Network);
            }
            *of_network += 1;
            self.strangers += 1;
        }
        self.all += 1;
        Ok(())
    }

    fn remove(&mut self, network: Option<IpAddr>) {
        self.all -= 1;
        let Some(network) = network else { return };
        self.strangers -= 1;
        if let Some(of_network) = self.networks.get_mut(&network) {
            *of_network -= 1;
            if *of_network == 0 {
                self.networks.remove(&network);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.connections.open).remove(self.network);
        metrics::gauge!("waybill_connections").decrement(1);
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
