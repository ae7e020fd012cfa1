//! Money that goes back and comes again: refunds that fail days after they were made, what a bank takes back, and
//! subscriptions that end before the time that was paid.

use std::time::Duration;

use sandbox::{Fault, PAYMENT_KEY};
use serde_json::{Value, json};

use crate::both::orders::providers::{cancel_with_payment, capture, refund, sandbox, with_payment};
use crate::support::delivery::SHOP;
use crate::support::operator::items as listed_by;
use crate::support::order::{
    CAPTURED, body, cancelled, captured, deliver, events as of_order, kinds, naming_agreement,
    order_delivery, post_all, shown, times, with,
};
use crate::support::payment::{balances, charge, event, events, intent, session};
use crate::support::{eventually, service};

fn dispute(status: &str, cents: i64) -> Value {
    json!({
        "id": "dp_1", "object": "dispute", "payment_intent": "pi_1", "charge": "ch_pi_1", "amount": cents,
        "currency": "usd", "status": status, "reason": "fraudulent", "metadata": {},
    })
}

#[tokio::test]
async fn a_refund_that_the_bank_refuses_days_later_is_owed_again_and_somebody_hears() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    cancel_with_payment(&service, &sandbox, 7).await;
    service.settled().await;
    let issued = refund(&service, 7).await;
    assert_eq!(issued["state"], "issued");
    let id = issued["refund_id"].as_str().unwrap();
    let all = charge("pi_7", CAPTURED, CAPTURED);
    deliver(&service, &event(&service, "charge.refunded", 20, &all)).await;
    let released = "released:7".to_owned();
    assert_eq!(balances(service.db()).await.get(&released), None);
    let failed = json!({
        "id": id, "object": "refund", "payment_intent": "pi_7", "charge": "ch_pi_7", "amount": CAPTURED,
        "currency": "usd", "status": "failed", "failure_reason": "lost_or_stolen_card",
    });
    let mut failed_later = failed.clone();
    failed_later["created"] = json!(crate::support::payment::CREATED + 20);
    // Each of these says the same.
    for (nth, kind) in ["refund.failed", "refund.updated", "charge.refund.updated"]
        .iter()
        .enumerate()
    {
        let nth = 90 + i64::try_from(nth).unwrap();
        deliver(&service, &event(&service, kind, nth, &failed_later)).await;
    }
    let owed = refund(&service, 7).await;
    assert_eq!(
        (&owed["state"], &owed["refund_id"]),
        (&json!("failed"), &json!(id))
    );
    assert_eq!(balances(service.db()).await[&released], CAPTURED);
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.refund_failed"), 1, "{kinds:?}");
    let of_payment = events(service.db(), "pi_7").await;
    let failures: Vec<&Value> = of_payment
        .iter()
        .filter(|(kind, _)| kind == "payment.refund_failed")
        .map(|(_, body)| &body["refunded"])
        .collect();
    assert_eq!(failures, [&json!("0.00")]);
    let held = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(held[0]["reason"], "refund_failed", "{held}");
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn what_a_bank_has_taken_for_good_is_owed_to_nobody() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    let key = service.api_key().await;
    let order = with(body(1, 0, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let paid = intent("pi_1", "succeeded", 3000, Some("p1"));
    deliver(
        &service,
        &event(&service, "payment_intent.succeeded", 1, &paid),
    )
    .await;
    let opened = event(
        &service,
        "charge.dispute.created",
        2,
        &dispute("needs_response", 3000),
    );
    deliver(&service, &opened).await;
    let lost = event(&service, "charge.dispute.closed", 3, &dispute("lost", 3000));
    deliver(&service, &lost).await;
    let gone = with(cancelled(1, 4, "paid"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    service.settled().await;
    let order = shown(&service, &key, SHOP, 1).await;
    let owed: Vec<&Value> = order["refunds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["state"])
        .collect();
    assert_eq!(owed, [&json!("already_refunded")], "{order}");
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        0,
        "nothing is asked for"
    );
    let books = balances(service.db()).await;
    assert_eq!(books.get("disputed"), Some(&3000), "{books:?}");
    let told: Vec<String> = events(service.db(), "pi_1")
        .await
        .into_iter()
        .map(|(kind, _)| kind)
        .collect();
    assert!(
        told.ends_with(&["payment.disputed".into(), "payment.dispute_lost".into()]),
        "{told:?}"
    );
    // It is won after all.
    let won = event(&service, "charge.dispute.closed", 9, &dispute("won", 3000));
    deliver(&service, &won).await;
    let books = balances(service.db()).await;
    assert_eq!(
        (books.get("disputed"), books.get("released:p1")),
        (None, Some(&3000))
    );
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn a_disputed_payment_of_a_cancelled_order_goes_back_only_when_it_is_won() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    capture(&sandbox, 1, "1");
    deliver(&service, &captured(service.clock().now(), 1, "1")).await;
    let opened = dispute("needs_response", CAPTURED);
    let opened = event(&service, "charge.dispute.created", 2, &opened);
    deliver(&service, &opened).await;
    let gone = order_delivery("orders/cancelled", &cancelled(1, 4, "paid"));
    deliver(&service, &gone).await;
    // The provider refuses it while the bank has the money, and nobody else may give it back.
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    let key = service.api_key().await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["refunds"], json!([]));
    let won = event(
        &service,
        "charge.dispute.closed",
        9,
        &dispute("won", CAPTURED),
    );
    deliver(&service, &won).await;
    assert_eq!(refund(&service, 1).await["state"], "issued");
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn a_refund_that_was_asked_for_is_not_made_while_the_payment_is_disputed() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    let provider = sandbox.payment();
    provider.fault_injector.fail(Fault::Status(503));
    cancel_with_payment(&service, &sandbox, 1).await;
    eventually("the refund was asked for in vain", async || {
        service.pass(Duration::from_secs(5)).await;
        service
            .count("select count(*) as n from jobs where last_error like '%503%'")
            .await
            == 1
    })
    .await;
    let opened = dispute("needs_response", CAPTURED);
    let opened = event(&service, "charge.dispute.created", 2, &opened);
    post_all(&service, &[opened]).await;
    let key = service.api_key().await;
    eventually("it is asked for no more", async || {
        shown(&service, &key, SHOP, 1).await["refunds"] == json!([])
    })
    .await;
    provider.fault_injector.clear_faults();
    service.pass(Duration::from_hours(1)).await;
    service.settled().await;
    assert_eq!(provider.refunded("pi_1"), 0);
    let won = dispute("won", CAPTURED);
    deliver(&service, &event(&service, "charge.dispute.closed", 9, &won)).await;
    assert_eq!(refund(&service, 1).await["state"], "issued");
    assert_eq!(provider.refunded("pi_1"), CAPTURED);
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn what_is_not_shipped_waits_until_a_dispute_is_decided() {
    let service = service().start().await;
    let key = service.api_key().await;
    let order = with(body(1, 0, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let paid = intent("pi_1", "succeeded", 3000, Some("p1"));
    let needs_response = dispute("needs_response", 3000);
    let won = dispute("won", 3000);
    for (nth, kind, object, state) in [
        (1, "payment_intent.succeeded", &paid, "requested"),
        (2, "charge.dispute.created", &needs_response, "initiated"),
        (3, "charge.dispute.closed", &won, "requested"),
    ] {
        deliver(&service, &event(&service, kind, nth, object)).await;
        let order = shown(&service, &key, SHOP, 1).await;
        assert_eq!(order["fulfillment"]["state"], state, "{kind}");
    }
    let told = of_order(service.db(), SHOP, 1).await;
    let told = told
        .iter()
        .filter(|(kind, _)| kind.starts_with("order.fulfillment"));
    let told: Vec<_> = told
        .map(|(kind, body)| (kind.as_str(), &body["lines"]))
        .collect();
    let lines = told[0].1;
    assert!(
        lines.as_array().is_some_and(|it| !it.is_empty()),
        "{told:?}"
    );
    assert_eq!(
        told,
        [
            ("order.fulfillment_requested", lines),
            ("order.fulfillment_cancelled", lines),
            ("order.fulfillment_requested", lines),
        ]
    );
    service.stop().await;
}

#[tokio::test]
async fn a_session_that_is_paid_days_later_is_an_order_to_ship() {
    let service = service().start().await;
    let key = service.api_key().await;
    let unpaid = session(
        "cs_1",
        "unpaid",
        3000,
        &json!({"metadata": {"pact_id": "p1"}}),
    );
    deliver(
        &service,
        &event(&service, "checkout.session.completed", 1, &unpaid),
    )
    .await;
    let (shop, id) = store::orders::checkout_key("p1");
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "pending");
    let paid = session(
        "cs_1",
        "paid",
        3000,
        &json!({"metadata": {"pact_id": "p1"}}),
    );
    for nth in [50, 51] {
        let later = event(
            &service,
            "checkout.session.async_payment_succeeded",
            nth,
            &paid,
        );
        deliver(&service, &later).await;
    }
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "paid");
    let kinds = kinds(service.db(), &shop, id).await;
    assert_eq!(times(&kinds, "order.paid"), 1, "{kinds:?}");
    service.stop().await;
}
