//! Storms of payments are reproducible, contain every life in every generation of the API, and
//! their payments can be refunded afterwards.

use std::collections::{BTreeMap, BTreeSet};

use domain::payment::{Event, Object};
use sandbox::{Generation, Life, PaymentStorm};
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::{NOW, client, payment_get, read, refund, start};

fn storm() -> PaymentStorm {
    PaymentStorm {
        payments: 30,
        seed: 42,
        ..PaymentStorm::default()
    }
}

#[test]
fn the_seed_decides_every_delivery_and_its_place() {
    let deliveries = storm().deliveries(NOW);
    assert_eq!(deliveries, storm().deliveries(NOW));
    let other = PaymentStorm {
        seed: 43,
        ..storm()
    };
    assert_ne!(deliveries, other.deliveries(NOW));
    assert_eq!(
        storm().payments(),
        other.payments(),
        "a payment's life is its own"
    );
    let nothing = PaymentStorm {
        lives: Vec::new(),
        ..storm()
    };
    assert_eq!(nothing.deliveries(NOW), []);
}

#[test]
fn each_payment_has_its_events_each_repeated_under_one_id_and_body() {
    let mut bodies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for delivery in storm().deliveries(NOW) {
        let of_id = bodies.entry(delivery.id).or_default();
        of_id.push(delivery.body.to_string());
    }
    let counts: BTreeSet<usize> = bodies.values().map(Vec::len).collect();
    assert_eq!(counts, BTreeSet::from([1, 2, 3]));
    let payments = storm().payments();
    let kinds: BTreeSet<_> = payments
        .iter()
        .map(|it| (it.life, it.generation.api_version()))
        .collect();
    assert_eq!(kinds.len(), 5 * 3, "every life in every generation");
    for payment in &payments {
        let events: Vec<Value> = payment
            .events
            .iter()
            .map(|id| {
                let same = bodies.remove(id).unwrap();
                assert!(same.iter().all(|body| *body == same[0]));
                let event: Value = serde_json::from_str(&same[0]).unwrap();
                assert_eq!(same[0], format!("{event:#}"));
                assert_eq!(
                    (&event["id"], &event["api_version"]),
                    (&json!(id), &json!(payment.generation.api_version()))
                );
                if event["data"]["object"]["object"] == "payment_intent" {
                    let read = Event::read(same[0].as_bytes()).unwrap();
                    let Object::Intent(read) = read.object else {
                        panic!("{read:?}");
                    };
                    assert_eq!(
                        (read.id, read.metadata.pact_id),
                        (payment.intent.id.clone(), payment.intent.pact_id.clone())
                    );
                }
                event
            })
            .collect();
        let types: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        let paid = "payment_intent.succeeded";
        let expected: &[&str] = match payment.life {
            Life::Succeeded => &[paid],
            Life::FailedThenSucceeded => &["payment_intent.payment_failed", paid],
            Life::Canceled => &["payment_intent.canceled"],
            Life::Refunded => &[paid, "charge.refunded", "charge.refunded"],
            Life::Checkout => &["checkout.session.completed", paid],
        };
        assert_eq!(types, expected);
        let times: Vec<_> = events
            .iter()
            .map(|event| event["created"].as_i64())
            .collect();
        assert!(times.is_sorted() && times.iter().all(|at| *at < Some(NOW.unix_seconds())));
        if payment.life == Life::Refunded {
            let refunded = |nth: usize| events[nth]["data"]["object"]["amount_refunded"].as_i64();
            assert!(refunded(1) > Some(0) && refunded(1) < refunded(2));
            assert_eq!(refunded(2), Some(payment.intent.amount));
            assert_eq!(payment.refunded, payment.intent.amount);
        }
    }
    assert!(bodies.is_empty(), "no event is of no payment");
}

#[tokio::test]
async fn a_storm_is_taken_once_and_its_payments_can_be_refunded() {
    let receiver = Receiver::start(7).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let deliveries = sandbox.payment().add_storm(&storm());
    let report = sandbox.post(&deliveries, 8).await.unwrap();
    let payments = storm().payments();
    let events = payments.iter().flat_map(|payment| &payment.events).count();
    assert_eq!(report.accepted, u64::try_from(events).unwrap());
    assert_eq!((report.refused, report.given_up), (0, 0));
    assert_eq!(receiver.taken().len(), events);
    for payment in &payments {
        let id = &payment.intent.id;
        let (status, intent) = payment_get(&sandbox, &format!("payment_intents/{id}")).await;
        assert_eq!(
            (status, &intent["amount"]),
            (200, &json!(payment.intent.amount))
        );
        let asked = refund(&sandbox, &format!("payment_intent={id}"), id)
            .send()
            .await;
        let (status, body) = read(asked.unwrap()).await;
        let expected = match payment.life {
            Life::Canceled => json!([400, null]),
            Life::Refunded => json!([400, "charge_already_refunded"]),
            _ => json!([200, null]),
        };
        assert_eq!(json!([status, body["error"]["code"]]), expected, "{body}");
        if let Some(session) = &payment.session {
            let (_, session) = payment_get(&sandbox, &format!("checkout/sessions/{session}")).await;
            assert_eq!(
                (&session["status"], &session["payment_intent"]),
                (&json!("complete"), &json!(id))
            );
        }
    }
    sandbox.webhooks_done().await;
    let refunds = payments
        .iter()
        .filter(|it| it.life != Life::Canceled && it.life != Life::Refunded);
    assert_eq!(
        receiver.taken().len(),
        events + refunds.count(),
        "events of their own"
    );
}

#[tokio::test]
async fn a_storm_is_posted_over_http() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().set_generation(Generation::Legacy);
    let url = format!("{}/_control/payment_storm", sandbox.url());
    let post =
        async |body: Value| read(client().post(&url).json(&body).send().await.unwrap()).await;
    let (status, first) = post(json!({"payments": 5, "repeat": 2, "seed": 9})).await;
    assert_eq!((status, &first["seed"]), (200, &json!(9)));
    let (_, again) = post(json!({"payments": 5, "repeat": 2, "seed": 9})).await;
    assert_eq!(again["report"]["duplicates"], first["report"]["deliveries"]);
    assert_eq!(
        sandbox.payment().captures().len(),
        4,
        "all but the canceled one"
    );
    for wrong in [
        json!({}),
        json!({"payments": 0}),
        json!({"payments": 1, "repeat": 0}),
    ] {
        assert_eq!(post(wrong).await.0, 422);
    }
}
