//! Intents, charges and refunds as JSON. All ids are made from the intent's, so they are the same
//! after the sandbox was started anew.

use std::collections::BTreeMap;

use domain::time::Timestamp;
use serde_json::{Value, json};

use super::Generation;
use super::intents::{Decline, Record, State};
use crate::sample::token;

/// The refund that a request asks for.
pub struct Wish {
    pub intent: String,
    /// The amount in minor units. `None`: all that is left.
    pub amount: Option<i64>,
    pub reason: Option<String>,
    pub metadata: BTreeMap<String, String>,
}

pub fn intent(record: &Record, generation: Generation) -> Value {
    let (canceled_at, reason) = match record.state {
        State::Canceled { at, reason } => (Some(at), reason),
        _ => (None, None),
    };
    let mut intent = json!({
        "id": record.id,
        "object": "payment_intent",
        "amount": record.money.minor,
        "amount_capturable": 0,
        "amount_received": if record.state == State::Succeeded { record.money.minor } else { 0 },
        "canceled_at": canceled_at,
        "cancellation_reason": reason,
        "capture_method": "automatic",
        "client_secret": format!("{}_secret_sandbox", record.id),
        "confirmation_method": "automatic",
        "created": record.created,
        "currency": currency(record),
        "customer": record.customer,
        "description": null,
        "last_payment_error": last_error(record),
        "livemode": false,
        "metadata": record.metadata,
        "payment_method": payment_method(record),
        "payment_method_types": ["card"],
        "receipt_email": record.receipt_email,
        "shipping": null,
        "status": record.state.name(),
        "transfer_group": null,
    });
    if generation == Generation::Legacy {
        let charges = (0..record.charges).rev();
        let charges: Vec<_> = charges.map(|nth| charge(record, nth, generation)).collect();
        let url = format!("/v1/charges?payment_intent={}", record.id);
        intent["charges"] = list(&charges, &url);
    } else {
        intent["latest_charge"] = json!(latest_charge_id(record));
    }
    if generation.links_invoices() {
        intent["invoice"] = json!(record.invoice);
    }
    intent
}

/// The last charge that was tried, as JSON.
pub fn latest_charge(record: &Record, generation: Generation) -> Value {
    charge(record, record.charges.saturating_sub(1), generation)
}

fn charge(record: &Record, nth: u64, generation: Generation) -> Value {
    let paid = record.state == State::Succeeded && nth + 1 == record.charges;
    let amount_or_none = |minor: i64| if paid { minor } else { 0 };
    let refunded = amount_or_none(record.refunded);
    let id = charge_id(record, nth);
    let mut charge = json!({
        "id": id,
        "object": "charge",
        "amount": record.money.minor,
        "amount_captured": amount_or_none(record.money.minor),
        "amount_refunded": refunded,
        "captured": paid,
        "created": record.created,
        "currency": currency(record),
        "customer": record.customer,
        "disputed": false,
        "livemode": false,
        "metadata": record.metadata,
        "paid": paid,
        "payment_intent": record.id,
        "payment_method": made_up("pm_", record),
        "receipt_email": record.receipt_email,
        "refunded": paid && refunded == record.money.minor,
        "status": match record.state {
            State::Processing => "pending",
            _ if paid => "succeeded",
            _ => "failed",
        },
    });
    if generation == Generation::Legacy {
        let refunds: Vec<Value> = record.refunds.iter().rev().cloned().collect();
        let refunds = if paid { &refunds[..] } else { &[] };
        charge["refunds"] = list(refunds, &format!("/v1/charges/{id}/refunds"));
    }
    if generation.links_invoices() {
        charge["invoice"] = json!(record.invoice);
    }
    charge
}

/// A refund as JSON, before it is added to the refunds of the record.
pub fn refund(record: &Record, wish: &Wish, amount: i64, now: Timestamp) -> Value {
    json!({
        "id": token("re_", &record.id, u64::from(record.refund_count())),
        "object": "refund",
        "amount": amount,
        "charge": latest_charge_id(record),
        "created": now.unix_seconds(),
        "currency": currency(record),
        "metadata": wish.metadata,
        "payment_intent": record.id,
        "reason": wish.reason,
        "status": "succeeded",
    })
}

pub fn list(data: &[Value], url: &str) -> Value {
    json!({
        "object": "list",
        "data": data,
        "has_more": false,
        "total_count": data.len(),
        "url": url,
    })
}

pub fn currency(record: &Record) -> String {
    record.money.currency.as_str().to_ascii_lowercase()
}

pub fn latest_charge_id(record: &Record) -> Option<String> {
    let latest = record.charges.checked_sub(1)?;
    Some(charge_id(record, latest))
}

/// The fields of a declined card. An intent's last error and the answer both have them.
pub fn declined(record: &Record, decline: Decline) -> Value {
    json!({
        "type": "card_error",
        "charge": latest_charge_id(record),
        "code": decline.error_code(),
        "decline_code": decline.code(),
        "message": decline.message(),
    })
}

fn last_error(record: &Record) -> Option<Value> {
    match record.state {
        State::RequiresPaymentMethod(Some(decline)) => Some(declined(record, decline)),
        _ => None,
    }
}

/// The payment method of an intent. A declined card is removed from its intent.
fn payment_method(record: &Record) -> Option<String> {
    let has = matches!(
        record.state,
        State::Succeeded
            | State::RequiresConfirmation(_)
            | State::RequiresAction
            | State::Processing
    );
    has.then(|| made_up("pm_", record))
}

fn charge_id(record: &Record, nth: u64) -> String {
    token("ch_", &record.id, nth)
}

fn made_up(prefix: &str, record: &Record) -> String {
    token(prefix, &record.id, 0)
}
