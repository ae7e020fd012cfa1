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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        let trusted: Vec<IpNet> = trusted.iter().map(|net| net.parse().unwrap()).collect();
        resolve(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn a_forged_header_from_an_untrusted_peer_counts_for_nothing() {
        assert_eq!(seen("203.0.113.9", &["198.51.100.1"], &[]), "203.0.113.9");
        let trusted = ["10.0.0.0/8"];
        assert_eq!(
            seen("203.0.113.9", &["198.51.100.1"], &trusted),
            "203.0.113.9"
        );
    }

    #[test]
    fn a_trusted_proxy_speaks_for_the_client_it_saw() {
        let trusted = ["10.0.0.0/8"];
        assert_eq!(
            seen("10.0.0.1", &["198.51.100.1"], &trusted),
            "198.51.100.1"
        );
    }

    #[test]
    fn what_the_client_itself_wrote_is_to_the_left_and_is_not_believed() {
        let trusted = ["10.0.0.0/8"];
        let forwarded = ["1.2.3.4, 198.51.100.1, 10.0.0.7"];
        assert_eq!(seen("10.0.0.1", &forwarded, &trusted), "198.51.100.1");
        let lines = ["1.2.3.4", "198.51.100.1", "10.0.0.7"];
        assert_eq!(seen("10.0.0.1", &lines, &trusted), "198.51.100.1");
    }

    /// The address in the forms that proxies write (RFC 7239, section 6).
    #[test]
    fn an_address_may_have_a_port_and_brackets() {
        let trusted = ["10.0.0.0/8"];
        for (entry, client) in [
            ("203.0.113.7:4711", "203.0.113.7"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("203.0.113.7, 10.0.0.7:80", "203.0.113.7"),
            ("\"203.0.113.7:4711\"", "203.0.113.7"),
            ("\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("\"2001:db8::1\"", "2001:db8::1"),
            ("\"203.0.113.7", "10.0.0.1"),
            ("203.0.113.7:", "10.0.0.1"),
            ("203.0.113.7:port", "10.0.0.1"),
            ("203.0.113.7:70000", "10.0.0.1"),
            ("[203.0.113.7", "10.0.0.1"),
            ("[203.0.113.7]:1", "10.0.0.1"),
            ("[]", "10.0.0.1"),
        ] {
            assert_eq!(seen("10.0.0.1", &[entry], &trusted), client, "{entry}");
        }
    }

    #[test]
    fn an_entry_that_is_no_address_ends_the_walk() {
        let trusted = ["10.0.0.0/8"];
        assert_eq!(
            seen("10.0.0.1", &["1.2.3.4, unknown"], &trusted),
            "10.0.0.1"
        );
        assert_eq!(
            seen("::ffff:10.0.0.1", &["2001:db8::1"], &trusted),
            "2001:db8::1"
        );
    }
}
