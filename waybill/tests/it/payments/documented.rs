//! The sample objects of the payment provider's API reference, of three generations of its API, come to what a merchant
//! would sign, in whichever sequence and however often their events come.

use std::collections::BTreeSet;

use domain::job::State;
use domain::signature::sign_payment;
use serde_json::{Value, json};
use store::{orders, payments, subscriptions};

use crate::support::delivery::Delivery;
use crate::support::order::{post_all, shown, with};
use crate::support::payment::{CREATED, balances};
use crate::support::samples::{check, sample};
use crate::support::{PAYMENT_SECRET, Service, service};

const VERSIONS: [&str; 3] = ["2020-08-27", "2024-06-20", "2025-07-30.basil"];

/// One event of an object, so many seconds into its life.
struct Event {
    version: &'static str,
    kind: &'static str,
    nth: i64,
    object: Value,
}

/// As the provider posts it.
fn posted(service: &Service, event: &Event, time: usize) -> Delivery {
    let (kind, nth) = (event.kind, event.nth);
    let id = event.object["id"].as_str().unwrap();
    let body = json!({
        "id": format!("evt_{id}_{kind}_{nth}_{time}"), "object": "event", "api_version": event.version,
        "created": CREATED + nth, "type": kind, "livemode": false, "pending_webhooks": 1,
        "request": {"id": null, "idempotency_key": null}, "data": {"object": event.object},
    });
    let body = body.to_string().into_bytes();
    let now = service.clock().now().unix_seconds();
    let signature = sign_payment(PAYMENT_SECRET, now, &body);
    Delivery {
        path: "/api/webhooks/payment",
        headers: vec![
            ("Content-Type", b"application/json".to_vec()),
            ("Stripe-Signature", signature.into()),
        ],
        body,
    }
}

/// Sends each event under two ids, in this sequence or backwards, and each of these twice.
async fn sent(events: &[Event], is_backwards: bool) -> Service {
    let service = service()
        .setting("PAYMENT_PROVIDER", "stripe")
        .start()
        .await;
    let mut each: Vec<&Event> = events.iter().collect();
    if is_backwards {
        each.reverse();
    }
    for time in 0..2 {
        for event in &each {
            let delivery = posted(&service, event, time);
            post_all(&service, std::slice::from_ref(&delivery)).await;
            let status = service.post(&delivery).await.status();
            assert!(status == 200 || status == 409, "{status}: it came before");
        }
    }
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    balances(service.db()).await;
    service
}

/// What an id has come to: the state, what came in of what was asked for, and what went back; or the end of a period.
async fn end(service: &Service, id: &str) -> String {
    let db = service.db();
    let amount = |minor: i64| format!("{}.{:02}", minor / 100, minor % 100);
    if id.starts_with("in_") {
        let paid = subscriptions::list(db, 10).await.unwrap();
        assert!(paid.is_empty(), "{:?}", paid[0].id);
        return "no subscription".to_owned();
    }
    if id.starts_with("sub_") {
        let found = subscriptions::find(db, id).await.unwrap();
        return match found.map(|found| found.period_end_at) {
            None => "unknown".to_owned(),
            Some(None) => "known | no period".to_owned(),
            Some(Some(end)) => format!("known | {}", end.unix_seconds() - CREATED),
        };
    }
    if id.starts_with("cs_") {
        let (shop, order) = orders::checkout_key(id);
        let key = service.api_key().await;
        let path = format!("/api/commerce/orders/{order}?shop={shop}");
        let answer = service.get(&path).bearer_auth(&key).send().await.unwrap();
        if answer.status() == 404 {
            return "no order".to_owned();
        }
        let order = shown(service, &key, &shop, order).await;
        let text = |key: &str| order[key].as_str().unwrap_or("-").to_owned();
        return format!(
            "{} | {} | {}",
            order["fulfillment"]["state"].as_str().unwrap(),
            text("financial_status"),
            text("total_price"),
        );
    }
    match payments::find(db, id).await.unwrap() {
        None => "unknown".to_owned(),
        Some(found) => format!(
            "{} | {} of {} | {}",
            found.state,
            amount(found.received_minor),
            amount(found.amount_minor),
            amount(found.refunded_minor)
        ),
    }
}

