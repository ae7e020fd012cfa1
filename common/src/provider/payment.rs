//! The payment provider's API. Requests are form-encoded, answers JSON; an error is
//! `{"error": {"type": .., "code": ..}}` (the provider's API reference, Errors).
//!
//! A key is seen with one form only, so a 400 `idempotency_error` is a refusal as any other;
//! a 409 says that the same request is still at work, and comes again later.

mod checkout;
mod confirm;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use checkout::{CURRENCIES, CreatedSession, Item, NewSession};
pub use confirm::Confirmed;

use super::probe::{self, Probed, Silence};
use super::{Failure, Provider};
use crate::config::Api;

#[derive(Clone)]
pub struct Payment {
    provider: Provider,
}

/// What a refund came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refunded {
    Issued {
        /// The provider's id, `re_..`.
        id: String,
        /// Minor units.
        amount: i64,
    },
    /// Nothing was left to give back (COMMERCE_005).
    Already,
}

#[derive(Deserialize)]
struct RefundObject {
    id: String,
    amount: i64,
    status: Option<String>,
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
    /// The intent that it is about, as it is.
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
}

impl Payment {
    pub fn new(api: &Api) -> Self {
        Payment {
            provider: Provider::new("payment", "PAYMENT_API_KEY", api),
        }
    }

    /// True while the provider is left alone because it did not answer.
    pub fn is_left_alone(&self) -> bool {
        self.provider.is_left_alone()
    }

    /// Asks for a payment that cannot be.
    pub async fn probe(&self) -> Result<Probed, Silence> {
        let provider = &self.provider;
        let url = format!("{}/v1/payment_intents/pi_waybill_doctor", provider.url);
        probe::ask(provider.client.get(url).bearer_auth(&provider.token)).await
    }

    /// Gives back all that is left of a payment intent. `key` is the idempotency key.
    pub async fn refund(
        &self,
        payment_id: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Refunded, Failure> {
        let call = || self.refund_once(payment_id, order_id, key);
        self.provider.patiently("refund", call).await
    }

    async fn refund_once(
        &self,
        payment_id: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Refunded, Failure> {
        let order_id = order_id.to_string();
        let form = [
            ("payment_intent", payment_id),
            ("metadata[order_id]", order_id.as_str()),
        ];
        let refund: RefundObject = match self.ask("refunds", &form, &key.to_string()).await? {
            Ok(refund) => refund,
            Err(refusal) if refusal.code() == "charge_already_refunded" => {
                return Ok(Refunded::Already);
            }
            Err(refusal) => return Err(refusal.failure(&self.provider)),
        };
        if let Some(status @ ("failed" | "canceled")) = refund.status.as_deref() {
            return Err(self.provider.refused(format!("the refund is {status}")));
        }
        Ok(Refunded::Issued {
            id: refund.id,
            amount: refund.amount,
        })
    }

    /// Posts a form to a path below `/v1/`, once. What comes of it is the object of a 200 or
    /// an error in the provider's own form.
    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        key: &str,
    ) -> Result<Result<T, Refusal>, Failure> {
        let request = self
            .provider
            .client
            .post(format!("{}/v1/{path}", self.provider.url))
            .bearer_auth(&self.provider.token)
            .header("Idempotency-Key", key)
            .form(form);
        let response = self.provider.send(request).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(Ok(self.provider.json(response).await?));
        }
        let ErrorBody { error } = self.provider.json(response).await?;
        Ok(Err(Refusal { status, error }))
    }
}

impl Refusal {
    fn kind(&self) -> &str {
        self.error.kind.as_deref().unwrap_or_default()
    }

    fn code(&self) -> &str {
        self.error.code.as_deref().unwrap_or_default()
    }

