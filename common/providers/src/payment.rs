//! The payment provider's API. Requests are form-encoded and answers are JSON. An error is
//! `{"error": {"type": .., "code": ..}}` (the provider's API reference, Errors).
//!
//! A key is only ever used with one form, so a 400 `idempotency_error` counts as any other
//! refusal. A 409 says that the same request is still being processed, and it is tried again
//! later.
//!
//! The provider keeps its first answer to a key for at least a day, even if it is a failure. So a
//! call has numbered keys ([`IdempotencyKey`]): after a failure that the provider has kept, or
//! that is definite, the caller looks at what exists at the provider, and then asks with the next
//! key.

mod books;
mod checkout;
mod confirm;
mod events;
mod list;
mod refund;
mod subscriptions;

use std::fmt;

use reqwest::{RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use uuid::Uuid;

pub use books::Charge;
pub use checkout::{CURRENCIES, CreatedSession, Item, NewSession};
pub use confirm::Confirmed;
pub use refund::Refunded;

use super::probe::{self, ProbeError, Probed};
use super::{CallFailure, Provider, is_stored};
use crate::Api;
use platform::clock::Clock;

#[derive(Clone)]
pub struct Payment {
    provider: Provider,
    /// The connected account that is asked about. None for the key's own.
    account: Option<String>,
}

/// The idempotency key of a call: the id of its job, and from the second key on also the key's
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub job: Uuid,
    /// Counted from 1.
    pub number: i64,
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            ..=1 => write!(f, "{}", self.job),
            number => write!(f, "{}-{number}", self.job),
        }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
    decline_code: Option<String>,
    /// The name of the parameter that is wrong.
    param: Option<String>,
    /// The present state of the intent that the error is about.
    payment_intent: Option<IntentObject>,
}

#[derive(Deserialize)]
struct IntentObject {
    status: String,
}

/// An error in the provider's own form.
struct Refusal {
    status: StatusCode,
    error: ErrorObject,
    /// True when this is the stored answer to an earlier request with the same key.
    is_stored: bool,
}

impl Payment {
    pub fn new(api: &Api, clock: &Clock) -> Self {
        Payment {
            provider: Provider::new("payment", "PAYMENT_API_URL", "PAYMENT_API_KEY", api, clock),
            account: None,
        }
    }

    /// The same provider, asked about what this account has (its guide to Connect, Making API calls
    /// for connected accounts).
    #[must_use]
    pub fn of_account(&self, account: Option<String>) -> Self {
        Payment {
            provider: self.provider.clone(),
            account,
        }
    }

    /// True while the provider is left alone because it did not answer.
    pub fn is_left_alone(&self) -> bool {
        self.provider.is_left_alone()
    }

    /// Asks for a payment that cannot exist.
    pub async fn probe(&self) -> Result<Probed, ProbeError> {
        let provider = &self.provider;
        let url = format!("{}/v1/payment_intents/pi_waybill_doctor", provider.url);
        probe::ask(provider.client.get(url).bearer_auth(&provider.token)).await
    }

    /// The object at a path that an event names, as it is now; `account` is whose it is, where it
    /// is not the key's own.
    pub async fn object(
        &self,
        path: &str,
        account: Option<&str>,
    ) -> Result<Box<RawValue>, CallFailure> {
        let call = || async {
            let url = format!("{}{path}", self.provider.url);
            let request = self.provider.client.get(url);
            let request = request.bearer_auth(&self.provider.token);
            let request = match account {
                Some(account) => request.header("Stripe-Context", account),
                None => request,
            };
            let answer = self.answer(request).await?;
            answer.map_err(|refusal: Refusal| refusal.failure(&self.provider))
        };
        self.provider.patiently("object", call).await
    }

    /// Posts a form to a path below `/v1/`, once. The result is the object of a 200, or an error
    /// in the provider's own form.
    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        key: &str,
    ) -> Result<Result<T, Refusal>, CallFailure> {
        let request = self
            .provider
            .client
            .post(format!("{}/v1/{path}", self.provider.url))
            .bearer_auth(&self.provider.token)
            .header("Idempotency-Key", key)
            .form(form);
        self.answer(self.about(request)).await
    }

    /// Reads an object at a path below `/v1/`, once.
    async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Result<T, Refusal>, CallFailure> {
        let request = self
            .provider
            .client
            .get(format!("{}/v1/{path}", self.provider.url))
            .bearer_auth(&self.provider.token);
        self.answer(self.about(request)).await
    }

    fn about(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.account {
            Some(account) => request.header("Stripe-Account", account),
            None => request,
        }
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<Result<T, Refusal>, CallFailure> {
        let response = self.provider.send(request).await?;
        let status = response.status();
        let is_stored = is_stored(&response);
        if status == StatusCode::OK {
            return Ok(Ok(self.provider.json(response).await?));
        }
        let body = response.bytes().await;
        let body = body.map_err(|_| self.provider.timeout("broke off its answer"))?;
        // Every refusal of the provider has its own form, and has had no effect.
        let error = serde_json::from_slice(&body);
        let ErrorBody { error } = error.map_err(|_| self.provider.wrong_address(status))?;
        Ok(Err(Refusal {
            status,
            error,
            is_stored,
        }))
    }
}

impl Refusal {
    fn kind(&self) -> &str {
        self.error.kind.as_deref().unwrap_or_default()
    }

    fn code(&self) -> &str {
        self.error.code.as_deref().unwrap_or_default()
    }

    /// The failure that this refusal means for a caller that does not handle it.
    fn failure(&self, provider: &Provider) -> CallFailure {
        let answered = self.answered();
        let reported = || format!("the {} provider {answered}", provider.name);
        match self.code() {
            "amount_too_small" | "amount_too_large" | "parameter_invalid_integer" => {
                CallFailure::InvalidAmount(reported())
            }
            "currency_not_supported" => CallFailure::UnsupportedCurrency(reported()),
            "" if self.is_of_currency() => CallFailure::UnsupportedCurrency(reported()),
            _ => provider.refused_with(self.status, format!("it {answered}")),
        }
    }

    /// The same as [`Refusal::failure`], for a caller that can ask again with another key.
    fn renewable(&self, provider: &Provider) -> CallFailure {
        if self.is_stored {
            return provider.stored(self.status, self.answered());
        }
        self.failure(provider)
    }

    /// Whether the refusal is about the currency. The provider has no code for a currency that it
    /// does not know.
    fn is_of_currency(&self) -> bool {
        let param = self.error.param.as_deref().unwrap_or_default();
        self.kind() == "invalid_request_error"
            && (param == "currency" || param.ends_with("[currency]"))
    }

    /// The status and a short code, which are the only words of the provider that may be passed
    /// on.
    fn answered(&self) -> String {
        let status = self.status.as_u16();
        let code = short(self.error.code.as_deref()).or(short(self.error.kind.as_deref()));
        match code {
            Some(code) => format!("answered {status}, {code}"),
            None => format!("answered {status}"),
        }
    }
}

/// A code of the provider, if it looks like a code. A text about a person does not.
fn short(code: Option<&str>) -> Option<&str> {
    code.filter(|code| {
        (1..=64).contains(&code.len())
            && code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    })
}

#[cfg(test)]
#[path = "../tests/unit/payment.rs"]
mod tests;
