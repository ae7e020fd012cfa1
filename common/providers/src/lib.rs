//! Clients of the providers' own APIs. A call is made outside any transaction, with an
//! idempotency key that stays the same however often the call is tried.
//!
//! The texts of errors name only statuses and codes, because what a provider writes in a body may
//! be about a person.

mod breaker;
pub mod changes;
pub mod endpoints;
pub mod exports;
pub mod identity;
pub mod payment;
mod probe;
pub mod storefront;
pub mod subscriptions;
pub mod wire;

use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use tokio::time::Instant;

pub use breaker::{Breaker, PAUSE};
pub use probe::{ProbeError, Probed};

use domain::code::Code;
use domain::origins::is_this_machine;
use platform::clock::Clock;
use platform::token::Token;
use platform::trace;
use telemetry::{Kind, Span};

/// The address of a provider's API, and our credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// The address, without a slash at its end.
    pub url: String,
    pub token: Token,
    /// The connection that it belongs to. `None`: the settings have it.
    pub connection: Option<String>,
}

impl Api {
    /// Where an operator corrects what this setting says.
    fn named(&self, setting: &str) -> String {
        match &self.connection {
            None => setting.to_owned(),
            Some(name) => {
                format!("the API of the connection {name} (waybill connections rotate {name})")
            }
        }
    }
}

const TRACEPARENT: &str = "traceparent";

const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// The time for one try with all its requests. A try without an answer by then has timed out
/// (COMMERCE_003).
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
/// An answer that has more bytes is not read to its end.
const LARGEST: usize = 64 << 20;
/// The pauses between the tries of one run (COMMERCE_003).
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// There was no answer, or one that says "later". The call may have had its effect.
    #[error("{code}: the {provider} provider {what}", code = Code::ProviderTimeout)]
    Timeout {
        provider: &'static str,
        /// The status of the answer that says "later", if there was one.
        status: Option<u16>,
        /// How much later, if the answer says that.
        retry_after: Option<Duration>,
        what: String,
    },
    /// The provider did not answer other calls just now, and is left alone for a moment.
    #[error(
        "{code}: the {0} provider does not answer; it is left alone for a moment",
        code = Code::ProviderTimeout
    )]
    Paused(&'static str),
    /// The provider does not accept our credential. Nothing is wrong with the call.
    #[error("the {provider} provider answered {status}; check {setting}")]
    Misconfigured {
        provider: &'static str,
        status: u16,
        setting: String,
    },
    /// Something answered that does not speak as the provider's API does, so the address is wrong.
    /// Asking again does not help until an operator has corrected it.
    #[error("what answers {status} at {setting} is not the {provider} provider's API; correct it")]
    WrongAddress {
        provider: &'static str,
        status: u16,
        setting: String,
    },
    /// The provider has kept its first answer to this idempotency key, and gives it again however
    /// often it is asked. With another key the call is made anew, which is safe once it is known
    /// that the first call had no effect.
    #[error("the {provider} provider gives its first answer again: it {what}")]
    Stored {
        provider: &'static str,
        status: u16,
        what: String,
    },
    /// The provider is not ready for the call, and may not be for days.
    #[error("the {provider} provider {what}")]
    Waiting {
        provider: &'static str,
        what: &'static str,
    },
    /// Asking again does not help.
    #[error("the {provider} provider refused: {what}")]
    Refused {
        provider: &'static str,
        /// The status of the answer, if it is the status that refuses.
        status: Option<u16>,
        what: String,
    },
    /// Asking again does not help.
    #[error("{code}: invalid payment amount: {0}", code = Code::Amount)]
    InvalidAmount(String),
    /// Asking again does not help.
    #[error("{code}: currency not supported: {0}", code = Code::Currency)]
    UnsupportedCurrency(String),
}