/// The events in which the provider sends the objects.
const KINDS: [(&str, &[&str]); 7] = [
    (
        "payment_intent",
        &[
            "payment_intent.succeeded",
            "payment_intent.payment_failed",
            "payment_intent.canceled",
        ],
    ),
    ("charge", &["charge.refunded"]),
    (
        "refund",
        &[
            "refund.created",
            "refund.updated",
            "refund.failed",
            "charge.refund.updated",
        ],
    ),
    (
        "dispute",
        &[
            "charge.dispute.created",
            "charge.dispute.updated",
            "charge.dispute.funds_withdrawn",
            "charge.dispute.funds_reinstated",
            "charge.dispute.closed",
        ],
    ),
    (
        "checkout.session",
        &[
            "checkout.session.completed",
            "checkout.session.async_payment_succeeded",
            "checkout.session.async_payment_failed",
        ],
    ),
    ("invoice", &["invoice.paid", "invoice.payment_succeeded"]),
    (
        "subscription",
        &[
            "customer.subscription.updated",
            "customer.subscription.deleted",
        ],
    ),
];

/// The object | as below. A refund and a dispute are facts of their charge, of which nothing else is known here; the sample
/// of a subscription has ended.
const AS_THEY_ARE: &str = "
payment_intent | requires_payment_method | 0.00 of 10.99 | 0.00
charge | unknown | 0.00 of 1.00 | 0.00
refund | partially_refunded | 0.00 of 0.00 | 1.00
dispute | unknown | 0.00 of 0.00 | 0.00
checkout.session | initiated | pending | -
invoice | no subscription
subscription | known | no period
";

/// The id under which a merchant finds what the object is about.
fn about(object: &Value) -> &str {
    let named = |key: &str| object[key].as_str();
    let id = named("payment_intent").filter(|_| object["object"] != "checkout.session");
    id.or_else(|| named("charge"))
        .or_else(|| named("id"))
        .unwrap()
}

#[tokio::test]
async fn the_documented_objects_as_they_are_end_as_the_table_says() {
    for version in VERSIONS {
        for is_backwards in [false, true] {
            let mut came = Vec::new();
            // Each in a service of its own, because several samples are about one charge.
            for (object, kinds) in KINDS {
                let body = sample(&format!("payment/{version}/{object}"));
                let events: Vec<Event> = (1..)
                    .zip(kinds)
                    .map(|(nth, kind)| Event {
                        version,
                        kind,
                        nth,
                        object: body.clone(),
                    })
                    .collect();
                let service = sent(&events, is_backwards).await;
                came.push(format!("{object} | {}", end(&service, about(&body)).await));
                service.stop().await;
            }
            check(&came, AS_THEY_ARE);
        }
    }
}

/// The same object under an id of its own.
fn called(object: &Value, name: &str, fields: &Value) -> Value {
    let id = format!("{}_{name}", object["id"].as_str().unwrap());
    with(with(object.clone(), &json!({"id": id})), fields)
}

/// The sample is not paid. The provider changes these members when it is.
fn paid(intent: &Value, name: &str) -> Value {
    let paid =
        json!({"status": "succeeded", "amount_received": intent["amount"], "canceled_at": null});
    called(intent, name, &paid)
}

/// The sample is of an authorisation. This is what it becomes when so much of what was captured goes back.
fn refunded(charge: &Value, name: &str, minor: i64) -> Value {
    let amount = charge["amount"].as_i64().unwrap();
    let fields = json!({
        "captured": true, "amount_captured": amount, "amount_refunded": minor, "refunded": minor == amount,
    });
    called(charge, name, &fields)
}

/// The sample is of nothing. This one sells something.
fn sold(session: &Value, name: &str, status: &str) -> Value {
    let amount = if status == "no_payment_required" {
        0
    } else {
        1099
    };
    let fields = json!({
        "status": "complete", "payment_status": status, "amount_total": amount, "amount_subtotal": amount,
        "currency": "usd", "payment_intent": null,
        "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
    });
    called(session, name, &fields)
}

