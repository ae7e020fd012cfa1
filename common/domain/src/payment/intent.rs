//! A payment intent: one payment with all its attempts.

use super::fields::{
    Metadata, code, currency, email, id, link, metadata, money, named, reference, required, text,
};
use super::{Email, Status};
use crate::json::{At, Field, Problem, Reading, Unreadable, fields};
use crate::money::{Currency, Money};
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The intent's id, `pi_..`.
    pub id: String,
    pub amount: Money,
    /// The amount that was captured.
    pub received: Money,
    /// The part of it that is a tip, in minor units.
    pub tip: i64,
    pub status: Option<Status>,
    /// Names the agreement that the payment is for.
    pub metadata: Metadata,
    /// The merchant's own name for payments that belong together.
    pub transfer_group: Option<String>,
    pub customer: Option<String>,
    pub receipt_email: Option<Email>,
    /// The charge of the latest attempt, `ch_..`.
    pub charge: Option<String>,
    /// Bodies have it only before 2025-03-31.
    pub invoice: Option<String>,
    /// Why the latest attempt failed.
    pub error: Option<PaymentError>,
    pub cancellation_reason: Option<String>,
}

/// The provider's codes, such as `card_declined` and `insufficient_funds`. The provider's message
/// is not read, because it can name the customer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, row::Record)]
pub struct PaymentError {
    /// The charge of the attempt that failed, if there was one. The intent's own charge may be of
    /// an earlier attempt.
    #[thing]
    pub charge: Option<String>,
    #[thing]
    pub code: Option<String>,
    #[thing]
    pub decline_code: Option<String>,
    /// The payment method that was charged, `pm_..`. Another attempt needs it, because the intent
    /// forgets it after a failure.
    #[thing]
    pub payment_method: Option<String>,
}

fields! { Fields {
    object, id, amount, amount_received, currency, status, metadata, transfer_group, customer,
    receipt_email, latest_charge, charges, invoice, last_payment_error, cancellation_reason,
    amount_details,
}}

impl Intent {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "payment_intent").at("data.object.object")?;
        let id = required(id(it.id)).at("data.object.id")?;
        reading.values([
            (Member::AmountReceived, it.amount_received),
            (Member::ObjectStatus, it.status),
        ]);
        reading.nullable([(Member::Metadata, it.metadata)]);
        let currency = required(currency(it.currency)).at("data.object.currency")?;
        let amount = required(money(it.amount, currency)).at("data.object.amount")?;
        let received = money(it.amount_received, currency).at("data.object.amount_received")?;
        let status = text(it.status).map(Status::from);
        if matches!(status, Some(Status::Other(_))) {
            reading.shape.unknown(Member::ObjectStatus);
        }
        let captured_in_full = matches!(status, None | Some(Status::Succeeded));
        let unknown_amount = Money {
            minor: if captured_in_full { amount.minor } else { 0 },
            currency,
        };
        let charge = reading.or_none(link(it.latest_charge), "data.object.latest_charge");
        Ok(Intent {
            id,
            amount,
            received: received.unwrap_or(unknown_amount),
            tip: tip(it.amount_details, currency).map_or(0, |tip| tip.minor),
            status,
            metadata: metadata(it.metadata),
            transfer_group: reference(it.transfer_group),
            customer: reading.or_none(link(it.customer), "data.object.customer"),
            receipt_email: email(it.receipt_email),
            charge: match charge {
                None => reading.or_none(first_charge(it.charges), "data.object.charges"),
                charge => charge,
            },
            invoice: reading.or_none(link(it.invoice), "data.object.invoice"),
            error: error(it.last_payment_error, reading),
            cancellation_reason: text(it.cancellation_reason),
        })
    }
}

fn tip(details: Field, currency: Currency) -> Option<Money> {
    fields! { Details { tip } }
    fields! { Tip { amount } }

    let details: Details = details.object().ok()??;
    let tip: Tip = details.tip.object().ok()??;
    money(tip.amount, currency).ok()?
}

/// Versions of the API before 2022-11-15 list the charges themselves, the latest first.
fn first_charge(field: Field) -> Result<Option<String>, Problem> {
    fields! { Charges { data } }

    let charges: Charges = field.object()?.unwrap_or_default();
    let first = charges.data.values()?.into_iter().next();
    first.map_or(Ok(None), link)
}

fn error(field: Field, reading: &mut Reading) -> Option<PaymentError> {
    fields! { Codes { charge, code, decline_code, payment_method } }

    let codes: Codes = reading.or_none(field.object(), "data.object.last_payment_error")?;
    let mut link = |field, name| reading.or_none(link(field), name);
    Some(PaymentError {
        charge: link(codes.charge, "data.object.last_payment_error.charge"),
        code: code(codes.code),
        decline_code: code(codes.decline_code),
        payment_method: link(
            codes.payment_method,
            "data.object.last_payment_error.payment_method",
        ),
    })
}
