//! These tests show whose address counts behind proxies.

use axum::http::HeaderMap;
use ipnet::IpNet;
use server::client_address::resolve;

fn seen(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
    let mut headers = HeaderMap::new();
    for line in forwarded {
        headers.append("x-forwarded-for", line.parse().unwrap());
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
