//! Which payment paid an invoice. Since 2025-03-31 neither of the two names the other.

use super::fields::{id, link, named, required};
use crate::json::{At, Field, Unreadable, fields};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoicePayment {
    /// The invoice's id, `in_..`.
    pub invoice: String,
    /// The intent, or the charge. None for an invoice that was paid outside of the provider.
    pub payment_id: Option<String>,
}

fields! { Fields { object, id, invoice, payment } }

fields! { Payment { payment_intent, charge } }

impl InvoicePayment {
    pub(super) fn of(object: Field) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "invoice_payment").at("data.object.object")?;
        required(id(it.id)).at("data.object.id")?;
        let payment: Option<Payment> = it.payment.object().at("data.object.payment")?;
        let payment = payment.unwrap_or_default();
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