impl CallFailure {
    /// The application code of `domain::code`, if there is one for this failure.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            CallFailure::InvalidAmount(_) => Some(Code::Amount.id()),
            CallFailure::UnsupportedCurrency(_) => Some(Code::Currency.id()),
            CallFailure::Timeout { .. } | CallFailure::Paused(_) | CallFailure::Stored { .. } => {
                Some(Code::ProviderTimeout.id())
            }
            CallFailure::Misconfigured { .. }
            | CallFailure::WrongAddress { .. }
            | CallFailure::Waiting { .. }
            | CallFailure::Refused { .. } => None,
        }
    }

    /// The HTTP status of the provider's answer, if there was an answer and its status says why
    /// the call failed.
    pub fn status(&self) -> Option<u16> {
        match self {
            CallFailure::Timeout { status, .. } | CallFailure::Refused { status, .. } => *status,
            CallFailure::Misconfigured { status, .. }
            | CallFailure::WrongAddress { status, .. }
            | CallFailure::Stored { status, .. } => Some(*status),
            CallFailure::Paused(_)
            | CallFailure::Waiting { .. }
            | CallFailure::InvalidAmount(_)
            | CallFailure::UnsupportedCurrency(_) => None,
        }
    }

    /// A short name for the label of the metric.
    fn outcome(&self) -> &'static str {
        match self {
            CallFailure::Timeout { .. } => "timeout",
            CallFailure::Paused(_) => "paused",
            CallFailure::Misconfigured { .. } | CallFailure::WrongAddress { .. } => "misconfigured",
            CallFailure::Stored { .. } => "stored",
            CallFailure::Waiting { .. } => "waiting",
            CallFailure::Refused { .. }
            | CallFailure::InvalidAmount(_)
            | CallFailure::UnsupportedCurrency(_) => "refused",
        }
    }

    /// True when asking again does not help.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            CallFailure::Refused { .. }
                | CallFailure::InvalidAmount(_)
                | CallFailure::UnsupportedCurrency(_)
        )
    }
}

/// The client of one provider's API, with its breaker.
#[derive(Clone)]
struct Provider {
    name: &'static str,
    /// The setting that has the credential.
    setting: String,
    /// The setting that has the address.
    address_setting: String,
    client: Client,
    url: String,
    token: String,
    clock: Clock,
    breaker: Breaker,
}

impl Provider {
    fn new(
        name: &'static str,
        address_setting: &'static str,
        setting: &'static str,
        api: &Api,
        clock: &Clock,
    ) -> Self {
        Provider {
            name,
            setting: api.named(setting),
            address_setting: api.named(address_setting),
            client: client(&api.url),
            url: api.url.clone(),
            token: api.token.expose().to_owned(),
            clock: clock.clone(),
            breaker: Breaker::new(name, clock),
        }
    }

    /// Tries a call up to four times, as long as it times out. While the breaker is open, one
    /// caller at a time finds out whether the provider answers again.
    async fn patiently<T, C: Future<Output = Result<T, CallFailure>>>(
        &self,
        operation: &'static str,
        call: impl Fn() -> C,
    ) -> Result<T, CallFailure> {
        if !self.breaker.admits() {
            return Err(CallFailure::Paused(self.name));
        }
        let mut pauses = PAUSES.into_iter();
        loop {
            let begun = Instant::now();
            let answer = tokio::time::timeout(ANSWER_DEADLINE, call()).await;
            let result = answer.unwrap_or_else(|_| Err(self.timeout("did not answer in time")));
            let outcome = result.as_ref().err().map_or("ok", CallFailure::outcome);
            count(self.name, operation, outcome, begun.elapsed());
            match result {
                Err(CallFailure::Timeout { .. }) => {}
                // Every other call would be refused too, because they all use this credential.
                Err(CallFailure::Misconfigured { .. }) => {
                    self.breaker.open();
                    return result;
                }
                _ => {
                    self.breaker.close();
                    return result;
                }
            }
            let Some(pause) = pauses.next() else {
                self.breaker.open();
                return result;
            };
            self.clock.sleep(pause).await;
        }
    }

