//! The payment provider's events, and everything that Waybill has stored because of them.

use std::collections::BTreeMap;

use domain::time::Timestamp;
use serde_json::{Value, json};
use store::ledger;
use store::sql::Db;

use super::Service;
use super::delivery::{Delivery, payment_at};

/// An event about an object, `nth` seconds into the payment's life, sent now.
pub fn event(service: &Service, kind: &str, nth: i64, object: &Value) -> Delivery {
    let id = object["id"].as_str().unwrap();
    event_called(
        service,
        &format!("evt_{kind}_{id}_{nth}"),
        kind,
        nth,
        object,
    )
}

/// The same with an id of its own.
pub fn event_called(service: &Service, id: &str, kind: &str, nth: i64, object: &Value) -> Delivery {
    let body = json!({
        "id": id, "object": "event", "api_version": "2026-10-28.endive",
        "created": CREATED + nth, "type": kind, "data": {"object": object},
    });
    payment_at(service.clock().now().unix_seconds(), body.to_string())
}

/// When the payments' lives began, Unix seconds.
pub const CREATED: i64 = 1_799_999_000;

/// An intent of so many cents, of an agreement, with a person in it.
pub fn intent(id: &str, status: &str, cents: i64, agreement: Option<&str>) -> Value {
    let received = if status == "succeeded" { cents } else { 0 };
    json!({
        "id": id, "object": "payment_intent", "amount": cents, "amount_received": received,
        "currency": "usd", "status": status, "customer": "cus_7",
        "receipt_email": "canary@example.com",
        "metadata": agreement.map_or(json!({}), |agreement| json!({"pact_id": agreement})),
    })
}

/// An intent whose attempt, by its number, was declined.
pub fn declined(id: &str, cents: i64, attempt: u32, why: &str) -> Value {
    let mut intent = intent(id, "requires_payment_method", cents, Some(&pact_id_of(id)));
    intent["latest_charge"] = json!(format!("ch_{id}_{attempt}"));
    intent["last_payment_error"] = json!({
        "type": "card_error", "code": "card_declined", "decline_code": why,
        "charge": format!("ch_{id}_{attempt}"), "message": "Canary's card was declined.",
        "payment_method": {"id": "pm_card_visa", "object": "payment_method"},
    });
    intent
}

/// The agreement of a payment, where nothing else is said.
pub fn pact_id_of(id: &str) -> String {
    format!("pact_{id}")
}

/// The charge of an intent, of which so many cents were given back in all.
pub fn charge(intent: &str, cents: i64, refunded: i64) -> Value {
    json!({
        "id": format!("ch_{intent}"), "object": "charge", "payment_intent": intent,
        "amount": cents, "amount_captured": cents, "amount_refunded": refunded,
        "captured": true, "refunded": refunded == cents, "currency": "usd",
        "customer": "cus_7", "metadata": {}, "billing_details": {"email": "canary@example.com"},
    })
}

/// A completed session.
pub fn session(id: &str, status: &str, cents: i64, fields: &Value) -> Value {
    let mut session = json!({
        "id": id, "object": "checkout.session", "mode": "payment", "status": "complete",
        "payment_status": status, "amount_total": cents, "currency": "usd",
        "payment_intent": null, "metadata": {},
        "customer_details": {"email": "canary@example.com", "name": "Canary"},
    });
    let more = fields.as_object().unwrap().clone();
    session.as_object_mut().unwrap().extend(more);
    session
}

/// A paid invoice of a subscription, whose line ends so many days into it.
pub fn invoice(id: &str, subscription: &str, cents: i64, days: i64) -> Value {
    json!({
        "id": id, "object": "invoice", "status": "paid", "amount_paid": cents, "total": cents,
        "currency": "usd", "customer": "cus_7", "customer_email": "canary@example.com",
        "parent": {"type": "subscription_details",
                   "subscription_details": {"subscription": subscription, "metadata": {}}},
        "lines": {"object": "list", "data": [
            {"id": "il_1", "amount": cents,
             "period": {"start": CREATED, "end": CREATED + days * 86_400}},
        ]},
    })
}

/// The end of such an invoice's line.
pub fn end_of(days: i64) -> Timestamp {
    Timestamp((CREATED + days * 86_400) * 1000)
}

/// What each account holds, in cents, without those that hold nothing. The books balance.
pub async fn balances(db: &Db) -> BTreeMap<String, i64> {
    let books = ledger::verify(db).await.unwrap();
    assert_eq!(books.wrong, []);
    assert!(books.is_balanced(), "{:?}", books.unbalanced);
    let balances = ledger::balances(db, "", "", 10_000).await.unwrap();
    let held = balances.into_iter().filter(|it| it.minor != 0);
    held.map(|it| (it.account, it.minor)).collect()
}

/// Kinds and bodies of the events of a payment, session or subscription.
pub async fn events(db: &Db, id: &str) -> Vec<(String, Value)> {
    let rows = db
        .query(
            "select kind, body from events where shop is null and object_id = $1 order by position",
        )
        .bind(id)
        .fetch_all()
        .await
        .unwrap();
    rows.iter()
        .map(|row| {
            let body: String = row.get("body").unwrap();
            (
                row.get("kind").unwrap(),
                serde_json::from_str(&body).unwrap(),
            )
        })
        .collect()
}

/// The kinds alone.
pub async fn kinds(db: &Db, id: &str) -> Vec<String> {
    let events = events(db, id).await;
    events.into_iter().map(|(kind, _)| kind).collect()
}

/// The state of a payment.
pub async fn state(db: &Db, id: &str) -> String {
    let payment = store::payments::find(db, id).await.unwrap();
    payment.expect("the payment is there").state
}
