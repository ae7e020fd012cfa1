//! Lets only programs and pages of this machine use the sandbox. The sandbox signs for everybody
//! who asks, so a page on the Internet that is open in the developer's browser must not be able to
//! send it requests.
//!
//! Such a page could try this in two ways. Its domain name may resolve to 127.0.0.1 (DNS
//! rebinding); then the request's host is not this machine. Or the page posts a form to 127.0.0.1;
//! then the browser says in a header that the request is cross-site.

use axum::http::header::HOST;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::origins::is_this_machine;
use hyper::Request;

/// The answer to a request that does not come from this machine.
pub fn refused<B>(request: &Request<B>) -> Option<Response> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().map(HeaderValue::to_str);
    let is_ours = match (host, hosts.next()) {
        (Some(Ok(host)), None) => is_here(host),
        _ => false,
    };
    if !is_ours {
        let text = "The sandbox answers requests for 127.0.0.1 and localhost alone: ask for it by \
                    one of these names, whatever other name leads here.\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, text).into_response());
    }
    let site = request.headers().get("Sec-Fetch-Site");
    let only_looks = [Method::GET, Method::HEAD].contains(request.method());
    if !only_looks && site.is_some_and(|site| site == "cross-site") {
        let text = "A page of another site cannot change anything in the sandbox.\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    None
}

/// Whether a host, with or without a port, is this machine. Browsers resolve every name that ends
/// with `.localhost` to this machine.
fn is_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.to_ascii_lowercase();
    is_this_machine(&name) || name.ends_with(".localhost")
}
