//! The address of the client: the peer of the connection or, if the peer is a trusted proxy, the
//! address that the proxy names in `X-Forwarded-For`. This header is ignored if it comes from any
//! other peer, because anybody can forge it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::header::FORWARDED;
use axum::http::{Extensions, HeaderMap};
use ipnet::IpNet;

use crate::{Peer, forwarded};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The client's address, as [`forwarded::client`] finds it.
pub fn resolve(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
    forwarded::client(peer, lines.map(|line| line.to_str().ok()), trusted)
}

/// The client of a request. All requests whose peer is not known count as one client.
pub fn of(extensions: &Extensions, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = extensions.get::<Peer>();
    let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |Peer(peer)| peer.ip());
    resolve(peer, headers, trusted)
}

/// Whether the warning was already logged that a proxy seems to be in front and is not named in
/// `TRUSTED_PROXIES`.
#[derive(Default)]
pub struct Unnamed(AtomicBool);

impl Unnamed {
    /// Logs a warning for the first request that seems to have come through a proxy which is not
    /// named in `TRUSTED_PROXIES`. Behind such a proxy all clients count as one.
    pub fn look(&self, headers: &HeaderMap, trusted: &[IpNet]) {
        if !trusted.is_empty() || self.0.load(Ordering::Relaxed) {
            return;
        }
        let is_forwarded = headers.contains_key(FORWARDED_FOR) || headers.contains_key(FORWARDED);
        if is_forwarded && !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a request came with X-Forwarded-For or Forwarded, and TRUSTED_PROXIES is not set: \
                 if a proxy is in front, all clients count as one, for connections and for every \
                 limit; name its addresses in TRUSTED_PROXIES. If none is, the client made the \
                 header up, and it counts for nothing"
            );
        }
    }
}
