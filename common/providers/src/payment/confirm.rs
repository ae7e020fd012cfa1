//! Confirms a payment intent, which tries its payment again without the buyer.

use domain::connection::bare;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{IdempotencyKey, IntentObject, Payment, Refusal, short};
use crate::CallFailure;

/// Encodes an id so that it stays one segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');

/// The result of a confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    Succeeded,
    /// The result comes later, or somebody must act: `processing`, `requires_action` and the
    /// like.
    Pending,
    /// The reasons in the provider's short codes. The second one is the bank's.
    Declined {
        code: Option<String>,
        decline_code: Option<String>,
    },
    /// The intent had been paid or canceled before (COMMERCE_005).
    Already,
}

impl Payment {
    /// Tries the payment of an intent with this payment method, or with the one that the intent
    /// has. An intent whose payment was declined has none any more. `key` is the idempotency key.
    pub async fn confirm(
        &self,
        payment_id: &str,
        payment_method: Option<&str>,
        key: IdempotencyKey,
    ) -> Result<Confirmed, CallFailure> {
        let path = format!("{}/confirm", self.path_of(payment_id)?);
        let mut form = vec![("off_session", "true")];
        form.extend(payment_method.map(|id| ("payment_method", id)));
        let key = key.to_string();
        let call = || async {
            match self.ask::<IntentObject>(&path, &form, &key).await? {
                Ok(intent) => Ok(known(&intent.status)),
                Err(refusal) => self.not_confirmed(&refusal),
            }
        };
        self.provider.patiently("confirm", call).await
    }

    /// What has happened to an intent since a confirmation was requested. `None` when it can be
    /// tried.
    pub async fn find_confirmed(&self, payment_id: &str) -> Result<Option<Confirmed>, CallFailure> {
        let path = self.path_of(payment_id)?;
        let call = || async {
            match self.read::<IntentObject>(&path).await? {
                Ok(intent) => Ok(Some(intent)),
                // The intent is confirmed nevertheless, and the provider's refusal then says why
                // it cannot be.
                Err(refusal) if refusal.code() == "resource_missing" => Ok(None),
                Err(refusal) => Err(refusal.failure(&self.provider)),
            }
        };
        let intent = self.provider.patiently("confirm", call).await?;
        Ok(match intent.as_ref().map(|it| it.status.as_str()) {
            None | Some("requires_payment_method" | "requires_confirmation") => None,
            Some("succeeded") => Some(Confirmed::Already),
            Some(status) => Some(known(status)),
        })
    }

    fn path_of(&self, payment_id: &str) -> Result<String, CallFailure> {
        let payment_id = bare(payment_id);
        // A segment of a path cannot consist of dots alone, however they are encoded.
        if payment_id.bytes().all(|byte| byte == b'.') {
            let what = "a payment without a proper id is not asked for";
            return Err(self.provider.refused(what.to_owned()));
        }
        let id = utf8_percent_encode(payment_id, SEGMENT);
        Ok(format!("payment_intents/{id}"))
    }

    fn not_confirmed(&self, refusal: &Refusal) -> Result<Confirmed, CallFailure> {
        let error = &refusal.error;
        if refusal.kind() == "card_error" {
            return Ok(Confirmed::Declined {
                code: short(error.code.as_deref()).map(str::to_owned),
                decline_code: short(error.decline_code.as_deref()).map(str::to_owned),
            });
        }
        let intent = error.payment_intent.as_ref();
        match intent.map_or("", |intent| intent.status.as_str()) {
            status @ ("succeeded" | "canceled" | "processing" | "requires_capture")
                if refusal.code() == "payment_intent_unexpected_state" =>
            {
                Ok(match known(status) {
                    Confirmed::Succeeded => Confirmed::Already,
                    other => other,
                })
            }
            _ => Err(refusal.renewable(&self.provider)),
        }
    }
}

/// What the status of an intent says about its payment.
fn known(status: &str) -> Confirmed {
    match status {
        "succeeded" => Confirmed::Succeeded,
        "canceled" => Confirmed::Already,
        "requires_payment_method" => Confirmed::Declined {
            code: None,
            decline_code: None,
        },
        _ => Confirmed::Pending,
    }
}
