//! The payment provider's JSON objects and events. Ids follow from the intent's, so that a
//! sandbox that was started anew gives the same ones.

use common::clock::Timestamp;
use serde_json::{Value, json};

use super::{Captured, Wish};
use crate::sample::{self, mix, token};
use crate::webhooks::Delivery;

pub fn intent(captured: &Captured) -> Value {
    let intent = &captured.intent;
    json!({
        "id": intent.id,
        "object": "payment_intent",
        "amount": intent.amount,
        "amount_capturable": 0,
        "amount_received": intent.amount,
        "canceled_at": null,
        "cancellation_reason": null,
        "capture_method": "automatic",
        "created": captured.created,
        "currency": currency(captured),
        "customer": null,
        "last_payment_error": null,
        "latest_charge": charge_id(captured),
        "livemode": false,
        "metadata": metadata(captured),
        "payment_method": made_up("pm_", captured),
        "payment_method_types": ["card"],
        "receipt_email": null,
        "status": "succeeded",
        "transfer_group": null,
    })
}

pub fn refund(captured: &Captured, wish: &Wish, amount: i64, now: Timestamp) -> Value {
    json!({
        "id": token("re_", &captured.intent.id, nth(captured)),
        "object": "refund",
        "amount": amount,
        "charge": charge_id(captured),
        "created": now.unix_seconds(),
        "currency": currency(captured),
        "metadata": wish.metadata,
        "payment_intent": captured.intent.id,
        "reason": wish.reason,
        "status": "succeeded",
    })
}

/// The event of a captured intent.
pub fn succeeded(captured: &Captured, now: Timestamp) -> Delivery {
    let data = json!({"object": intent(captured)});
    event("payment_intent.succeeded", captured, now, &data)
}

/// The event of the last refund, which was of this amount.
pub fn charge_refunded(captured: &Captured, amount: i64, now: Timestamp) -> Delivery {
    let data = json!({
        "object": charge(captured),
        "previous_attributes": {
            "amount_refunded": captured.refunded - amount,
            "refunded": false,
        },
    });
    event("charge.refunded", captured, now, &data)
}

fn charge(captured: &Captured) -> Value {
    let intent = &captured.intent;
    json!({
        "id": charge_id(captured),
        "object": "charge",
        "amount": intent.amount,
        "amount_captured": intent.amount,
        "amount_refunded": captured.refunded,
        "captured": true,
        "created": captured.created,
        "currency": currency(captured),
        "customer": null,
        "disputed": false,
        "livemode": false,
        "metadata": metadata(captured),
        "paid": true,
        "payment_intent": intent.id,
        "payment_method": made_up("pm_", captured),
        "receipt_email": null,
        "refunded": captured.refunded == intent.amount,
        "status": "succeeded",
    })
}

/// An event's id follows from its type, the intent, and how often that was refunded.
fn event(event_type: &str, captured: &Captured, now: Timestamp, data: &Value) -> Delivery {
    let seed = mix(&captured.intent.id, nth(captured));
    let event = sample::event(event_type, seed, now.unix_seconds(), data);
    let id = event["id"].as_str().unwrap_or_default();
    Delivery::payment(event_type, id, format!("{event:#}"))
}

fn metadata(captured: &Captured) -> Value {
    match &captured.intent.pact_id {
        Some(pact) => json!({"pact_id": pact, "type": "order", "fulfillment_cycle": "once"}),
        None => json!({}),
    }
}

fn currency(captured: &Captured) -> String {
    captured.intent.currency.as_str().to_ascii_lowercase()
}

fn charge_id(captured: &Captured) -> String {
    made_up("ch_", captured)
}

fn made_up(prefix: &str, captured: &Captured) -> String {
    token(prefix, &captured.intent.id, 0)
}

fn nth(captured: &Captured) -> u64 {
    u64::from(captured.count())
}