/// The sample is written by hand. This one is of a subscription's period, which ends so many seconds into its life.
fn of_period(invoice: &Value, subscription: &str, end: i64) -> Value {
    let mut invoice = called(
        invoice,
        subscription,
        &json!({
            "status": "paid", "amount_paid": 1000, "amount_remaining": 0, "billing_reason": "subscription_cycle",
            "created": CREATED,
        }),
    );
    let line = &mut invoice["lines"]["data"][0];
    line["period"] = json!({"start": CREATED, "end": CREATED + end});
    if line.get("parent").is_some() {
        line["parent"]["type"] = json!("subscription_item_details");
        line["parent"]["invoice_item_details"] = Value::Null;
        line["parent"]["subscription_item_details"]["subscription"] = json!(subscription);
        line["parent"]["subscription_item_details"]["proration"] = json!(false);
        invoice["parent"] = json!({
            "type": "subscription_details", "quote_details": null,
            "subscription_details": {"metadata": {}, "subscription": subscription},
        });
    } else {
        line["type"] = json!("subscription");
        line["subscription"] = json!(subscription);
        invoice["subscription"] = json!(subscription);
    }
    invoice
}

/// What the provider sends when the samples are paid, refunded, disputed, sold and billed.
fn lives(version: &'static str) -> Vec<Event> {
    let named = |object: &str| sample(&format!("payment/{version}/{object}"));
    let [intent, charge, refund, dispute] =
        ["payment_intent", "charge", "refund", "dispute"].map(named);
    let [session, invoice, subscription] =
        ["checkout.session", "invoice", "subscription"].map(named);
    let mut events = Vec::new();
    let mut add = |kind: &'static str, nth: i64, object: Value| {
        events.push(Event {
            version,
            kind,
            nth,
            object,
        });
    };
    add("payment_intent.succeeded", 2, paid(&intent, "paid"));
    let declined = json!({"last_payment_error": {
        "type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds",
        "message": "Your card has insufficient funds.",
    }});
    add(
        "payment_intent.payment_failed",
        1,
        called(&intent, "failed", &declined),
    );
    add(
        "payment_intent.payment_failed",
        1,
        called(&intent, "paid", &declined),
    );
    let canceled = json!({"status": "canceled", "cancellation_reason": "abandoned"});
    add(
        "payment_intent.canceled",
        1,
        called(&intent, "canceled", &canceled),
    );
    add("charge.refunded", 1, refunded(&charge, "refunded", 100));
    add(
        "charge.refunded",
        1,
        refunded(&charge, "refunded_in_part", 40),
    );
    let released =
        json!({"captured": false, "amount_captured": 0, "amount_refunded": 100, "refunded": true});
    add("charge.refunded", 1, called(&charge, "released", &released));
    for (name, kind, status) in [
        ("refund_succeeded", "refund.created", "succeeded"),
        ("refund_pending", "refund.created", "pending"),
        ("refund_failed", "refund.failed", "failed"),
        ("refund_canceled", "refund.updated", "canceled"),
    ] {
        let intent = paid(&intent, name);
        let fields =
            json!({"payment_intent": intent["id"], "status": status, "created": CREATED + 3});
        add("payment_intent.succeeded", 2, intent);
        add(kind, 3, called(&refund, name, &fields));
    }
    for (name, kind, status) in [
        (
            "dispute_inquiry",
            "charge.dispute.created",
            "warning_needs_response",
        ),
        ("dispute_open", "charge.dispute.created", "needs_response"),
        (
            "dispute_under_review",
            "charge.dispute.updated",
            "under_review",
        ),
        ("dispute_lost", "charge.dispute.closed", "lost"),
        ("dispute_won", "charge.dispute.closed", "won"),
        ("dispute_closed", "charge.dispute.closed", "warning_closed"),
    ] {
        let intent = paid(&intent, name);
        let fields = |status: &str| json!({"payment_intent": intent["id"], "status": status, "amount": 1099, "reason": "fraudulent"});
        let is_inquiry = status.starts_with("warning");
        let opened = if is_inquiry {
            "warning_needs_response"
        } else {
            "needs_response"
        };
        add(
            "charge.dispute.created",
            3,
            called(&dispute, name, &fields(opened)),
        );
        add(kind, 4, called(&dispute, name, &fields(status)));
        add("payment_intent.succeeded", 2, intent);
    }
    for (name, kind, status) in [
        ("paid", "checkout.session.completed", "paid"),
        ("free", "checkout.session.completed", "no_payment_required"),
        ("unpaid", "checkout.session.completed", "unpaid"),
        (
            "paid_later",
            "checkout.session.async_payment_succeeded",
            "paid",
        ),
        ("failed", "checkout.session.async_payment_failed", "unpaid"),
    ] {
        if kind != "checkout.session.completed" {
            add(
                "checkout.session.completed",
                1,
                sold(&session, name, "unpaid"),
            );
        }
        add(kind, 2, sold(&session, name, status));
    }
    let lasts = json!({"ended_at": null, "canceled_at": null, "cancel_at": null});
    let ended = json!({"ended_at": CREATED + 1000, "status": "canceled"});
    for (name, kind, fields) in [
        ("lasts", "customer.subscription.updated", &lasts),
        ("ended", "customer.subscription.deleted", &ended),
    ] {
        let subscription = called(&subscription, name, fields);
        let id = subscription["id"].as_str().unwrap();
        add("invoice.paid", 1, of_period(&invoice, id, 3000));
        add(
            "invoice.payment_succeeded",
            1,
            of_period(&invoice, id, 3000),
        );
        add(kind, 2, subscription);
    }
    events
}

