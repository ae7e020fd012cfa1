//! A refund of a charge. It can fail days after it succeeded, and the money is then the merchant's again.

use serde::{Deserialize, Serialize};

use super::fields::{currency, id, money, named, payment_id, required, seconds, text};
use crate::json::{At, Field, Reading, Unreadable, fields};
use crate::money::Money;
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// The refund's id, `re_..`.
    pub id: String,
    /// The id of the payment: the intent's, or the charge's own for a charge that was made without an intent.
    /// None for money that was never a payment, such as that of a customer's balance.
    pub payment_id: Option<String>,
    pub amount: Money,
    pub status: Option<Status>,
    /// When it was made, in Unix seconds.
    pub created: Option<i64>,
}

/// How far a refund has come. Of two statuses of one second the one listed later here stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// The bank has not answered, or the customer must do something, or the word is not known.
    Pending,
    Succeeded,
    /// The money stays with the merchant: the bank refused it, or somebody canceled it.
    Failed,
}

fields! { Fields { object, id, charge, payment_intent, amount, currency, status, created } }

impl Refund {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "refund").at("data.object.object")?;
        let id = required(id(it.id)).at("data.object.id")?;
        reading.nullable([
            (Member::ObjectStatus, it.status),
            (Member::PaymentIntent, it.payment_intent),
        ]);
        let status = text(it.status).map(|status| match status.as_str() {
            "succeeded" => Status::Succeeded,
            "failed" | "canceled" => Status::Failed,
            "pending" | "requires_action" => Status::Pending,
            _ => {
                reading.shape.unknown(Member::ObjectStatus);
                Status::Pending
            }
        });
        let currency = required(currency(it.currency)).at("data.object.currency")?;
        let payment_id = payment_id(it.payment_intent, it.charge)?;
        Ok(Refund {
            id,
            payment_id,
            amount: required(money(it.amount, currency)).at("data.object.amount")?,
            status,
            created: reading.or_none(seconds(it.created), "data.object.created"),
        })
    }
}