    /// What it is to a caller that has no use for it.
    fn failure(&self, provider: &Provider) -> Failure {
        let answered = self.answered();
        let told = || format!("the {} provider {answered}", provider.name);
        match self.code() {
            "amount_too_small" | "amount_too_large" | "parameter_invalid_integer" => {
                Failure::InvalidAmount(told())
            }
            "currency_not_supported" => Failure::UnsupportedCurrency(told()),
            "" if self.is_of_currency() => Failure::UnsupportedCurrency(told()),
            _ => provider.refused(format!("it {answered}")),
        }
    }

    /// The provider has no code for a currency that it does not know.
    fn is_of_currency(&self) -> bool {
        let param = self.error.param.as_deref().unwrap_or_default();
        self.kind() == "invalid_request_error"
            && (param == "currency" || param.ends_with("[currency]"))
    }

    /// The status and a short code: the only words of the provider that may be passed on.
    fn answered(&self) -> String {
        let status = self.status.as_u16();
        let code = short(self.error.code.as_deref()).or(short(self.error.kind.as_deref()));
        match code {
            Some(code) => format!("answered {status}, {code}"),
            None => format!("answered {status}"),
        }
    }
}

/// A code of the provider, if it looks like one: a text about a person does not.
fn short(code: Option<&str>) -> Option<&str> {
    code.filter(|code| {
        (1..=64).contains(&code.len())
            && code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use serde_json::{Value, json};

    use super::{ErrorBody, Payment, Refusal};
    use crate::config::{Api, Token};
    use crate::provider::Failure;

    fn failure(status: u16, error: &Value) -> Failure {
        let body = json!({ "error": error }).to_string();
        let body: ErrorBody = serde_json::from_str(&body).unwrap();
        let refusal = Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            error: body.error,
        };
        let api = Api {
            url: "http://127.0.0.1:1".to_owned(),
            token: Token::new("key"),
        };
        refusal.failure(&Payment::new(&api).provider)
    }

    #[test]
    fn errors_have_the_codes_of_the_application() {
        let invalid = "invalid_request_error";
        let param = "line_items[0][price_data][currency]";
        for (error, code) in [
            (
                json!({"type": invalid, "code": "amount_too_small"}),
                Some("COMMERCE_001"),
            ),
            (
                json!({"type": invalid, "code": "amount_too_large"}),
                Some("COMMERCE_001"),
            ),
            (
                json!({"type": invalid, "code": "parameter_invalid_integer", "param": "amount"}),
                Some("COMMERCE_001"),
            ),
            (
                json!({"type": invalid, "code": "currency_not_supported"}),
                Some("COMMERCE_002"),
            ),
            (
                json!({"type": invalid, "param": "currency"}),
                Some("COMMERCE_002"),
            ),
            (
                json!({"type": invalid, "param": param}),
                Some("COMMERCE_002"),
            ),
            (
                json!({"type": invalid, "code": "parameter_missing", "param": "currency"}),
                None,
            ),
            (json!({"type": "api_error", "param": "currency"}), None),
            (json!({"type": "idempotency_error"}), None),
            (json!({}), None),
        ] {
            let failure = failure(400, &error);
            assert_eq!(failure.code(), code, "{error}");
            assert!(failure.is_final(), "{error}");
            let text = failure.to_string();
            assert!(text.contains("answered 400"), "{text}");
            assert!(code.is_none_or(|code| text.starts_with(code)), "{text}");
        }
    }

    #[test]
    fn nothing_but_short_codes_of_the_provider_is_passed_on() {
        let told = |error| failure(400, &error).to_string();
        assert_eq!(
            told(json!({"type": "invalid_request_error", "code": "resource_missing"})),
            "the payment provider refused: it answered 400, resource_missing"
        );
        assert_eq!(
            told(json!({"type": "idempotency_error", "message": "ada@example.com"})),
            "the payment provider refused: it answered 400, idempotency_error"
        );
        let long = "a".repeat(65);
        for person in ["Ada Lovelace", "ada@example.com", long.as_str(), ""] {
            let text = told(json!({"type": person, "code": person, "message": person}));
            assert_eq!(text, "the payment provider refused: it answered 400");
        }
    }
}
