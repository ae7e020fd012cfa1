//! Payment intents over the API: made, confirmed, declined, canceled.

use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::{MUG, open, payment_get, payment_post, read, refund, sandbox, start};

async fn ask(sandbox: &sandbox::Sandbox, path: &str, form: &str, key: &str) -> (u16, Value) {
    let request = payment_post(sandbox, path, form).header("Idempotency-Key", key);
    read(request.send().await.unwrap()).await
}

async fn make(sandbox: &sandbox::Sandbox, form: &str) -> String {
    let made = payment_post(sandbox, "payment_intents", form).send().await;
    let (status, intent) = read(made.unwrap()).await;
    assert_eq!(status, 200, "{intent}");
    intent["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_intent_is_confirmed_once_and_once_per_key() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let id = make(
        &sandbox,
        "amount=1999&currency=usd&metadata[pact_id]=p&customer=cus_1",
    )
    .await;
    let path = format!("payment_intents/{id}/confirm");
    let visa = "payment_method=pm_card_visa";
    let first = ask(&sandbox, &path, visa, "k-1").await;
    assert_eq!((first.0, &first.1["status"]), (200, &json!("succeeded")));
    assert_eq!(first.1["metadata"], json!({"pact_id": "p"}));
    assert_eq!(ask(&sandbox, &path, visa, "k-1").await, first);
    let (status, body) = ask(&sandbox, &path, visa, "k-2").await;
    let error = &body["error"];
    assert_eq!(
        (status, &error["code"]),
        (400, &json!("payment_intent_unexpected_state"))
    );
    assert_eq!(error["payment_intent"]["id"], id);
    let payment = sandbox.payment();
    assert_eq!(payment.captures()[&id], 1);
    assert_eq!(payment.confirms_by_key(), [("k-1".to_owned(), 1)].into());
    assert_eq!(payment.fault_injector.requests_by_key()["k-1"], 2);
    sandbox.webhooks_done().await;
    let taken = receiver.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].topic, "payment_intent.succeeded");
    refund(&sandbox, &format!("payment_intent={id}&amount=5"), "r-1")
        .send()
        .await
        .unwrap();
    refund(&sandbox, &format!("payment_intent={id}&amount=7"), "r-2")
        .send()
        .await
        .unwrap();
    assert_eq!(payment.refund_amounts(&id), [5, 7]);
}

#[tokio::test]
async fn a_declined_card_is_a_402_that_its_key_remembers_and_another_card_pays() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let id = make(&sandbox, "amount=1999&currency=jpy").await;
    let path = format!("payment_intents/{id}/confirm");
    let bad = "payment_method=pm_card_chargeDeclined";
    let (status, body) = ask(&sandbox, &path, bad, "k-1").await;
    let error = &body["error"];
    assert_eq!(status, 402);
    let reported = json!([error["type"], error["code"], error["decline_code"]]);
    assert_eq!(
        reported,
        json!(["card_error", "card_declined", "generic_decline"])
    );
    assert_eq!(ask(&sandbox, &path, bad, "k-1").await, (402, body.clone()));
    let (_, intent) = payment_get(&sandbox, &format!("payment_intents/{id}")).await;
    assert_eq!(&intent, &error["payment_intent"]);
    assert_eq!(intent["status"], "requires_payment_method");
    assert_eq!(intent["last_payment_error"]["code"], "card_declined");
    assert_eq!(
        (&intent["amount_received"], &intent["payment_method"]),
        (&json!(0), &json!(null))
    );
    let again = ask(&sandbox, &path, "", "k-2").await;
    assert_eq!(again.0, 400, "the card was taken off");
    let refused = refund(&sandbox, &format!("payment_intent={id}"), "r-1")
        .send()
        .await;
    assert_eq!(refused.unwrap().status(), 400);
    let (status, paid) = ask(&sandbox, &path, "payment_method=pm_card_visa", "k-3").await;
    assert_eq!((status, &paid["last_payment_error"]), (200, &json!(null)));
    assert_ne!(paid["latest_charge"], intent["latest_charge"]);
    sandbox.webhooks_done().await;
    let mut topics: Vec<_> = receiver
        .taken()
        .into_iter()
        .map(|taken| taken.topic)
        .collect();
    topics.sort();
    assert_eq!(
        topics,
        ["payment_intent.payment_failed", "payment_intent.succeeded"]
    );
}

