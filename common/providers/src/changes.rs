//! What a provider lists, page by page, for reconciliation. A page is asked for once: another time is as good, and the
//! calls that cannot wait use the same limits.

use std::time::Duration;

use domain::time::Timestamp;
use reqwest::header::{DATE, HeaderMap, LINK};
use reqwest::{RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{CallFailure, Provider, count};

/// How many orders or events a page has, at most.
pub const PAGE: usize = 100;
/// The time for one page, for which a small shop takes long.
const DEADLINE: Duration = Duration::from_secs(20);
/// The pause after a page of a provider that does not say how much of its limit is used.
const USUAL_REST: Duration = Duration::from_millis(250);
/// The pause after a page while more than half of the limit is used.
const LONG_REST: Duration = Duration::from_secs(1);
const USED: &str = "x-shopify-shop-api-call-limit";

/// What changed from one time until another, by the provider's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// A page of a provider's answer.
#[derive(Debug)]
pub struct Page {
    /// Orders as their webhooks have them, or events.
    pub bodies: Vec<Box<RawValue>>,
    /// What to ask the next page with. None when this is the last one.
    pub next: Option<String>,
    /// The provider's time, if it says it.
    pub answered_at: Option<Timestamp>,
    /// How long the provider is left alone before the next page.
    pub rest: Duration,
}

impl Page {
    pub(crate) fn new(
        bodies: Vec<Box<RawValue>>,
        next: Option<String>,
        headers: &HeaderMap,
    ) -> Self {
        Page {
            bodies,
            next,
            answered_at: text(headers, DATE.as_str()).and_then(Timestamp::from_http_date),
            rest: rest(headers),
        }
    }
}

impl Provider {
    /// Sends a request for a page once, and reads the JSON of its answer. How it ends opens no breaker.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        request: RequestBuilder,
    ) -> Result<(T, HeaderMap), CallFailure> {
        let begun = Instant::now();
        let read = async {
            let response = self.send(request.timeout(DEADLINE)).await?;
            let status = response.status();
            if !status.is_success() {
                let what = format!("it answered {}", status.as_u16());
                return Err(self.refused_with(status, what));
            }
            let headers = response.headers().clone();
            Ok((self.json(response).await?, headers))
        };
        let answer = read.await;
        let outcome = answer.as_ref().err().map_or("ok", CallFailure::outcome);
        count(self.name, operation, outcome, begun.elapsed());
        answer
    }

    /// The failure of a page after which there is another one that cannot be asked for.
    pub(crate) fn unnamed_page(&self) -> CallFailure {
        self.refused("it does not say how to ask for the next page".to_owned())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The part of the limit that is used decides, if the provider says it: `32/40`.
fn rest(headers: &HeaderMap) -> Duration {
    let used = text(headers, USED).and_then(|text| {
        let (used, most) = text.split_once('/')?;
        Some((
            used.trim().parse::<u32>().ok()?,
            most.trim().parse::<u32>().ok()?,
        ))
    });
    match used {
        Some((used, most)) if used.saturating_mul(2) > most => LONG_REST,
        Some(_) => Duration::ZERO,
        None => USUAL_REST,
    }
}

/// An address with these parameters.
pub(crate) fn with_query(url: &str, query: &[(&str, String)]) -> String {
    Url::parse_with_params(url, query).map_or_else(|_| url.to_owned(), String::from)
}

/// There is a next page, and nothing says how to ask for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotNamed;

/// The `page_info` of the next page, which the header `Link` has (RFC 8288). The address itself is not followed: it could
/// lead elsewhere, and the token would go along.
pub(crate) fn next_of_link(headers: &HeaderMap) -> Result<Option<String>, NotNamed> {
    let links = headers.get_all(LINK).into_iter();
    let mut links = links
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','));
    let next = links.find(|link| {
        let (_, parameters) = link.split_once('>').unwrap_or_default();
        parameters
            .split(';')
            .any(|it| matches!(it.trim(), r#"rel="next""# | "rel=next"))
    });
    let Some(next) = next else {
        return Ok(None);
    };
    let address = next
        .trim()
        .strip_prefix('<')
        .and_then(|it| it.split_once('>'));
    let base = Url::parse("http://provider.invalid/").ok();
    let address = base
        .zip(address)
        .and_then(|(base, (address, _))| base.join(address).ok());
    let place = address.as_ref().and_then(|address| {
        let mut given = address.query_pairs();
        given.find(|(name, _)| name == "page_info")
    });
    place
        .map(|(_, value)| Some(value.into_owned()))
        .ok_or(NotNamed)
}

#[cfg(test)]
#[path = "../tests/unit/changes.rs"]
mod tests;
