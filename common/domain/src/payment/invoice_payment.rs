//! Which payment paid an invoice. Since 2025-03-31 neither of the two names the other.

use super::fields::{id, link, named, required, text};
use crate::json::{At, Field, Reading, Unreadable, fields};
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoicePayment {
    /// The invoice's id, `in_..`.
    pub invoice: String,
    /// The intent, or the charge. None for an invoice that was paid outside of the provider.
    pub payment_id: Option<String>,
}

fields! { Fields { object, id, invoice, payment } }

fields! { Payment { r#type, payment_intent, charge } }

/// What can pay an invoice (docs.stripe.com/api/invoice-payment/object). A record is of money that came past the provider.
const TYPES: [&str; 3] = ["payment_intent", "charge", "payment_record"];

impl InvoicePayment {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "invoice_payment").at("data.object.object")?;
        required(id(it.id)).at("data.object.id")?;
        reading.values([(Member::InvoicePayment, it.payment)]);
        let payment: Option<Payment> = it.payment.object().at("data.object.payment")?;
        let payment = payment.unwrap_or_default();
        if text(payment.r#type).is_some_and(|word| !TYPES.contains(&&*word)) {
            reading.shape.unknown(Member::InvoicePaymentType);
        }
        let intent = link(payment.payment_intent).at("data.object.payment.payment_intent")?;
        Ok(InvoicePayment {
            invoice: required(link(it.invoice)).at("data.object.invoice")?,
            payment_id: match intent {
                None => link(payment.charge).at("data.object.payment.charge")?,
                intent => intent,
            },
        })
    }
}