/// The object and what became of it | a payment's state | received of its amount | gone back; a session's fulfilment | its
/// financial status | its total; or until when a subscription is paid, in seconds.
const LIVES: &str = "
ch_refunded | refunded | 0.00 of 1.00 | 1.00
ch_refunded_in_part | partially_refunded | 0.00 of 1.00 | 0.40
ch_released | unknown | 0.00 of 1.00 | 0.00
cs_test_failed | initiated | pending | 10.99
cs_test_free | requested | paid | 0.00
cs_test_paid | requested | paid | 10.99
cs_test_paid_later | requested | paid | 10.99
cs_test_unpaid | initiated | pending | 10.99
pi_canceled | canceled | 0.00 of 10.99 | 0.00
pi_dispute_closed | succeeded | 10.99 of 10.99 | 0.00
pi_dispute_inquiry | succeeded | 10.99 of 10.99 | 0.00
pi_dispute_lost | charged_back | 10.99 of 10.99 | 0.00
pi_dispute_open | disputed | 10.99 of 10.99 | 0.00
pi_dispute_under_review | disputed | 10.99 of 10.99 | 0.00
pi_dispute_won | succeeded | 10.99 of 10.99 | 0.00
pi_failed | requires_payment_method | 0.00 of 10.99 | 0.00
pi_paid | succeeded | 10.99 of 10.99 | 0.00
pi_refund_canceled | succeeded | 10.99 of 10.99 | 0.00
pi_refund_failed | succeeded | 10.99 of 10.99 | 0.00
pi_refund_pending | succeeded | 10.99 of 10.99 | 0.00
pi_refund_succeeded | partially_refunded | 10.99 of 10.99 | 1.00
sub_ended | known | 1000
sub_lasts | known | 3000
";

#[tokio::test]
async fn the_documented_objects_in_real_life_end_as_the_table_says() {
    for version in VERSIONS {
        for is_backwards in [false, true] {
            let events = lives(version);
            let service = sent(&events, is_backwards).await;
            let ids = events.iter().map(|it| about(&it.object));
            let ids: BTreeSet<&str> = ids.filter(|id| !id.starts_with("in_")).collect();
            let mut came = Vec::new();
            for id in ids {
                let end = end(&service, id).await;
                let random = id.split('_').find(|part| part.len() > 8).unwrap();
                came.push(format!("{} | {end}", id.replace(&format!("{random}_"), "")));
            }
            came.sort();
            check(&came, LIVES);
            service.stop().await;
        }
    }
}
