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

/// Whether a browser says that a page elsewhere has it send a request.
pub fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    site.is_some_and(|site| site != "none" && site != "same-origin")
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
