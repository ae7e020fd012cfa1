//! A checkout session: what somebody bought on the provider's page.

use super::fields::{
    Metadata, currency, email, id, link, metadata, money, named, reference, required, text,
};
use super::{Email, Mode, PaymentStatus};
use crate::json::{At, Field, Problem, Reading, Unreadable, fields};
use crate::money::{Currency, Money};
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The session's id, `cs_..`.
    pub id: String,
    pub mode: Option<Mode>,
    /// A completed session is not always paid for.
    pub payment_status: Option<PaymentStatus>,
    pub payment_intent: Option<String>,
    pub subscription: Option<String>,
    pub invoice: Option<String>,
    /// None for a session that sells nothing.
    pub total: Option<Money>,
    pub currency: Option<Currency>,
    /// The price before discounts, tax and shipping, in minor units.
    pub subtotal: Option<i64>,
    /// The discount that the checkout page took off, in minor units.
    pub discount: Option<i64>,
    /// Tax and shipping that the page added, in minor units.
    pub added: Option<i64>,
    pub customer: Option<String>,
    pub client_reference_id: Option<String>,
    /// The metadata of the session itself. The intent has its own.
    pub metadata: Metadata,
    pub email: Option<Email>,
}

fields! { Fields {
    object, id, mode, payment_status, payment_intent, subscription, invoice, amount_total,
    amount_subtotal, total_details, currency, customer, client_reference_id, metadata,
    customer_details, customer_email,
}}

fields! { Details { email } }

// How the checkout page changed the price.
fields! { TotalDetails { amount_discount, amount_shipping, amount_tax } }

impl Session {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "checkout.session").at("data.object.object")?;
        reading.values([
            (Member::Mode, it.mode),
            (Member::PaymentStatus, it.payment_status),
        ]);
        reading.nullable([
            (Member::AmountTotal, it.amount_total),
            (Member::ObjectCurrency, it.currency),
            (Member::PaymentIntent, it.payment_intent),
            (Member::Subscription, it.subscription),
            (Member::Metadata, it.metadata),
        ]);
        let mode = text(it.mode).map(Mode::from);
        if matches!(mode, Some(Mode::Other(_))) {
            reading.shape.unknown(Member::Mode);
        }
        let payment_status = text(it.payment_status).map(PaymentStatus::from);
        if matches!(payment_status, Some(PaymentStatus::Other(_))) {
            reading.shape.unknown(Member::PaymentStatus);
        }
        let currency = reading.or_none(currency(it.currency), "data.object.currency");
        let total = match currency {
            None if it.amount_total.is_nothing() => Ok(None),
            None => Err(Problem::Missing),
            Some(currency) => money(it.amount_total, currency),
        };
        let total = reading.or_none(total, "data.object.amount_total");
        let parts = it.total_details.object::<TotalDetails>();
        let parts = parts.unwrap_or_default().unwrap_or_default();
        // A detail that cannot be read is taken as absent.
        let part = |field: Field| {
            let amount = money(field, currency?).unwrap_or_default();
            amount.map(|amount| amount.minor)
        };
        let (shipping, tax) = (part(parts.amount_shipping), part(parts.amount_tax));
        let details = it.customer_details.object::<Details>().unwrap_or_default();
        Ok(Session {
            id: required(id(it.id)).at("data.object.id")?,
            mode,
            payment_status,
            payment_intent: reading.or_none(link(it.payment_intent), "data.object.payment_intent"),
            subscription: reading.or_none(link(it.subscription), "data.object.subscription"),
            invoice: reading.or_none(link(it.invoice), "data.object.invoice"),
            total,
            currency,
            subtotal: part(it.amount_subtotal),
            discount: part(parts.amount_discount),
            added: match (shipping, tax) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            },
            customer: reading.or_none(link(it.customer), "data.object.customer"),
            client_reference_id: reference(it.client_reference_id),
            metadata: metadata(it.metadata),
            email: details
                .and_then(|details| email(details.email))
                .or_else(|| email(it.customer_email)),
        })
    }
}
