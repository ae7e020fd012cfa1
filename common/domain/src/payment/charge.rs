//! A charge that was given back, in part or in full.

use serde::Deserialize;

use super::fields::{Metadata, currency, id, link, metadata, money, named, reference, required};
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
    /// Only sent before 2025-03-31.
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
        let taken = money(it.amount_captured, currency).at("data.object.amount_captured")?;
        let refunded = money(it.amount_refunded, currency);
        Ok(Charge {
            id,
            payment_intent: link(it.payment_intent).at("data.object.payment_intent")?,
            amount,
            captured: match (captured, taken) {
                (Some(false), _) => Money { minor: 0, currency },
                (_, Some(taken)) if taken.minor > 0 => taken,
                // Old versions and some stand-ins leave it out or at zero.
                _ => amount,
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

    /// Money that went back, in minor units.
    ///
    /// `amount` stays what was authorised. The provider makes a refund of what is not captured of
    /// it, and counts that in `amount_refunded`: 1000 of which 700 are captured has 300 refunded,
    /// before anybody asks for anything back. (WooCommerce's and Solidus' integrations rely on
    /// it: the first reads a partial capture off `amount_refunded`, the second copies that refund,
    /// solidus_stripe #268.) Where all of it is refunded, as much went back as was taken; less
    /// than what was never taken cannot be counted so, and is taken as it stands.
    pub fn returned(&self) -> i64 {
        let never_taken = self.amount.minor.saturating_sub(self.captured.minor).max(0);
        let refunded = self.refunded.minor;
        match () {
            () if self.captured.minor == 0 => 0,
            () if self.fully_refunded => self.captured.minor.min(refunded),
            () if refunded < never_taken => refunded,
            () => refunded - never_taken,
        }
    }
}