#[tokio::test]
async fn an_intent_may_be_confirmed_as_it_is_made() {
    let sandbox = sandbox().await;
    let form = "amount=1999&currency=usd&confirm=true&payment_method=";
    for (card, status) in [
        ("pm_card_visa", 200),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", 402),
        ("pm_none", 400),
    ] {
        let made = ask(&sandbox, "payment_intents", &format!("{form}{card}"), card).await;
        assert_eq!(made.0, status, "{}", made.1);
    }
    let id = make(
        &sandbox,
        "amount=1999&currency=usd&payment_method=pm_card_visa",
    )
    .await;
    let (_, intent) = payment_get(&sandbox, &format!("payment_intents/{id}")).await;
    assert_eq!(intent["status"], "requires_confirmation");
    let confirmed = ask(
        &sandbox,
        &format!("payment_intents/{id}/confirm"),
        "",
        "k-1",
    )
    .await;
    assert_eq!(confirmed.0, 200);
    for wrong in [
        "amount=0&currency=usd",
        "currency=usd",
        "amount=5",
        "amount=5&currency=abc",
        "amount=5&currency=usd&confirm=true",
        "amount=5&currency=usd&confirm=yes",
    ] {
        assert_eq!(
            ask(&sandbox, "payment_intents", wrong, "k-9").await.0,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn only_an_open_intent_is_canceled() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let id = make(&sandbox, "amount=1999&currency=usd").await;
    let path = format!("payment_intents/{id}/cancel");
    assert_eq!(
        ask(&sandbox, &path, "cancellation_reason=boredom", "k-0")
            .await
            .0,
        400
    );
    let (status, intent) = ask(&sandbox, &path, "cancellation_reason=abandoned", "k-1").await;
    assert_eq!((status, &intent["status"]), (200, &json!("canceled")));
    assert_eq!(intent["cancellation_reason"], "abandoned");
    let (status, body) = ask(&sandbox, &path, "", "k-2").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("payment_intent_unexpected_state"))
    );
    let confirm = format!("payment_intents/{id}/confirm");
    assert_eq!(
        ask(&sandbox, &confirm, "payment_method=pm_card_visa", "k-3")
            .await
            .0,
        400
    );
    sandbox.webhooks_done().await;
    let topics: Vec<_> = receiver
        .taken()
        .into_iter()
        .map(|taken| taken.topic)
        .collect();
    assert_eq!(topics, ["payment_intent.canceled"]);
    assert_eq!(
        ask(&sandbox, "payment_intents/pi_none/cancel", "", "k-4")
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn the_intent_of_a_session_is_its_own() {
    let sandbox = sandbox().await;
    let session = open(&sandbox, MUG).await;
    let id = session["payment_intent"].as_str().unwrap();
    for act in ["confirm", "cancel"] {
        let (status, body) = ask(&sandbox, &format!("payment_intents/{id}/{act}"), "", act).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            status == 400 && message.contains("created by Checkout"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_card_that_wants_its_owner_is_declined_without_them_and_waits_with_them() {
    let sandbox = sandbox().await;
    let id = make(&sandbox, "amount=1999&currency=usd").await;
    let path = format!("payment_intents/{id}/confirm");
    let guarded = "payment_method=pm_card_authenticationRequired";
    let alone = format!("{guarded}&off_session=true");
    let (status, body) = ask(&sandbox, &path, &alone, "k-1").await;
    let error = &body["error"];
    assert_eq!(
        (status, &error["code"], &error["decline_code"]),
        (
            402,
            &json!("authentication_required"),
            &json!("authentication_required")
        )
    );
    assert_eq!(error["payment_intent"]["status"], "requires_payment_method");
    let (status, intent) = ask(&sandbox, &path, guarded, "k-2").await;
    assert_eq!(
        (status, &intent["status"]),
        (200, &json!("requires_action"))
    );
    assert_eq!(sandbox.payment().captures(), [].into());
    let visa = "payment_method=pm_card_visa&off_session=true";
    let (_, intent) = ask(&sandbox, &path, visa, "k-3").await;
    assert_eq!(intent["status"], "succeeded");
}

#[tokio::test]
async fn a_bank_account_pays_later() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let id = make(&sandbox, "amount=1999&currency=usd").await;
    let path = format!("payment_intents/{id}/confirm");
    let bank = "payment_method=pm_usBankAccount_processing";
    let (status, intent) = ask(&sandbox, &path, bank, "k-1").await;
    assert_eq!((status, &intent["status"]), (200, &json!("processing")));
    assert_eq!(intent["amount_received"], 0);
    let (status, body) = ask(&sandbox, &path, bank, "k-2").await;
    assert_eq!(
        (status, &body["error"]["payment_intent"]["status"]),
        (400, &json!("processing"))
    );
    assert!(sandbox.payment().settle(&id));
    assert!(!sandbox.payment().settle(&id), "once");
    assert_eq!(sandbox.payment().captures()[&id], 1);
    sandbox.webhooks_done().await;
    let taken = receiver.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].topic, "payment_intent.succeeded");
}
