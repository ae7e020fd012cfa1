//! `orders/create`, from the signed delivery to the order's JSON and a QR code that a reader can
//! read.

use std::process::Command;

use domain::job::State;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use store::events;

use crate::support::backend::is_distributed;
use crate::support::delivery::{Delivery, SHOP, order, storefront};
use crate::support::order::without_texts;
use crate::support::records::{self, with_page};
use crate::support::{Service, eventually, service};

async fn deliver(service: &Service, delivery: &Delivery) {
    assert_eq!(service.answer(delivery).await.0, 200);
    service.drained().await;
}

async fn shown(service: &Service, key: &str, path: &str) -> (u16, Value) {
    let answer = service.get(path).bearer_auth(key).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, without_texts(answer.json().await.unwrap()))
}

#[tokio::test]
async fn a_signed_webhook_becomes_an_order_with_a_qr_code() {
    let service = service()
        .setting("QR_BASE_URL", "https://track.example")
        .start()
        .await;
    let key = service.api_key().await;
    let body = json!({
        "id": 820_982_911_946_154_508_i64,
        "name": "#1001",
        "email": "canary@example.com",
        "created_at": "2027-01-14T10:00:00-05:00",
        "updated_at": "2027-01-14T15:00:01Z",
        "currency": "USD",
        "total_price": "403.00",
        "subtotal_price": "393.00",
        "total_tax": "10.00",
        "financial_status": "paid",
        "fulfillment_status": null,
        "customer": {"id": 115_310_627_314_723_954_i64, "email": "canary@example.com"},
        "line_items": [
            {"id": 487_817_672_276_298_554_i64, "variant_id": 49_148_385, "title": "Aviator", "quantity": 1, "price": "89.99", "sku": "SKU-1"},
            {"id": 976_318_377_106_520_349_i64, "variant_id": null, "title": "Tote", "quantity": 2, "price": "159.99", "sku": null},
        ],
        "shipping_address": {"first_name": "Canary", "city": "Ottawa"},
    });
    deliver(
        &service,
        &storefront("orders/create", body.to_string()).id("w-1"),
    )
    .await;
    let (status, mut order) =
        shown(&service, &key, "/api/commerce/orders/820982911946154508").await;
    assert_eq!(status, 200);
    for volatile in [
        "/updated_at",
        "/fulfillment/initiated_at",
        "/fulfillment/requested_at",
        "/fulfillment/updated_at",
    ] {
        let time = order.pointer_mut(volatile).unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{volatile}");
        *time = json!("(time)");
    }
    let base = format!("{}/api/commerce/orders/820982911946154508", service.url);
    assert_eq!(
        order,
        json!({
            "order_id": "820982911946154508",
            "id": 820_982_911_946_154_508_i64,
            "shop": SHOP,
            "name": "#1001",
            "financial_status": "paid",
            "payment_status": null,
            "fulfillment_status": null,
            "fulfillment": {
                "state": "requested",
                "provider_state": null,
                "waits_until": null,
                "cycles": [],
                "initiated_at": "(time)",
                "requested_at": "(time)",
                "fulfilled_at": null,
                "cancelled_at": null,
                "updated_at": "(time)",
            },
            "currency": "USD",
            "total_price": "403.00",
            "subtotal_price": "393.00",
            "total_tax": "10.00",
            "total_outstanding": null,
            "owed": "0.00",
            "held": null,
            "payment_terms": null,
            "payment_due_at": null,
            "unread": [],
            "line_items": [
                {"id": 487_817_672_276_298_554_i64, "variant_id": 49_148_385, "title": "Aviator", "quantity": 1, "price": "89.99", "sku": "SKU-1", "fulfillment_status": null, "current_quantity": 1,
                 "to_ship": 1, "fulfillment_service": null},
                {"id": 976_318_377_106_520_349_i64, "variant_id": null, "title": "Tote", "quantity": 2, "price": "159.99", "sku": null, "fulfillment_status": null, "current_quantity": 2,
                 "to_ship": 2, "fulfillment_service": null},
            ],
            "tracking": {
                "url": "https://track.example/orders/820982911946154508/track",
                "qr_png": format!("{base}/qr.png?shop={SHOP}"),
                "qr_svg": format!("{base}/qr.svg?shop={SHOP}"),
            },
            "shipments": [],
            "refunds": [],
            "storefront_refunds": [],
            "restocked": [],
            "created_at": "2027-01-14T15:00:00.000Z",
            "cancelled_at": null,
            "cancel_reason": null,
            "superseded_by": null,
            "test": false,
            "updated_at": "(time)",
        })
    );
    let qr = service
        .get("/api/commerce/orders/820982911946154508/qr.png")
        .bearer_auth(&key);
    let png = qr.send().await.unwrap();
    assert_eq!(png.headers()["content-type"], "image/png");
    let read = zbar(&png.bytes().await.unwrap());
    assert_eq!(
        read,
        b"https://track.example/orders/820982911946154508/track"
    );
    let svg = service
        .get("/api/commerce/orders/820982911946154508/qr.svg")
        .bearer_auth(&key);
    let svg = svg.send().await.unwrap();
    assert_eq!(svg.headers()["content-type"], "image/svg+xml");
    assert!(svg.text().await.unwrap().contains("<svg"));
    let happened = events::kinds(service.db(), SHOP, "820982911946154508")
        .await
        .unwrap();
    assert_eq!(
        happened,
        ["order.created", "order.paid", "order.fulfillment_requested"]
    );
    let event = service
        .db()
        .query("select body from events order by position")
        .fetch_one()
        .await
        .unwrap();
    let event: String = event.get("body").unwrap();
    assert!(!event.contains("anary"), "no personal data in {event}");
    service.stop().await;
}

