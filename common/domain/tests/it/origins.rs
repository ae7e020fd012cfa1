//! Which pages a buyer may be sent back to.

use domain::origins::{NotAllowed, Origins};

fn allowed() -> Origins {
    Origins::read("https://shop.example, http://[::1]:8000,https://b.example:8443").unwrap()
}

#[test]
fn pages_of_the_listed_origins_are_taken_as_they_are() {
    for address in [
        "https://shop.example/",
        "https://shop.example/thanks?session={CHECKOUT_SESSION_ID}#top",
        "https://shop.example/thanks/{CHECKOUT_SESSION_ID}",
        "https://shop.example/%7BCHECKOUT_SESSION_ID%7D",
        "https://shop.example/@ada",
        "http://[::1]:8000/a",
        "https://b.example:8443/",
    ] {
        assert_eq!(allowed().check(address).as_deref(), Ok(address));
    }
    let default_port = allowed().check("https://SHOP.example:443/a");
    assert_eq!(default_port.as_deref(), Ok("https://shop.example/a"));
}

#[test]
fn other_origins_are_refused() {
    for address in [
        "http://shop.example/",
        "https://shop.example:444/",
        "https://shop.example.evil.example/",
        "https://evilshop.example/",
        "https://b.example/",
        "https://evil.example/https://shop.example/",
        "https://evil.example?https://shop.example",
        "https://127.0.0.1/",
    ] {
        assert_eq!(
            allowed().check(address),
            Err(NotAllowed::OtherOrigin),
            "{address}"
        );
    }
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    for address in [
        "",
        "shop.example",
        "/thanks",
        "//shop.example/",
        "https:shop.example",
        "https:/shop.example",
        "https:///shop.example",
        "HTTPS://shop.example/",
        "https://user@shop.example/",
        "https://user:word@shop.example/",
        "https://@shop.example/",
        "https://shop.example@evil.example/",
        "https://shop.example\\@evil.example/",
        "https://evil.example\\.shop.example/",
        "https:\\\\shop.example/",
        "javascript:alert(1)",
        "data:text/html,hello",
        "file:///etc/passwd",
        "ftp://shop.example/",
        " https://shop.example/",
        "https://shop.example/ ",
        "https://shop.example/a b",
        "https://shop.example/\n",
        "https://sh\top.example/",
        "https://shop.example/\0",
        "https://shop.example/\u{7f}",
        "https://shöp.example/",
        "https://shop.example/\u{202e}",
        "https://shop.example:99999/",
        "https://[::1/",
    ] {
        assert_eq!(
            allowed().check(address),
            Err(NotAllowed::NotPlain),
            "{address:?}"
        );
    }
    let long = format!("https://shop.example/{}", "a".repeat(10_000));
    assert_eq!(allowed().check(&long), Err(NotAllowed::TooLong));
}

#[test]
fn without_a_list_our_own_origin_and_this_machine_are_allowed() {
    let origins = Origins::of_public_url("https://pay.example/waybill");
    for address in [
        "https://pay.example/thanks",
        "http://localhost:3000/",
        "http://127.0.0.1:1/",
        "http://[::1]:3000/",
    ] {
        assert!(origins.check(address).is_ok(), "{address}");
    }
    for address in ["https://other.example/", "http://localhost.evil.example/"] {
        assert!(origins.check(address).is_err(), "{address}");
    }
}

#[test]
fn a_list_has_origins_alone() {
    for wrong in [
        "",
        "shop.example",
        "https://shop.example/path",
        "https://shop.example?a=b",
        "https://*.shop.example/x",
        "null",
        "https://a.example,,https://b.example",
    ] {
        assert!(Origins::read(wrong).is_err(), "{wrong}");
    }
}
