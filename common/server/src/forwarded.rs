//! What `X-Forwarded-For` says of the client. The fuzzing includes this file.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// The client's address. `lines` are the values of the header, the last one first, and `None` for one that is
/// no text. Their entries are read from the right, because each proxy appends one, and the first that is not
/// a trusted proxy is the client. The search ends at an entry that is not an address, because the entries to
/// the left of it were written by someone unknown.
pub fn client<'a>(
    peer: IpAddr,
    lines: impl IntoIterator<Item = Option<&'a str>>,
    trusted: &[IpNet],
) -> IpAddr {
    let is_trusted = |addr: IpAddr| trusted.iter().any(|network| network.contains(&addr));
    let mut client = peer.to_canonical();
    for line in lines {
        let Some(line) = line else {
            return client;
        };
        for hop in line.rsplit(',').map(str::trim) {
            if !is_trusted(client) {
                return client;
            }
            let Some(addr) = address(hop) else {
                return client;
            };
            client = addr.to_canonical();
        }
    }
    client
}

/// Reads an address in the forms that proxies write. Some add the port, and then put an IPv6
/// address in brackets; some use the brackets without a port; some put everything in quotes.
fn address(entry: &str) -> Option<IpAddr> {
    let quoted = entry
        .strip_prefix('"')
        .and_then(|entry| entry.strip_suffix('"'));
    let entry = quoted.unwrap_or(entry);
    if let Ok(address) = entry.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let bracketed = entry
        .strip_prefix('[')
        .and_then(|entry| entry.strip_suffix(']'));
    match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => entry.parse().ok(),
    }
}
