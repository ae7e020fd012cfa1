//! Which roles have another, and where somebody is led after signing in.

use console::access::{have, is_own_path};
use domain::api_key::Role;

#[test]
fn everybody_who_is_signed_in_reads_and_an_owner_may_do_everything() {
    for role in Role::ALL {
        assert!(have(&[role], Role::Reader) && have(&[role], role));
        assert!(have(&[Role::Owner], role));
    }
    assert!(!have(&[], Role::Reader));
    assert!(!have(&[Role::Reader], Role::Operator));
    assert!(!have(&[Role::Operator], Role::Privacy));
    assert!(!have(&[Role::Privacy], Role::Operator));
    assert!(!have(&[Role::Operator, Role::Privacy], Role::Owner));
}

#[test]
fn nobody_is_led_elsewhere_after_signing_in() {
    for own in [
        "/",
        "/orders/5?shop=shop.example",
        "/deliveries?kind=orders%2F*",
    ] {
        assert!(is_own_path(own), "{own}");
    }
    for other in [
        "",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/a b",
        "/a\r\nb",
    ] {
        assert!(!is_own_path(other), "{other}");
    }
}
