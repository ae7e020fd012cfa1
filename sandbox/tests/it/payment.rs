//! The payment provider's API: keys, intents, refunds, and the events that follow.

use std::collections::BTreeMap;

use sandbox::PAYMENT_KEY;
use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{NOW, client, intent, read, refund, sandbox, start};

#[tokio::test]
async fn without_the_key_everything_is_refused() {
    let sandbox = sandbox().await;
    let url = format!("{}/v1/payment_intents/pi_1", sandbox.payment_url());
    for request in [
        client().get(&url),
        client().get(&url).bearer_auth("sk_wrong"),
    ] {
        let (status, body) = read(request.send().await.unwrap()).await;
        assert_eq!(status, 401);
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert!(body["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn an_intent_that_was_added_can_be_read() {
    let sandbox = sandbox().await;
    sandbox.payment().add_intent(intent("pi_1", 1999));
    let get = |id: &str| {
        let url = format!("{}/v1/payment_intents/{id}", sandbox.payment_url());
        client().get(url).bearer_auth(PAYMENT_KEY).send()
    };
    let (status, body) = read(get("pi_1").await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&body["id"], &body["object"]),
        (&json!("pi_1"), &json!("payment_intent"))
    );
    assert_eq!(
        (&body["amount"], &body["amount_received"]),
        (&json!(1999), &json!(1999))
    );
    assert_eq!(
        (&body["currency"], &body["status"]),
        (&json!("usd"), &json!("succeeded"))
    );
    assert_eq!(body["metadata"]["pact_id"], "pact_1");
    assert!(body["latest_charge"].as_str().unwrap().starts_with("ch_"));
    let (status, body) = read(get("pi_2").await.unwrap()).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (404, &json!("resource_missing"))
    );
}

#[tokio::test]
async fn a_refund_without_an_amount_is_of_all_that_is_left() {
    let sandbox = sandbox().await;
    sandbox.payment().add_intent(intent("pi_1", 1999));
    let form = "payment_intent=pi_1&amount=500&metadata%5Border_id%5D=7+a";
    let (status, part) = read(refund(&sandbox, form, "k-1").send().await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&part["amount"], &part["currency"]),
        (&json!(500), &json!("usd"))
    );
    assert_eq!(
        (&part["object"], &part["status"]),
        (&json!("refund"), &json!("succeeded"))
    );
    assert_eq!(part["metadata"], json!({"order_id": "7 a"}));
    assert_eq!(part["created"], NOW.unix_seconds());
    let (status, rest) = read(
        refund(&sandbox, "payment_intent=pi_1", "k-2")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!((status, &rest["amount"]), (200, &json!(1499)));
    assert_ne!(rest["id"], part["id"]);
    assert_eq!(rest["charge"], part["charge"]);
    let (status, none) = read(
        refund(&sandbox, "payment_intent=pi_1", "k-3")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (status, &none["error"]["code"]),
        (400, &json!("charge_already_refunded"))
    );
    assert_eq!(
        sandbox.payment().refunds(),
        BTreeMap::from([("pi_1".to_owned(), 2)])
    );
    assert_eq!(sandbox.payment().refunded("pi_1"), 1999);
}

#[tokio::test]
async fn a_key_gives_one_refund_and_belongs_to_its_parameters() {
    let sandbox = sandbox().await;
    sandbox.payment().add_intent(intent("pi_1", 1999));
    let first = refund(&sandbox, "payment_intent=pi_1&amount=5", "k-1");
    let first = read(first.send().await.unwrap()).await;
    let again = refund(&sandbox, "amount=5&payment_intent=pi_1", "k-1");
    let again = again.send().await.unwrap();
    assert_eq!(again.headers()["Idempotent-Replayed"], "true");
    assert_eq!(read(again).await, first);
    let other = refund(&sandbox, "payment_intent=pi_1&amount=6", "k-1");
    let (status, body) = read(other.send().await.unwrap()).await;
    assert_eq!(
        (status, &body["error"]["type"]),
        (400, &json!("idempotency_error"))
    );
    assert_eq!(sandbox.payment().refunded("pi_1"), 5);
    assert_eq!(sandbox.payment().fault_injector.requests_by_key()["k-1"], 3);
}

#[tokio::test]
async fn a_key_whose_request_was_refused_keeps_the_refusal_and_another_succeeds() {
    let sandbox = sandbox().await;
    let wish = |key| refund(&sandbox, "payment_intent=pi_1", key).send();
    assert_eq!(wish("k-1").await.unwrap().status(), 404);
    sandbox.payment().add_intent(intent("pi_1", 1999));
    let again = wish("k-1").await.unwrap();
    assert_eq!(again.status(), 404);
    assert_eq!(again.headers()["Idempotent-Replayed"], "true");
    assert_eq!(wish("k-2").await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_cannot_be_refunded_is_refused_with_the_parameter() {
    let sandbox = sandbox().await;
    sandbox.payment().add_intent(intent("pi_1", 1999));
    for (form, expected, code, param) in [
        ("", 400, json!("parameter_missing"), "payment_intent"),
        (
            "payment_intent=pi_2",
            404,
            json!("resource_missing"),
            "payment_intent",
        ),
        (
            "payment_intent=pi_1&amount=2000",
            400,
            json!(null),
            "amount",
        ),
        (
            "payment_intent=pi_1&amount=0",
            400,
            json!("parameter_invalid_integer"),
            "amount",
        ),
        (
            "payment_intent=pi_1&amount=1.5",
            400,
            json!("parameter_invalid_integer"),
            "amount",
        ),
        (
            "payment_intent=pi_1&colour=red",
            400,
            json!("parameter_unknown"),
            "colour",
        ),
    ] {
        let (status, body) = read(
            refund(&sandbox, form, &format!("k-{form}"))
                .send()
                .await
                .unwrap(),
        )
        .await;
        assert_eq!(status, expected, "{form}");
        let error = &body["error"];
        assert_eq!(error["type"], "invalid_request_error", "{form}");
        assert_eq!(
            (&error["code"], &error["param"]),
            (&code, &json!(param)),
            "{form}"
        );
    }
    assert_eq!(sandbox.payment().refunds(), BTreeMap::new());
}

#[tokio::test]
async fn payments_and_refunds_are_announced_in_signed_events() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let payment = sandbox.payment();
    payment.add_intent(intent("pi_1", 1999));
    assert!(payment.post_succeeded("pi_1"));
    assert!(!payment.post_succeeded("pi_2"));
    sandbox.webhooks_done().await;
    for (form, key) in [
        ("payment_intent=pi_1&amount=500", "k-1"),
        ("payment_intent=pi_1", "k-2"),
    ] {
        refund(&sandbox, form, key).send().await.unwrap();
        sandbox.webhooks_done().await;
    }
    let taken = receiver.taken();
    let topics: Vec<_> = taken.iter().map(|taken| &*taken.topic).collect();
    assert_eq!(
        topics,
        [
            "payment_intent.succeeded",
            "charge.refunded",
            "charge.refunded"
        ]
    );
    let object = |nth: usize| &taken[nth].body["data"]["object"];
    assert_eq!(object(0)["metadata"]["pact_id"], "pact_1");
    assert_eq!(object(0)["amount_received"], 1999);
    let refunded = |nth| (&object(nth)["amount_refunded"], &object(nth)["refunded"]);
    assert_eq!(refunded(1), (&json!(500), &json!(false)));
    assert_eq!(refunded(2), (&json!(1999), &json!(true)));
    assert_eq!(
        taken[2].body["data"]["previous_attributes"]["amount_refunded"],
        500
    );
}
