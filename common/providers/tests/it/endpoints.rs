//! Which addresses can be endpoints, and what is kept of their answers.

use providers::endpoints::{AddressError, Allowed};

#[test]
fn only_addresses_that_are_allowed_can_be_endpoints() {
    let allowed = Allowed {
        networks: vec!["10.1.0.0/16".parse().unwrap()],
        cleartext: vec!["hooks.shop.example".to_owned()],
    };
    let check = |url: &str| allowed.check(url).err();
    for url in [
        "https://shop.example/hooks",
        "https://shop.example:8443/hooks?a=b",
        "https://10.1.2.3/",
        "http://hooks.shop.example/",
    ] {
        assert_eq!(check(url), None, "{url}");
    }
    for (url, error) in [
        ("shop.example", AddressError::NotAUrl),
        ("ftp://shop.example/", AddressError::NotAUrl),
        (" https://shop.example/", AddressError::NotAUrl),
        ("https://shop.example/a\nb", AddressError::NotAUrl),
        ("https:/shop.example/", AddressError::NotAUrl),
        ("file:///etc/passwd", AddressError::NotAUrl),
        ("https://ann:x@shop.example/", AddressError::Credentials),
        ("http://shop.example/", AddressError::Cleartext),
        ("https://127.0.0.1/", AddressError::Private),
        ("http://127.0.0.1/", AddressError::Private),
        ("https://[::1]/", AddressError::Private),
        ("https://[::ffff:10.0.0.1]/", AddressError::Private),
        ("https://0x7f000001/", AddressError::Private),
        ("https://2130706433/", AddressError::Private),
        ("https://127.1/", AddressError::Private),
        (
            "https://169.254.169.254/latest/meta-data",
            AddressError::Private,
        ),
        ("https://10.2.0.1/", AddressError::Private),
    ] {
        assert_eq!(check(url), Some(error), "{url}");
    }
}
