//! Which requests are meant for the console, and which come from it.

use axum::http::header::{HOST, HeaderName};
use axum::http::{HeaderMap, Uri};
use config::Place;
use console::address::Address;

fn address(url: Option<&str>) -> Address {
    let settings = config::Console {
        place: Place::Unset,
        url: url.map(str::to_owned),
        is_read_only: false,
    };
    Address::of(&settings, "127.0.0.1:8002".parse().unwrap())
}

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let list = list.iter();
    list.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect()
}

#[test]
fn on_this_machine_only_its_own_names_are_the_console() {
    let own = address(None);
    let is_meant = |host| own.is_meant(&Uri::from_static("/"), &headers(&[("host", host)]));
    for host in [
        "127.0.0.1:8002",
        "localhost",
        "LOCALHOST:9",
        "[::1]:8002",
        "127.0.0.7",
    ] {
        assert!(is_meant(host), "{host}");
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example:8002",
        "localhost.evil.example",
        "",
    ] {
        assert!(!is_meant(host), "{host}");
    }
    assert!(!own.is_meant(&Uri::from_static("/"), &HeaderMap::new()));
}

#[test]
fn behind_a_proxy_only_the_address_of_the_setting_is_the_console() {
    let own = address(Some("https://console.example"));
    assert!(own.is_encrypted());
    let is_meant = |host| own.is_meant(&Uri::from_static("/"), &headers(&[("host", host)]));
    assert!(is_meant("console.example") && is_meant("Console.Example"));
    assert!(!is_meant("127.0.0.1:8002") && !is_meant("console.example:444"));
}

#[test]
fn a_write_comes_from_a_page_of_the_console_alone() {
    let own = address(None);
    let is_from_here = |list: &[(&'static str, &str)]| {
        let mut all = headers(list);
        all.insert(HOST, "127.0.0.1:8002".parse().unwrap());
        own.is_from_here(&Uri::from_static("/"), &all)
    };
    let here = ("origin", "http://127.0.0.1:8002");
    assert!(is_from_here(&[here, ("sec-fetch-site", "same-origin")]));
    assert!(is_from_here(&[here]));
    assert!(is_from_here(&[("sec-fetch-site", "same-origin")]));
    for elsewhere in [
        "http://127.0.0.1:8003",
        "https://127.0.0.1:8002",
        "null",
        "http://evil.example",
    ] {
        assert!(!is_from_here(&[("origin", elsewhere)]), "{elsewhere}");
    }
    for site in ["cross-site", "same-site", "none"] {
        assert!(!is_from_here(&[here, ("sec-fetch-site", site)]), "{site}");
    }
    assert!(
        !is_from_here(&[]),
        "who does not say from where is not let in"
    );
}
