//! A dispute: the customer's bank takes the money of a charge back, and decides later whose it is.

use serde::{Deserialize, Serialize};

use super::fields::{code, currency, id, money, named, payment_id, required, text};
use crate::json::{At, Field, Reading, Unreadable, fields};
use crate::money::Money;
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    /// The dispute's id, `dp_..`.
    pub id: String,
    /// The id of the payment: the intent's, or the charge's own for a charge that was made without an intent.
    /// None for money that was never a payment, such as that of a customer's balance.
    pub payment_id: Option<String>,
    pub amount: Money,
    pub status: Option<Status>,
    /// A code of the provider, such as `fraudulent`.
    pub reason: Option<String>,
}

/// Who has the money. When two events of one second say different things, the one that is listed later here counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The bank only asks. No money has moved, or the word is not known.
    Inquiry,
    /// The bank has taken it, and has not decided.
    Open,
    Lost,
    Won,
}

/// The statuses of a bank that only asks, and of a dispute that was settled before the bank took the money
/// (docs.stripe.com/api/disputes/object).
const NO_MONEY_MOVED: [&str; 5] = [
    // Versions of the API before 2019 have this one.
    "charge_refunded",
    "warning_needs_response",
    "warning_under_review",
    "warning_closed",
    "prevented",
];

fields! { Fields { object, id, charge, payment_intent, amount, currency, status, reason } }

impl Dispute {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "dispute").at("data.object.object")?;
        let id = required(id(it.id)).at("data.object.id")?;
        reading.values([(Member::ObjectStatus, it.status)]);
        reading.nullable([(Member::PaymentIntent, it.payment_intent)]);
        let status = text(it.status).map(|status| match status.as_str() {
            "needs_response" | "under_review" => Status::Open,
            "lost" => Status::Lost,
            "won" => Status::Won,
            word => {
                if !NO_MONEY_MOVED.contains(&word) {
                    reading.shape.unknown(Member::ObjectStatus);
                }
                Status::Inquiry
            }
        });
        let currency = required(currency(it.currency)).at("data.object.currency")?;
        let payment_id = payment_id(it.payment_intent, it.charge)?;
        Ok(Dispute {
            id,
            payment_id,
            amount: required(money(it.amount, currency)).at("data.object.amount")?,
            status,
            reason: code(it.reason),
        })
    }
}
