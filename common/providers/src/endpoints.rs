//! Sends webhooks to endpoints of the merchant's own systems.
//!
//! Whoever can add an endpoint must not reach through it what only this machine can reach. So a
//! host name is resolved here at each connect, and only addresses of the public internet are
//! connected to, besides those in the networks of `ENDPOINT_NETWORKS`. A name that resolves to
//! another address the next time is checked again then. Redirects are not followed, and no proxy is
//! used. The body of an answer is not looked at: it may be about a person, or of a system that only this service reaches.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::endpoint::{Secret, is_public, signatures};
use domain::origins::is_this_machine;
use domain::time::Timestamp;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use tokio::time::timeout;

use crate::wire;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(15);
/// How long the body of an answer may take.
const REST_DEADLINE: Duration = Duration::from_secs(1);
/// An endpoint that asks us to wait longer is tried again after this time.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// How many bytes of the body of an answer are read. A connection is used again only after a body
/// was read to its end.
const MOST_READ: usize = 4096;

/// A webhook, ready to be sent.
pub struct Webhook {
    url: String,
    id: String,
    timestamp: i64,
    signature: String,
    body: Bytes,
}

impl Webhook {
    /// Signs a body that is sent at the time `at`.
    pub fn signed(url: &str, secrets: &[Secret], id: String, at: Timestamp, body: Vec<u8>) -> Self {
        Webhook {
            url: url.to_owned(),
            timestamp: at.unix_seconds(),
            signature: signatures(secrets, &id, at, &body),
            id,
            body: body.into(),
        }
    }
}

/// Why an endpoint did not accept a webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    #[error("{0}")]
    Address(AddressError),
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it did not answer within 15 s")]
    TooSlow,
    #[error("it answered {status}")]
    Status {
        status: u16,
        /// How long it asks us to wait (`Retry-After`).
        retry_after: Option<Duration>,
    },
    #[error("it answered 410, so it wants no more webhooks")]
    Gone,
}

impl Failed {
    /// The HTTP status of the answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Failed::Status { status, .. } => Some(*status),
            Failed::Gone => Some(410),
            Failed::Address(_) | Failed::Unreachable(_) | Failed::TooSlow => None,
        }
    }

    /// How long the endpoint asks us to wait, at most [`LONGEST_WAIT`].
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Failed::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Why a URL cannot be the address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("the address of an endpoint must be https:// or http:// and a host")]
    NotAUrl,
    #[error("the address of an endpoint must not have a user or a password in it")]
    Credentials,
    #[error(
        "the address of an endpoint must be https://, except for hosts that ALLOW_CLEARTEXT names"
    )]
    Cleartext,
    #[error(
        "the address of an endpoint must not be in a private network or on this machine, except in \
         networks that ENDPOINT_NETWORKS names"
    )]
    Private,
}

/// Where endpoints may be.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Private networks in which endpoints may be.
    pub networks: Vec<IpNet>,
    /// Hosts that may be addressed without encryption.
    pub cleartext: Vec<String>,
    /// They may be on this machine, where a developer's own system runs.
    pub this_machine: bool,
}

impl Allowed {
    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let mut networks = self.networks.iter();
        is_public(address)
            || (self.this_machine && address.is_loopback())
            || networks.any(|network| network.contains(&address))
    }

    /// Checks everything that can be seen of a URL alone. A host name is looked up at each connect.
    pub fn check(&self, url: &str) -> Result<Url, AddressError> {
        // A parser of URLs passes over blanks and line breaks.
        let scheme = url.split("://").next().unwrap_or_default();
        let is_http = ["http", "https"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(scheme));
        if !is_http || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(AddressError::NotAUrl);
        }
        let url = Url::parse(url).map_err(|_| AddressError::NotAUrl)?;
        let host = url.host_str().ok_or(AddressError::NotAUrl)?;
        let host = host.trim_matches(['[', ']']);
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        let mut cleartext = self.cleartext.iter();
        match url.scheme() {
            "https" => {}
            "http" if is_this_machine(host) => {}
            "http" if cleartext.any(|it| it.eq_ignore_ascii_case(host)) => {}
            "http" => return Err(AddressError::Cleartext),
            _ => return Err(AddressError::NotAUrl),
        }
        let address = host.parse::<IpAddr>();
        if address.is_ok_and(|address| !self.has(address)) {
            return Err(AddressError::Private);
        }
        Ok(url)
    }
}

/// Resolves host names, and leaves out the addresses that must not be connected to.
struct Guard(Arc<Allowed>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.filter(|it| allowed.has(it.ip())).collect();
            if found.is_empty() {
                return Err(io::Error::other(AddressError::Private).into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[derive(Clone)]
pub struct Sender {
    client: Client,
    allowed: Arc<Allowed>,
}

impl Sender {
    pub fn new(allowed: Allowed) -> Self {
        let allowed = Arc::new(allowed);
        let client = Client::builder()
            .dns_resolver(Arc::new(Guard(allowed.clone())))
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_DEADLINE)
            .timeout(DEADLINE)
            .user_agent(concat!("waybill/", env!("CARGO_PKG_VERSION")));
        let client = wire::client(client);
        Sender { client, allowed }
    }

    /// Sends a webhook once. Only a status of 2xx is a success.
    pub async fn send(&self, webhook: Webhook) -> Result<(), Failed> {
        let url = self.allowed.check(&webhook.url).map_err(Failed::Address)?;
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", webhook.id)
            .header("webhook-timestamp", webhook.timestamp)
            .header("webhook-signature", webhook.signature)
            .body(webhook.body);
        let response = wire::send(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        // The status says all. The body is read for the next request on its connection alone.
        let _ = timeout(REST_DEADLINE, pass(response)).await;
        if status.is_success() {
            return Ok(());
        }
        if status == StatusCode::GONE {
            return Err(Failed::Gone);
        }
        Err(Failed::Status {
            status: status.as_u16(),
            retry_after,
        })
    }
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. The date is by the clock of the endpoint, whose `Date` says how
/// late it is there; without that it is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| Some(headers.get(name)?.to_str().ok()?.trim());
    let after = text(RETRY_AFTER)?;
    let is_number = !after.is_empty() && after.bytes().all(|it| it.is_ascii_digit());
    let wait = if is_number {
        after.parse().map_or(LONGEST_WAIT, Duration::from_secs)
    } else {
        let until = httpdate::parse_http_date(after).ok()?;
        let now = httpdate::parse_http_date(text(DATE)?).ok()?;
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST_WAIT))
}

/// The deepest cause says best what is wrong, and does not have the address in it.
fn failed(error: &reqwest::Error) -> Failed {
    if error.is_timeout() {
        return Failed::TooSlow;
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Failed::Unreachable(cause.to_string())
}

/// Reads a body that is not too long to its end.
async fn pass(mut response: Response) {
    let mut read = 0;
    while read < MOST_READ
        && let Ok(Some(chunk)) = response.chunk().await
    {
        read += chunk.len();
    }
}

#[cfg(test)]
#[path = "../tests/unit/endpoints.rs"]
mod tests;
