//! Samples that were sent to a service are distinguished from its real orders and removed, and nothing of them stays.

use serde_json::{Value, json};

use crate::both::api::endpoints::{add, with_endpoints};
use crate::support::endpoint::StandIn;
use crate::support::operator::{json as printed, parsed, refused, waybill};
use crate::support::order::{body, deliver, order_delivery};
use crate::support::payment::{event, intent};
use crate::support::process::run;
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, service};

/// Sends a sample, and waits until all of its work is done.
async fn trigger(service: &Service, topic: &str) -> Value {
    let sent = send(service, topic).await;
    service.drained().await;
    sent
}

/// Sends a sample as a person does who tries the service.
async fn send(service: &Service, topic: &str) -> Value {
    let address = service.url.trim_start_matches("http://");
    let sent = [
        "trigger",
        topic,
        "--seed",
        "7",
        "--id",
        topic,
        "--shop",
        "shop.example",
        "--listen-addr",
        address,
        "--json",
    ];
    let mut command = waybill(service, &sent);
    command.env("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
    command.env("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
    parsed(&run(command).await)
}

/// How many rows each table has, but for those in which every deed is noted, and the locks of agreements.
async fn rows(service: &Service) -> Vec<(&'static str, i64)> {
    let mut rows = Vec::new();
    for (table, count) in [
        ("orders", "select count(*) as n from orders"),
        (
            "tracking_numbers",
            "select count(*) as n from tracking_numbers",
        ),
        ("refunds", "select count(*) as n from refunds"),
        (
            "inventory_movements",
            "select count(*) as n from inventory_movements",
        ),
        ("customers", "select count(*) as n from customers"),
        ("payments", "select count(*) as n from payments"),
        (
            "payment_retries",
            "select count(*) as n from payment_retries",
        ),
        ("notifications", "select count(*) as n from notifications"),
        ("ledger_entries", "select count(*) as n from ledger_entries"),
        (
            "checkout_sessions",
            "select count(*) as n from checkout_sessions",
        ),
        ("subscriptions", "select count(*) as n from subscriptions"),
        ("invoices", "select count(*) as n from invoices"),
        ("deliveries", "select count(*) as n from deliveries"),
        ("jobs", "select count(*) as n from jobs"),
        ("job_attempts", "select count(*) as n from job_attempts"),
        ("webhook_ids", "select count(*) as n from webhook_ids"),
        ("events", "select count(*) as n from events"),
        (
            "outgoing_webhooks",
            "select count(*) as n from outgoing_webhooks",
        ),
    ] {
        rows.push((table, service.count(count).await));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_removed_with_all_that_came_of_them_and_nothing_else_is() {
    let service = service().start().await;
    // A real order of the same shop, with its payment, and a real test order.
    let mut real = body(1, 0, "paid");
    real["customer"] = json!({"id": 77, "email": "ada@shop.example"});
    real["name"] = json!("#1007");
    deliver(&service, &order_delivery("orders/paid", &real)).await;
    let mut test = body(2, 0, "paid");
    test["test"] = json!(true);
    deliver(&service, &order_delivery("orders/paid", &test)).await;
    deliver(
        &service,
        &event(
            &service,
            "payment_intent.succeeded",
            1,
            &intent("pi_1", "succeeded", 3000, Some("p1")),
        ),
    )
    .await;
    let before = rows(&service).await;
    assert_eq!(service.count("select count(*) as n from payments").await, 1);

    for topic in [
        "orders/create",
        "payment_intent.succeeded",
        "orders/paid",
        "orders/fulfilled",
        "checkout.session.completed",
        "orders/cancelled",
        "charge.refunded",
        "refund.updated",
        "invoice.paid",
        "customer.subscription.updated",
        "charge.dispute.created",
    ] {
        trigger(&service, topic).await;
    }
    let with = rows(&service).await;
    let more = before
        .iter()
        .zip(&with)
        .filter(|(before, with)| with.1 > before.1);
    assert!(more.count() >= 12, "{with:?}");
    // Their names distinguish them from the real one.
    let listed = printed(&service, &["orders", "list"]).await;
    let names = listed["items"].as_array().unwrap().iter();
    let mut names: Vec<&str> = names.filter_map(|it| it["name"].as_str()).collect();
    names.sort_unstable();
    assert!(
        names.contains(&"#1007") && names.contains(&"#TEST-1007"),
        "{names:?}"
    );
    // A test order is not sent.
    let requested = "select count(*) as n from jobs where kind like 'fulfillments/%' and id in (select id from deliveries where object_id = '5000000000000700')";
    assert_eq!(service.count(requested).await, 0);

    let (code, said) = refused(&service, &["demo", "remove"]).await;
    assert_eq!(code, 2, "{said}");
    let dry = printed(&service, &["demo", "remove", "--dry-run"]).await;
    assert_eq!(
        dry["orders"],
        json!([{"shop": "shop.example", "order_id": "5000000000000700", "name": "#TEST-1007"}])
    );
    let objects = dry["objects"].as_array().unwrap();
    assert!(
        objects.len() > 5
            && objects
                .iter()
                .all(|it| it.as_str().unwrap().contains("_Sample"))
    );
    assert_eq!(rows(&service).await, with, "it changes nothing");

    let removed = printed(&service, &["demo", "remove", "--yes"]).await;
    // Both are gone: the order of the shop, and the one that its payment page made.
    assert_eq!(removed["deleted"]["orders"], 2, "{removed}");
    assert_eq!(removed["deleted"]["payments"], 1, "{removed}");
    assert_eq!(rows(&service).await, before, "{removed}");
    let order = printed(&service, &["orders", "show", "#1007"]).await;
    assert_eq!(order["order_id"], "1", "{order}");
    let audit = "select count(*) as n from audit where action = 'samples.removed'";
    assert_eq!(service.count(audit).await, 2);
    let again = printed(&service, &["demo", "remove", "--yes"]).await;
    assert_eq!(again, json!({"orders": [], "objects": [], "deleted": {}}));

    // The same samples can be sent again, and are no duplicates.
    let sent = trigger(&service, "orders/create").await;
    assert_eq!(sent["order"]["name"], "#TEST-1007", "{sent}");
    service.stop().await;
}

/// Each kind of sample is found on its own, whatever else came or did not.
#[tokio::test(flavor = "multi_thread")]
async fn every_sample_alone_is_found_and_removed() {
    let service = service().start().await;
    let before = rows(&service).await;
    for topic in sandbox::sample::payment_types()
        .into_iter()
        .chain(["orders/create", "orders/cancelled"])
    {
        trigger(&service, topic).await;
        let with = rows(&service).await;
        assert_ne!(with, before, "{topic}");
        let removed = printed(&service, &["demo", "remove", "--yes"]).await;
        assert_eq!(rows(&service).await, before, "{topic}: {removed}");
    }
    service.stop().await;
}

/// What waited for an endpoint goes with the samples, so that what comes later is sent.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_sample_waits_for_an_endpoint_any_more() {
    let stand_in = StandIn::start(500).await;
    let service = with_endpoints().start().await;
    add(&service, &stand_in.url).await;
    send(&service, "orders/create").await;
    eventually("its events wait", async || {
        service
            .count("select count(*) as n from outgoing_webhooks")
            .await
            > 0
    })
    .await;
    printed(&service, &["demo", "remove", "--yes"]).await;
    assert_eq!(
        service
            .count("select count(*) as n from outgoing_webhooks")
            .await,
        0
    );
    stand_in.is(200);
    send(&service, "orders/create").await;
    eventually("what comes later is sent", async || {
        !stand_in.ids().is_empty()
    })
    .await;
    service.stop().await;
}

/// An order of a storefront whose ids are as large as those of samples is none, unless it has the name of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_order_with_such_an_id_stays() {
    let service = service().start().await;
    let mut order = body(1, 0, "paid");
    order["id"] = json!(5_000_000_000_000_700_i64);
    deliver(&service, &order_delivery("orders/paid", &order)).await;
    let removed = printed(&service, &["demo", "remove", "--yes"]).await;
    assert_eq!(removed, json!({"orders": [], "objects": [], "deleted": {}}));
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    service.stop().await;
}
