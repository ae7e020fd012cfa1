//! The payment provider's API. Requests are form-encoded, answers JSON; an error is
//! `{"error": {"type": .., "code": ..}}` (the provider's API reference, Errors).

use reqwest::StatusCode;
use serde::Deserialize;
use uuid::Uuid;

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
    code: Option<String>,
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

    /// Gives back all that is left of a payment intent. `key` is the idempotency key.
    pub async fn refund(
        &self,
        payment_id: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Refunded, Failure> {
        let call = || self.refund_once(payment_id, order_id, key);
        self.provider.patiently(call).await
    }

    async fn refund_once(
        &self,
        payment_id: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Refunded, Failure> {
        let order_id = order_id.to_string();
        let request = self
            .provider
            .client
            .post(format!("{}/v1/refunds", self.provider.url))
            .bearer_auth(&self.provider.token)
            .header("Idempotency-Key", key.to_string())
            .form(&[
                ("payment_intent", payment_id),
                ("metadata[order_id]", order_id.as_str()),
            ]);
        let response = self.provider.send(request).await?;
        let status = response.status();
        if status == StatusCode::OK {
            let refund: RefundObject = self.provider.json(response).await?;
            if let Some(status @ ("failed" | "canceled")) = refund.status.as_deref() {
                return Err(self.provider.refused(format!("the refund is {status}")));
            }
            return Ok(Refunded::Issued {
                id: refund.id,
                amount: refund.amount,
            });
        }
        let body: ErrorBody = self.provider.json(response).await?;
        let code = body.error.code.unwrap_or_default();
        if code == "charge_already_refunded" {
            return Ok(Refunded::Already);
        }
        Err(self.provider.refused(told(status, &code)))
    }
}

fn told(status: StatusCode, code: &str) -> String {
    let known = code.len() <= 64
        && code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let code = if known && !code.is_empty() {
        format!(", {code}")
    } else {
        String::new()
    };
    format!("it answered {}{code}", status.as_u16())
}