    /// Sends one request. Statuses that say "later" count as timeouts; any other status is left
    /// to the caller.
    async fn send(&self, request: RequestBuilder) -> Result<Response, CallFailure> {
        let response = sent(self.name, request).await.map_err(|error| {
            self.timeout(if error.is_connect() {
                "cannot be reached"
            } else if error.is_timeout() {
                "did not answer in time"
            } else {
                "broke off its answer"
            })
        })?;
        let status = response.status();
        let later = status.is_server_error()
            || [
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::CONFLICT,
                StatusCode::TOO_EARLY,
                StatusCode::TOO_MANY_REQUESTS,
            ]
            .contains(&status);
        if later && is_stored(&response) {
            let what = format!("answered {}", status.as_u16());
            return Err(self.stored(status, what));
        }
        if later {
            return Err(self.put_off(status, retry_after(&response), ""));
        }
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) {
            return Err(CallFailure::Misconfigured {
                provider: self.name,
                status: status.as_u16(),
                setting: self.setting.clone(),
            });
        }
        if status.is_redirection() {
            return Err(self.wrong_address(status));
        }
        Ok(response)
    }

    fn is_left_alone(&self) -> bool {
        self.breaker.is_open()
    }

    /// The JSON of an answer. An answer that breaks off or is not JSON does not say whether the
    /// call had its effect, so it counts as a timeout.
    async fn json<T: serde::de::DeserializeOwned>(
        &self,
        mut response: Response,
    ) -> Result<T, CallFailure> {
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|_| self.timeout("broke off its answer"))?
        {
            if body.len() + chunk.len() > LARGEST {
                let what = format!("its answer is larger than {} MiB", LARGEST >> 20);
                return Err(self.refused(what));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body)
            .map_err(|_| self.put_off(status, None, " with a body that is not its own"))
    }

    fn wrong_address(&self, status: StatusCode) -> CallFailure {
        CallFailure::WrongAddress {
            provider: self.name,
            status: status.as_u16(),
            setting: self.address_setting.clone(),
        }
    }

    fn stored(&self, status: StatusCode, what: String) -> CallFailure {
        CallFailure::Stored {
            provider: self.name,
            status: status.as_u16(),
            what,
        }
    }

    fn waiting(&self, what: &'static str) -> CallFailure {
        CallFailure::Waiting {
            provider: self.name,
            what,
        }
    }

    fn timeout(&self, what: &str) -> CallFailure {
        CallFailure::Timeout {
            provider: self.name,
            status: None,
            retry_after: None,
            what: what.to_owned(),
        }
    }

    /// The failure of a call that got an answer which does not say whether it had its effect.
    fn put_off(
        &self,
        status: StatusCode,
        retry_after: Option<Duration>,
        more: &str,
    ) -> CallFailure {
        let status = status.as_u16();
        CallFailure::Timeout {
            provider: self.name,
            status: Some(status),
            retry_after,
            what: format!("answered {status}{more}"),
        }
    }

    fn refused(&self, what: String) -> CallFailure {
        CallFailure::Refused {
            provider: self.name,
            status: None,
            what,
        }
    }

    /// The failure of a call that the status of the answer refuses.
    fn refused_with(&self, status: StatusCode, what: String) -> CallFailure {
        CallFailure::Refused {
            provider: self.name,
            status: Some(status.as_u16()),
            what,
        }
    }
}

/// How long the provider asks to be left alone, in seconds as both providers say it.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: f64 = seconds.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether this is a stored answer. The payment provider keeps the first answer to an idempotency
/// key for at least a day, even a failure, and marks its repetitions with this header (its API
/// reference, Idempotent requests).
fn is_stored(response: &Response) -> bool {
    let replayed = response.headers().get("Idempotent-Replayed");
    replayed.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// Sends a request with the trace that it is a part of, if there is one. If that trace is recorded,
/// the request has a span of its own, as OpenTelemetry's conventions for HTTP clients name it. The
/// address is left out of it, because a part of it may be a token.
async fn sent(provider: &'static str, request: RequestBuilder) -> reqwest::Result<Response> {
    let Some(context) = trace::current() else {
        return wire::send(request).await;
    };
    if !context.is_sampled() || !telemetry::is_on() {
        let request = request.header(TRACEPARENT, context.to_string());
        return wire::send(request).await;
    }
    let (client, request) = request.build_split();
    let mut request = request?;
    let method = request.method().as_str().to_owned();
    let Some(mut span) = Span::below(context, Kind::Client, || method.clone()) else {
        return client.execute(request).await;
    };
    if let Ok(context) = span.context().to_string().try_into() {
        request.headers_mut().insert(TRACEPARENT, context);
    }
    span.text("http.request.method", method);
    span.text("waybill.provider", provider);
    span.text(
        "server.address",
        request.url().host_str().unwrap_or_default(),
    );
    if let Some(port) = request.url().port_or_known_default() {
        span.number("server.port", i64::from(port));
    }
    // If nobody waits for the answer any more, this is how the request has ended.
    span.abandoned_as("timeout");
    let answered = client.execute(request).await;
    span.not_abandoned();
    match &answered {
        Ok(answer) => {
            let status = answer.status();
            span.number("http.response.status_code", i64::from(status.as_u16()));
            if status.is_client_error() || status.is_server_error() {
                span.fail(status.as_str());
            }
        }
        Err(error) if error.is_timeout() => span.fail("timeout"),
        Err(error) if error.is_connect() => span.fail("connection"),
        Err(_) => span.fail("broken_off"),
    }
    answered
}

/// Records one try of a call.
fn count(provider: &'static str, operation: &'static str, outcome: &'static str, took: Duration) {
    metrics::histogram!(
        "waybill_provider_call_seconds",
        "provider" => provider, "operation" => operation, "outcome" => outcome
    )
    .record(took);
}

/// The HTTP client for a provider.
fn client(url: &str) -> Client {
    let mut client = Client::builder()
        .connect_timeout(CONNECT_DEADLINE)
        .timeout(ANSWER_DEADLINE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("waybill/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        // A proxy from the environment would search for this address on its own host.
        client = client.no_proxy();
    }
    wire::client(client)
}

/// True for an address on this machine, which no proxy can reach.
pub fn is_loopback(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else {
        return false;
    };
    url.host_str().is_some_and(is_this_machine)
}
