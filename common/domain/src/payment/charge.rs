//! A charge that was refunded, in part or in full.

use super::fields::{Metadata, currency, id, link, metadata, money, named, reference, required};
use crate::json::{At, Field, Reading, Unreadable, fields};
use crate::money::Money;
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The charge's id, `ch_..`.
    pub id: String,
    /// None for a charge that was made without an intent.
    pub payment_intent: Option<String>,
    pub amount: Money,
    /// The amount that was captured. Zero when an authorisation was released without a capture.
    pub captured: Money,
    /// The sum of all refunds of the charge so far.
    pub refunded: Money,
    /// True when the charge was refunded completely.
    pub fully_refunded: bool,
    pub customer: Option<String>,
    /// The provider copied it from the intent when it made the charge.
    pub metadata: Metadata,
    pub transfer_group: Option<String>,
    /// Bodies have it only before 2025-03-31.
    pub invoice: Option<String>,
}

fields! { Fields {
    object, id, payment_intent, amount, amount_captured, amount_refunded, captured, refunded,
    currency, customer, metadata, transfer_group, invoice,
}}

impl Charge {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "charge").at("data.object.object")?;
        let id = required(id(it.id)).at("data.object.id")?;
        reading.nullable([
            (Member::PaymentIntent, it.payment_intent),
            (Member::Captured, it.captured),
            (Member::Refunded, it.refunded),
            (Member::Metadata, it.metadata),
        ]);
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
                // Old versions of the API and some stand-ins leave the captured amount out or set
                // it to zero.
                _ => amount,
            },
            refunded: required(refunded).at("data.object.amount_refunded")?,
            fully_refunded: it.refunded.boolean().unwrap_or_default() == Some(true),
            customer: reading.or_none(link(it.customer), "data.object.customer"),
            metadata: metadata(it.metadata),
            transfer_group: reference(it.transfer_group),
            invoice: reading.or_none(link(it.invoice), "data.object.invoice"),
        })
    }

    /// The id of the payment that the charge belongs to: the intent's id, or the charge's own id
    /// when there is no intent.
    pub fn payment_id(&self) -> &str {
        self.payment_intent.as_deref().unwrap_or(&self.id)
    }

    /// The amount of money that went back to the customer, in minor units.
    ///
    /// This is not simply `amount_refunded`. `amount` stays what was authorised, and the provider
    /// makes a refund of the part that is not captured and counts it in `amount_refunded`. For
    /// example, a charge of 1000 of which 700 are captured has 300 refunded before anybody asks
    /// for a refund. Other integrations rely on this too: WooCommerce reads a partial capture
    /// from `amount_refunded`, and Solidus copies that refund (solidus_stripe #268). When
    /// everything is refunded, the captured amount went back. When `amount_refunded` is smaller
    /// than the part that was never captured, it cannot include that part, so it is taken as it
    /// is.
    pub fn returned(&self) -> i64 {
        returned(
            (self.amount.minor, self.captured.minor),
            (self.refunded.minor, self.fully_refunded),
        )
    }
}

/// As [`Charge::returned`], of the amount and what is captured of it, and of what the provider counts as refunded and whether
/// that is everything.
pub fn returned((amount, captured): (i64, i64), (refunded, is_whole): (i64, bool)) -> i64 {
    let never_taken = amount.saturating_sub(captured).max(0);
    match () {
        () if captured == 0 => 0,
        () if is_whole => captured.min(refunded),
        () if refunded < never_taken => refunded,
        () => refunded - never_taken,
    }
}
