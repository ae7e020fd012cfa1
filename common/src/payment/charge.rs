//! A charge that was given back, in part or in full.

use serde::Deserialize;

use super::fields::{
    Metadata, currency, id, link, metadata, minor, money, named, reference, required,
};
use crate::json::{At, Field, Unreadable};
use crate::money::Money;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// `ch_..`
    pub id: String,
    /// None for a charge made without an intent.
    pub payment_intent: Option<String>,
    pub amount: Money,
    /// What was taken of it: nothing of an authorisation that was let go.
    pub captured: Money,
    /// All that was refunded so far, be it over many refunds.
    pub refunded: Money,
    /// Nothing is left of it.
    pub fully_refunded: bool,
    pub customer: Option<String>,
    /// A copy of the intent's, made with the charge.
    pub metadata: Metadata,
    pub transfer_group: Option<String>,
    /// Told before 2025-03-31 alone.
    pub invoice: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Fields<'a> {
    object: Field<'a>,
    id: Field<'a>,
    payment_intent: Field<'a>,
    amount: Field<'a>,
    amount_captured: Field<'a>,
    amount_refunded: Field<'a>,
    captured: Field<'a>,
    refunded: Field<'a>,
    currency: Field<'a>,
    customer: Field<'a>,
    metadata: Field<'a>,
    transfer_group: Field<'a>,
    invoice: Field<'a>,
}

impl Charge {
    pub(super) fn of(object: Field) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "charge").at("data.object.object")?;
        let id = required(id(it.id)).at("data.object.id")?;
        let currency = required(currency(it.currency)).at("data.object.currency")?;
        let amount = required(money(it.amount, currency)).at("data.object.amount")?;
        let captured = it.captured.boolean().at("data.object.captured")?;
        let taken = minor(it.amount_captured).at("data.object.amount_captured")?;
        let refunded = money(it.amount_refunded, currency);
        Ok(Charge {
            id,
            payment_intent: link(it.payment_intent).at("data.object.payment_intent")?,
            amount,
            captured: Money {
                minor: match (captured, taken) {
                    (Some(false), _) => 0,
                    // Old versions and some stand-ins leave it out or at zero.
                    (_, None | Some(0)) => amount.minor,
                    (_, Some(taken)) => taken,
                },
                currency,
            },
            refunded: required(refunded).at("data.object.amount_refunded")?,
            fully_refunded: it.refunded.boolean().unwrap_or_default() == Some(true),
            customer: link(it.customer).at("data.object.customer")?,
            metadata: metadata(it.metadata),
            transfer_group: reference(it.transfer_group),
            invoice: link(it.invoice).at("data.object.invoice")?,
        })
    }

    /// The payment that it belongs to: the intent's id, or its own.
    pub fn payment_id(&self) -> &str {
        self.payment_intent.as_deref().unwrap_or(&self.id)
    }

    /// Money that went back, in minor units. The provider counts what it never captured as
    /// refunded too.
    pub fn returned(&self) -> i64 {
        let never_taken = self.amount.minor.saturating_sub(self.captured.minor).max(0);
        self.refunded.minor.saturating_sub(never_taken).max(0)
    }
}
