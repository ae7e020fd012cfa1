//! The fault injector: every request to a provider's API passes it first. It counts the request,
//! and plays a fault if one was set. All clones share their counts and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::future;
use std::sync::{Arc, Mutex};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::{Answer, Fault, Faults, Play};
use crate::{identity, lock, payment, storefront};

pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
const TRACEPARENT: &str = "traceparent";

/// How many bytes of a request's body are read at most.
pub const LARGEST_BODY: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    Storefront,
    Payment,
    Identity,
}

impl Provider {
    /// An error in the provider's own form.
    fn error(self, status: StatusCode, message: &str) -> Response {
        match self {
            Provider::Storefront => storefront::error(status, message),
            Provider::Payment => payment::error(status, "api_error", message),
            Provider::Identity => identity::error(status, message),
        }
    }
}

#[derive(Clone)]
pub struct FaultInjector {
    provider: Provider,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    requests: u64,
    by_key: BTreeMap<String, u32>,
    traceparents: BTreeSet<String>,
    answers: BTreeMap<u16, u64>,
    faults: Faults,
}

/// Marks an answer that must not be sent; the server closes the connection instead.
#[derive(Clone)]
pub struct HangUp;

impl FaultInjector {
    pub(crate) fn new(provider: Provider) -> Self {
        FaultInjector {
            provider,
            book: Arc::default(),
        }
    }

    /// Plays this fault to every request from now on, until the faults are cleared.
    pub fn fail(&self, fault: Fault) {
        lock(&self.book).faults.stand(fault);
    }

    /// Plays this fault to the next requests, after the faults that were set before.
    pub fn fail_next(&self, times: u32, fault: Fault) {
        lock(&self.book).faults.count(times, Play::Fault(fault));
    }

    /// Gives this answer to the next requests, after the faults that were set before.
    pub fn answer_next(&self, times: u32, answer: Answer) {
        lock(&self.book).faults.count(times, Play::Answer(answer));
    }

    pub fn clear_faults(&self) {
        lock(&self.book).faults.clear();
    }

    /// How many requests came, whether or not they succeeded.
    pub fn requests(&self) -> u64 {
        lock(&self.book).requests
    }

    /// How many requests came with each `Idempotency-Key`. Requests without one are not counted
    /// here.
    pub fn requests_by_key(&self) -> BTreeMap<String, u32> {
        lock(&self.book).by_key.clone()
    }

    /// The `traceparent` headers that came.
    pub fn traceparents(&self) -> BTreeSet<String> {
        lock(&self.book).traceparents.clone()
    }

    /// How many answers were given with each status.
    pub fn answers(&self) -> BTreeMap<u16, u64> {
        lock(&self.book).answers.clone()
    }

    pub(crate) fn view(&self) -> Value {
        let book = lock(&self.book);
        json!({
            "requests": book.requests,
            "requests_by_key": book.by_key,
            "answers": book.answers,
            "faults": book.faults.describe(),
        })
    }

    fn enter(&self, request: &Request) -> Option<Play> {
        let mut book = lock(&self.book);
        book.requests += 1;
        book.traceparents
            .extend(text(request.headers(), TRACEPARENT).map(ToOwned::to_owned));
        if let Some(key) = key(request) {
            *book.by_key.entry(key.to_owned()).or_default() += 1;
        }
        book.faults.take()
    }

    fn answered(&self, status: StatusCode) {
        let mut book = lock(&self.book);
        *book.answers.entry(status.as_u16()).or_default() += 1;
    }
}

pub async fn pass(
    State(fault_injector): State<FaultInjector>,
    request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let play = fault_injector.enter(&request);
    let provider = fault_injector.provider;
    if let Some(play) = &play {
        tracing::debug!(?provider, %method, path, %play, "goes wrong, as it was set to");
    }
    let answer = match play {
        None => next.run(request).await,
        Some(Play::Fault(Fault::Slow(by))) => {
            let answer = next.run(request).await;
            tokio::time::sleep(by).await;
            answer
        }
        Some(Play::Fault(Fault::Lose)) => {
            let mut answer = next.run(request).await;
            answer.extensions_mut().insert(HangUp);
            return answer;
        }
        Some(play) => {
            let _ = to_bytes(request.into_body(), LARGEST_BODY).await;
            match play {
                Play::Fault(fault) => refuse(provider, fault).await,
                Play::Answer(answer) => answer.into_response(),
            }
        }
    };
    fault_injector.answered(answer.status());
    let status = answer.status().as_u16();
    tracing::debug!(?provider, %method, path, status, "answered");
    answer
}

/// The idempotency key of a request, if it has one.
pub fn key(request: &Request) -> Option<&str> {
    text(request.headers(), IDEMPOTENCY_KEY)
}

/// The value of a header, if the request has the header.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value).filter(|value| !value.is_empty())
}

async fn refuse(provider: Provider, fault: Fault) -> Response {
    match fault {
        Fault::Status(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            provider.error(status, "The sandbox was asked to fail.")
        }
        Fault::RateLimit => {
            let message = "Exceeded the limit of calls.";
            let answer = provider.error(StatusCode::TOO_MANY_REQUESTS, message);
            ([(header::RETRY_AFTER, "1")], answer).into_response()
        }
        Fault::Html => {
            let page = "<html><body><h1>502 Bad Gateway</h1></body></html>\n";
            (StatusCode::BAD_GATEWAY, Html(page)).into_response()
        }
        Fault::Timeout | Fault::Slow(_) | Fault::Lose => future::pending().await,
    }
}
