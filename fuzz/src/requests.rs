//! What a request says: whose address a proxy names, and where a page of orders goes on. Nobody who is no trusted proxy
//! chooses an address, and a cursor that is read is written as another that is the same.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cursor::Cursor;
use crate::domain::input::{Input, text};
use crate::forwarded::client;

const PEERS: [&str; 4] = ["10.0.0.1", "::ffff:10.1.2.3", "203.0.113.9", "fd00::7"];

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(3) {
        cursor(input);
    } else {
        forwarded(input);
    }
}

fn forwarded(mut input: Input) {
    let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8", "198.51.100.7/32"]
        .map(|net| net.parse().expect("a network"))
        .into();
    let is_trusted = |it: IpAddr| trusted.iter().any(|net| net.contains(&it));
    let peer: IpAddr = input.one_of(&PEERS).parse().expect("an address");
    let forged = input.text(60);
    let header = text(input.rest());
    let found = client(peer, [Some(header)], &trusted);
    assert_eq!(found, found.to_canonical());
    if !is_trusted(peer.to_canonical()) {
        assert_eq!(found, peer.to_canonical(), "it spoke for itself");
    }
    // In lines of their own or in one, the entries are the same.
    let lines = header.rsplit(',').map(Some);
    assert_eq!(client(peer, lines, &trusted), found, "{header:?}");
    // What was there before the request came to a proxy counts only when all that came after is of proxies.
    if !is_trusted(found) {
        let whole = format!("{forged},{header}");
        assert_eq!(client(peer, [Some(&*whole)], &trusted), found, "{whole:?}");
        let lines = [Some(header), Some(forged), None];
        assert_eq!(client(peer, lines, &trusted), found, "{whole:?}");
    }
    assert_eq!(
        client(peer, [None, Some(header)], &trusted),
        peer.to_canonical()
    );
}

fn cursor(mut input: Input) {
    let place = Cursor {
        at: input.number(),
        id: input.number(),
        shop: input.text(60).replace('\0', ""),
    };
    assert_eq!(place.to_string().parse(), Ok(place));
    let given = input.text(255);
    if let Ok(read) = given.parse::<Cursor>() {
        assert!(!read.shop.contains('\0'));
        assert_eq!(read.to_string().parse(), Ok(read), "{given}");
    }
}
