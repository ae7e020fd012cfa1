//! By which address connections are counted.

use server::network;

#[test]
fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
    let of = |text: &str| network(text.parse().unwrap()).to_string();
    assert_eq!(of("203.0.113.7"), "203.0.113.7");
    assert_eq!(of("::ffff:203.0.113.7"), "203.0.113.7");
    assert_eq!(of("2001:db8:1:2ff:3:4:5:6"), "2001:db8:1:200::");
    assert_eq!(of("2001:db8:1:200::9"), of("2001:db8:1:2ff:ffff::1"));
}
