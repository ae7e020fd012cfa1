//! The address of the console, and which requests are for it. A page elsewhere can have a name of its own
//! lead to this machine (DNS rebinding); the browser then takes the console for a part of that page. So a
//! request must name the console's own host. A request that changes something must also come from one of
//! the console's own pages.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Uri};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where operators open the console.
pub struct Address {
    url: String,
    /// What a request's host must be. `None`: any name of this machine, with any port, as a tunnel may
    /// lead to it.
    host: Option<String>,
}

impl Address {
    /// `at` is where it listens.
    pub fn of(settings: &config::Console, at: SocketAddr) -> Self {
        let url = match &settings.url {
            Some(url) => url.clone(),
            None => format!("http://{at}"),
        };
        let host = url.split_once("://").map_or("", |(_, host)| host);
        Address {
            host: (!is_loopback(host)).then(|| host.to_ascii_lowercase()),
            url,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn is_encrypted(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Whether a request names this console as its host.
    pub fn is_meant(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(host) = host(uri, headers) else {
            return false;
        };
        match &self.host {
            Some(own) => host.eq_ignore_ascii_case(own),
            None => is_loopback(host),
        }
    }

    /// Whether a request comes from a page of this console. A browser says so in one header or both, and
    /// they must agree. A request with neither is refused.
    pub fn is_from_here(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let site = headers.get(SEC_FETCH_SITE);
        let origin = headers.get(ORIGIN);
        let scheme = if self.is_encrypted() { "https" } else { "http" };
        let own = host(uri, headers).map(|host| format!("{scheme}://{host}"));
        let is_own = |origin: &str| {
            own.as_deref()
                .is_some_and(|own| origin.eq_ignore_ascii_case(own))
        };
        let site_fits = site.is_none_or(|site| site == "same-origin");
        let origin_fits = origin.is_none_or(|origin| origin.to_str().is_ok_and(is_own));
        (site.is_some() || origin.is_some()) && site_fits && origin_fits
    }
}

/// The host of a request, with its port.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(HOST)?.to_str().ok(),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let address = inner.unwrap_or(name).parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use config::Place;

    use super::*;

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
}