/// What a real decoder reads from a picture.
pub fn zbar(png: &[u8]) -> Vec<u8> {
    let file = tempfile::Builder::new().suffix(".png").tempfile().unwrap();
    std::fs::write(file.path(), png).unwrap();
    let read = Command::new("zbarimg")
        .args(["-q", "--raw", "-Sbinary"])
        .arg(file.path())
        .output()
        .expect("zbarimg runs; scripts/services install zbar-tools brings it");
    assert!(read.status.success(), "zbarimg finds a symbol");
    read.stdout
}

#[tokio::test]
async fn an_order_delivered_again_under_other_ids_is_still_one_order() {
    let service = service().start().await;
    for id in ["w-1", "w-2", "w-3"] {
        deliver(&service, &order("orders/create", 1).id(id)).await;
    }
    assert_eq!(service.jobs(State::Done).await, 3);
    for counted in [
        "select count(*) as n from orders",
        "select count(*) as n from events",
        "select count(*) as n from customers",
    ] {
        assert_eq!(service.count(counted).await, 1, "{counted}");
    }
    assert_eq!(with_page(service.db()).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn an_order_of_which_a_delivery_says_nothing_new_is_neither_locked_nor_written() {
    let service = service().start().await;
    let updated_at = "select updated_at as n from orders";
    deliver(&service, &order("orders/create", 1).id("w-1")).await;
    let written_at = service.count(updated_at).await;
    // SQLite has one writer, so there only the row can show it.
    let mut held = None;
    if is_distributed() {
        let mut tx = service.db().begin().await.unwrap();
        let rows = tx.query("select id from orders for update").fetch_all();
        assert_eq!(rows.await.unwrap().len(), 1);
        held = Some(tx);
    }
    deliver(&service, &order("orders/create", 1).id("w-2")).await;
    assert_eq!(service.jobs(State::Done).await, 2);
    assert_eq!(service.count(updated_at).await, written_at);
    drop(held);
    service.stop().await;
}

#[tokio::test]
async fn the_newest_version_of_an_order_stays_whatever_comes_later() {
    let service = service().start().await;
    let key = service.api_key().await;
    let version = |updated_at: &str, name: &str, lines: usize| {
        let lines: Vec<Value> = (1..=lines)
            .map(|id| json!({"id": id, "quantity": 1, "title": "x"}))
            .collect();
        let body = json!({"id": 7, "updated_at": updated_at, "name": name, "line_items": lines});
        storefront("orders/create", body.to_string())
    };
    deliver(&service, &version("2027-01-02T00:00:00Z", "second", 3)).await;
    deliver(&service, &version("2027-01-01T00:00:00Z", "first", 5)).await;
    let (_, order) = shown(&service, &key, "/api/commerce/orders/7").await;
    assert_eq!(
        (
            &order["name"],
            order["line_items"].as_array().unwrap().len()
        ),
        (&json!("second"), 3)
    );
    deliver(&service, &version("2027-01-02T01:00:00+00:30", "third", 1)).await;
    let (_, order) = shown(&service, &key, "/api/commerce/orders/7").await;
    assert_eq!(
        (
            &order["name"],
            order["line_items"].as_array().unwrap().len()
        ),
        (&json!("third"), 1)
    );
    service.stop().await;
}

#[tokio::test]
async fn every_sample_order_of_the_provider_goes_through_without_a_dead_job() {
    let service = service().start().await;
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../common/domain/tests/fixtures/storefront"
    );
    let mut orders = 0;
    for entry in files_below(folder.as_ref()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("orders_") && !name.contains("edited") {
            let body = std::fs::read(&entry).unwrap();
            let shop = format!("sample-{orders}.example");
            let delivery =
                storefront("orders/create", body).header("X-Storefront-Shop-Domain", shop);
            deliver(&service, &delivery).await;
            orders += 1;
        }
    }
    assert!(orders >= 6, "the samples are there");
    assert_eq!(service.jobs(State::Dead).await, 0);
    assert_eq!(
        service.count("select count(*) as n from orders").await,
        orders
    );
    assert_eq!(with_page(service.db()).await, orders);
    service.stop().await;
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn a_body_that_is_no_order_is_a_dead_job_that_says_why_and_not_whose() {
    let service = service().start().await;
    let body = json!({"email": "canary@example.com", "id": "canary@example.com"});
    deliver(&service, &storefront("orders/create", body.to_string())).await;
    let job = service
        .db()
        .query(
            "select state, last_error, body from jobs join deliveries on deliveries.id = jobs.id",
        )
        .fetch_one()
        .await
        .unwrap();
    assert_eq!(job.get::<String>("state").unwrap(), "dead");
    let error: String = job.get("last_error").unwrap();
    assert!(error.contains("id") && !error.contains("canary"), "{error}");
    assert!(
        job.get::<Option<Vec<u8>>>("body").unwrap().is_some(),
        "nothing is lost"
    );
    service.stop().await;
}

#[tokio::test]
async fn two_shops_with_one_order_id_never_mix() {
    let service = service().start().await;
    let key = service.api_key().await;
    let from = |shop: &str, name: &str| {
        let body = json!({"id": 7, "name": name, "updated_at": "2027-01-01T00:00:00Z"});
        storefront("orders/create", body.to_string()).header("X-Storefront-Shop-Domain", shop)
    };
    deliver(&service, &from("a.example", "A")).await;
    deliver(&service, &from("b.example", "B")).await;
    let (status, answer) = shown(&service, &key, "/api/commerce/orders/7").await;
    assert_eq!(
        (
            status,
            answer["detail"].as_str().unwrap().contains("?shop=")
        ),
        (409, true)
    );
    for (shop, name) in [("a.example", "A"), ("b.example", "B")] {
        let (status, order) = shown(
            &service,
            &key,
            &format!("/api/commerce/orders/7?shop={shop}"),
        )
        .await;
        assert_eq!((status, order["name"].as_str().unwrap()), (200, name));
    }
    for (query, expected) in [
        ("shop=", 404),
        ("shop=c.example", 404),
        ("shop=a+shop", 422),
        ("shop=a.example&shop=b.example", 422),
    ] {
        let path = format!("/api/commerce/orders/7?{query}");
        assert_eq!(shown(&service, &key, &path).await.0, expected, "{query}");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_order_whose_times_have_another_form_of_iso_8601_is_stored() {
    let service = service().start().await;
    for (id, updated_at) in [
        (1, "2027-01-01T00:00:00"),
        (2, "2027-01-01T00:00:00+0000"),
        (3, "2027-01-01 00:00:00.000001"),
        (4, "2026-12-31T19:00:00-05"),
        (5, "2027-01-01"),
    ] {
        let body = json!({"id": id, "updated_at": updated_at});
        deliver(&service, &storefront("orders/create", body.to_string())).await;
    }
    assert_eq!(service.jobs(State::Dead).await, 0);
    let orders = records::orders(service.db()).await;
    let of_then = orders.iter();
    let of_then = of_then.filter(|(_, order)| order.version.at == 1_798_761_600_000);
    assert_eq!(
        of_then.count(),
        5,
        "each is the year's first instant in UTC"
    );
    let none = json!({"id": 6, "updated_at": "soon"});
    deliver(&service, &storefront("orders/create", none.to_string())).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let key = service.api_key().await;
    let order = shown(&service, &key, "/api/commerce/orders/6").await.1;
    assert_eq!(order["unread"], json!(["updated_at"]));
    service.stop().await;
}

#[tokio::test]
async fn where_shops_are_listed_no_other_shops_delivery_is_taken() {
    let service = service()
        .setting("STOREFRONT_SHOPS", "Shop.example")
        .start()
        .await;
    let body = json!({"id": 7, "updated_at": "2027-01-01T00:00:00Z"}).to_string();
    let delivery = storefront("orders/create", body);
    let foreign = delivery
        .clone()
        .header("X-Storefront-Shop-Domain", "other.example");
    let (status, answer) = service.answer(&foreign).await;
    assert_eq!(status, 422);
    assert!(answer.contains("STOREFRONT_SHOPS"), "{answer}");
    deliver(&service, &delivery.clone().id("w-1")).await;
    deliver(&service, &delivery.without("X-Storefront-Shop-Domain")).await;
    let shops = "select count(*) as n from orders where shop = 'shop.example'";
    assert_eq!(service.count(shops).await, 1);
    let orders = service.count("select count(*) as n from orders").await;
    assert_eq!(orders, 1, "without the header it is of the only shop");
    service.stop().await;
}

#[tokio::test]
async fn a_delivery_without_a_shop_belongs_to_the_one_shop_that_has_the_order() {
    let service = service().start().await;
    let named = |name: &str| {
        let body = json!({"id": 7, "name": name, "updated_at": "2027-01-01T00:00:00Z"});
        storefront("orders/create", body.to_string())
    };
    deliver(&service, &named("first")).await;
    deliver(
        &service,
        &named("second").without("X-Storefront-Shop-Domain"),
    )
    .await;
    assert_eq!(
        service
            .count(
                "select count(*) as n from orders where name = 'second' and shop = 'shop.example'"
            )
            .await,
        1
    );
    let other = json!({"id": 8, "updated_at": "2027-01-01T00:00:00Z"}).to_string();
    deliver(
        &service,
        &storefront("orders/create", other).without("X-Storefront-Shop-Domain"),
    )
    .await;
    assert_eq!(
        service
            .count("select count(*) as n from orders where id = 8 and shop = ''")
            .await,
        1
    );
    service.stop().await;
}

#[tokio::test]
async fn an_order_that_arrives_cancelled_is_never_fulfilled() {
    let service = service().start().await;
    let body = json!({"id": 7, "cancelled_at": "2027-01-01T00:00:00Z", "updated_at": "2027-01-01T00:00:00Z"});
    deliver(&service, &storefront("orders/create", body.to_string())).await;
    assert_eq!(
        service
            .count("select count(*) as n from orders where state = 'cancelled'")
            .await,
        1
    );
    service.stop().await;
}

#[tokio::test]
async fn the_orders_api_wants_a_key_and_an_order() {
    let service = service().start().await;
    let key = service.api_key().await;
    deliver(&service, &order("orders/create", 1)).await;
    let id = service.count("select id as n from orders").await;
    let path = format!("/api/commerce/orders/{id}");
    let invalid = r#"{"detail":"Invalid API key"}"#;
    let other = if key.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{other}", &key[..key.len() - 1]);
    for header in [
        None,
        Some("Bearer"),
        Some("Bearer "),
        Some("Basic abc"),
        Some("Bearer wb_"),
        Some(&format!("Bearer {wrong}")),
    ] {
        let mut request = service.get(&path);
        if let Some(header) = header {
            request = request.header("Authorization", header);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401, "{header:?}");
        assert_eq!(answer.headers()["x-error-code"], "AUTH_001");
        assert_eq!(answer.text().await.unwrap(), invalid);
    }
    assert_eq!(shown(&service, &key, &path).await.0, 200);
    let (status, body) = shown(&service, &key, "/api/commerce/orders/404404").await;
    assert_eq!((status, body), (404, json!({"detail": "Order not found"})));
    for no_id in ["x", "A-17", "0", "-7", "9223372036854775808", "%FF"] {
        let path = format!("/api/commerce/orders/{no_id}");
        let answer = service.get(&path).bearer_auth(&key).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{no_id}");
        assert_eq!(answer.headers()["x-error-code"], "COMMERCE_006", "{no_id}");
        assert_eq!(
            answer.text().await.unwrap(),
            r#"{"detail":"Order not found"}"#
        );
    }
    service.execute("update api_keys set expires_at = 1").await;
    assert_eq!(shown(&service, &key, &path).await.0, 401, "an expired key");
    service
        .execute("update api_keys set expires_at = null, revoked_at = 1")
        .await;
    assert_eq!(shown(&service, &key, &path).await.0, 401, "a revoked key");
    service.stop().await;
}

#[tokio::test]
async fn a_thousand_orders_that_arrive_together_are_a_thousand_orders() {
    // All come from one network, which has an eighth of the connections.
    let service = service().setting("MAX_CONNECTIONS", "16384");
    let service = service.start().await;
    let deliveries = (0..1000).map(|seed| {
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        let service = &service;
        async move { assert_eq!(service.answer(&delivery).await.0, 200) }
    });
    // As many as fit into a batch. All thousand would each wait for the others' share of a busy processor.
    let sent = futures_util::stream::iter(deliveries).buffer_unordered(256);
    sent.collect::<()>().await;
    eventually("all are done", async || {
        service.jobs(State::Ready).await == 0
    })
    .await;
    for counted in [
        "select count(*) as n from orders",
        "select count(*) as n from orders where state = 'initiated'",
        "select count(*) as n from events",
    ] {
        assert_eq!(service.count(counted).await, 1000, "{counted}");
    }
    assert_eq!(with_page(service.db()).await, 1000);
    service.stop().await;
}
