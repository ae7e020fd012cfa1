//! What the provider documents and was recorded of orders is shown as it is.

use domain::job::State;
use serde_json::{Value, json};

use crate::orders::topics::{cut, cut_to, sample_named, samples, snapshot};
use crate::support::delivery::{Delivery, SHOP};
use crate::support::order::{
    TOPICS, cancelled, deliver, fulfilment, order_delivery, post_all, shown, with,
};
use crate::support::service;

fn each_line(body: &mut Value, change: impl Fn(&mut Value)) {
    let lines = body["line_items"].as_array_mut().unwrap();
    lines.iter_mut().for_each(change);
}

type Variation = (&'static str, fn(&mut Value));

/// What real bodies have done to the documented one.
fn variations() -> Vec<Variation> {
    vec![
        ("as it is", |_| {}),
        ("no e-mail", |body| {
            cut(body, &["email", "contact_email", "phone"]);
            if let Some(customer) = body["customer"].as_object_mut() {
                customer.retain(|key, _| key == "id");
            }
        }),
        ("no customer", |body| cut(body, &["email", "customer"])),
        ("addresses are null", |body| {
            body["shipping_address"] = Value::Null;
            body["billing_address"] = Value::Null;
        }),
        ("addresses are missing", |body| {
            cut(body, &["shipping_address", "billing_address"]);
        }),
        ("half an address", |body| {
            body["shipping_address"] = json!({"country": "Canada", "province": null});
        }),
        ("no SKU and no variant", |body| {
            each_line(body, |line| {
                line["sku"] = Value::Null;
                line["variant_id"] = Value::Null;
            });
        }),
        ("the SKU and the variant are missing", |body| {
            each_line(body, |line| cut(line, &["sku", "variant_id"]));
        }),
        ("partially refunded", |body| {
            body["financial_status"] = json!("partially_refunded");
        }),
        ("restocked", |body| {
            body["fulfillment_status"] = json!("restocked");
        }),
        ("statuses nobody has heard of", |body| {
            body["financial_status"] = json!("settled_in_kind");
            body["fulfillment_status"] = json!("on_a_ship");
        }),
        ("ids above 2^53", |body| {
            body["id"] = json!(9_007_199_254_740_993_i64);
            each_line(body, |line| {
                let id = line["id"].as_i64().unwrap();
                line["id"] = json!(i64::MAX - id % 1000);
            });
        }),
        ("numbers in a refund", |body| {
            let line = body["line_items"][0]["id"].clone();
            body["refunds"] = json!([{
                "id": 1,
                "transactions": [{"id": 3, "kind": "refund", "status": "success", "amount": 10.5}],
                "refund_line_items": [{
                    "id": 2, "line_item_id": line, "quantity": 1, "restock_type": "no_restock",
                    "subtotal": 586.45, "total_tax": 0,
                }],
            }]);
        }),
        ("hardly a field", |body| {
            cut_to(body, &["id", "created_at", "updated_at"]);
        }),
        ("nothing but the id", |body| {
            cut_to(body, &["id"]);
        }),
        ("no amounts", |body| {
            cut(
                body,
                &[
                    "currency",
                    "total_price",
                    "subtotal_price",
                    "total_tax",
                    "total_outstanding",
                ],
            );
        }),
        ("fields of years to come", |body| {
            body["returns"] = json!([{"id": {"of": ["what", 1, null]}}]);
            body["order_id_of_partner"] = json!("x");
            each_line(body, |line| line["groups"] = json!([[[]]]));
        }),
    ]
}

/// Decimal text as hundredths; none where nothing is given.
fn hundredths(amount: &Value) -> i64 {
    let amount = amount.as_str().unwrap_or("0").replace('.', "");
    amount.parse().unwrap()
}

fn each_line_says_fulfilled(body: &Value) -> bool {
    let lines = body["line_items"].as_array();
    let fulfilled = json!("fulfilled");
    lines.is_some_and(|lines| {
        !lines.is_empty()
            && lines
                .iter()
                .all(|line| line["fulfillment_status"] == fulfilled)
    })
}

/// Whether refunds took every unit off, so that nothing is left to be sent.
fn is_all_refunded(body: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let refunds = list(&body["refunds"]);
    let refunded: Vec<Value> = refunds
        .iter()
        .flat_map(|it| list(&it["refund_line_items"]))
        .collect();
    let is_left = |line: &Value| {
        let of_line = refunded
            .iter()
            .filter(|it| it["line_item_id"] == line["id"]);
        let units: i64 = of_line.filter_map(|it| it["quantity"].as_i64()).sum();
        line["quantity"]
            .as_i64()
            .is_none_or(|ordered| ordered > units)
    };
    let lines = list(&body["line_items"]);
    !lines.is_empty() && !lines.iter().any(is_left)
}

/// What must be shown of an order of which this body is all that came. The body decides; the
/// topic counts for a status that was cut.
fn check_shown(shown: &Value, body: &Value, topic: &str, case: &str) {
    let text = |key: &str| body[key].as_str().filter(|text| !text.is_empty());
    let by_topic = |key: &str, of: &str| body.get(key).is_none() && topic == of;
    let financial = if by_topic("financial_status", "orders/paid") {
        Some("paid")
    } else {
        text("financial_status")
    };
    let fulfillment = if by_topic("fulfillment_status", "orders/fulfilled") {
        Some("fulfilled")
    } else {
        text("fulfillment_status")
    };
    let is_cancelled =
        by_topic("cancelled_at", "orders/cancelled") || text("cancelled_at").is_some();
    // When a part was given back, the amounts say whether the rest was paid.
    let has_amounts = ["total_price", "currency", "total_outstanding"];
    let has_amounts = has_amounts.iter().all(|key| text(key).is_some());
    let is_open = financial == Some("partially_refunded")
        && has_amounts
        && hundredths(&body["total_outstanding"]) > 0;
    let is_paid = matches!(financial, Some("paid" | "partially_refunded" | "refunded")) && !is_open;
    let state = if is_cancelled {
        "cancelled"
    } else if fulfillment == Some("fulfilled") {
        "fulfilled"
    } else if financial == Some("refunded") {
        "cancelled"
    } else if is_paid && each_line_says_fulfilled(body) {
        "fulfilled"
    } else if is_paid && is_all_refunded(body) {
        "cancelled"
    } else if is_paid {
        "requested"
    } else {
        "initiated"
    };
    assert_eq!(shown["fulfillment"]["state"], state, "{case}");
    assert_eq!(shown["financial_status"], json!(financial), "{case}");
    assert_eq!(shown["fulfillment_status"], json!(fulfillment), "{case}");
    assert_eq!(shown["cancelled_at"].is_string(), is_cancelled, "{case}");
    assert_eq!(
        shown["cancel_reason"],
        json!(text("cancel_reason")),
        "{case}"
    );
    assert_eq!(shown["order_id"], body["id"].to_string(), "{case}");
    assert_eq!(shown["name"], json!(text("name")), "{case}");
    for amount in [
        "total_price",
        "subtotal_price",
        "total_tax",
        "total_outstanding",
        "currency",
    ] {
        assert_eq!(shown[amount], json!(text(amount)), "{case}: {amount}");
    }
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let of_line = |line: &Value| {
        let sku = line["sku"].as_str().filter(|sku| !sku.is_empty());
        json!([
            line["id"],
            line["quantity"],
            line["variant_id"],
            sku,
            line["title"]
        ])
    };
    let as_shown = |line: &Value| {
        json!([
            line["id"],
            line["quantity"],
            line["variant_id"],
            line["sku"],
            line["title"]
        ])
    };
    let lines: Vec<Value> = list(&body["line_items"]).iter().map(of_line).collect();
    let shown_lines: Vec<Value> = list(&shown["line_items"]).iter().map(as_shown).collect();
    assert_eq!(shown_lines, lines, "{case}");
    let numbers = |value: &Value| -> Vec<Value> {
        let fulfillments = list(value);
        let numbers = fulfillments
            .iter()
            .flat_map(|it| list(&it["tracking_numbers"]));
        numbers.collect()
    };
    let shown_numbers: Vec<Value> = list(&shown["shipments"])
        .iter()
        .flat_map(|shipment| list(&shipment["parcels"]))
        .map(|parcel| parcel["tracking_number"].clone())
        .collect();
    assert_eq!(shown_numbers, numbers(&body["fulfillments"]), "{case}");
    if is_cancelled && is_paid {
        let minor = |amount: &Value| {
            let reported = amount.as_str().filter(|text| !text.is_empty());
            reported.map_or(0, |_| hundredths(amount))
        };
        let back: i64 = list(&shown["storefront_refunds"])
            .iter()
            .map(|refund| minor(&refund["amount"]))
            .sum();
        let price = match text("current_total_price") {
            Some(_) => minor(&body["current_total_price"]),
            None => minor(&body["total_price"]) - back,
        };
        let outstanding = minor(&body["total_outstanding"]);
        let is_sample = financial == Some("paid") && outstanding >= price;
        let kept = match financial {
            Some("refunded") => 0,
            _ if is_sample => price,
            _ => (price - outstanding).max(0),
        };
        let is_known = text("total_price").is_some() && text("currency").is_some();
        let is_nothing = is_known && kept == 0;
        let (state, minor) = if is_nothing || financial == Some("refunded") {
            ("already_refunded", back)
        } else {
            ("recorded", kept)
        };
        let amount = (is_known && minor > 0).then(|| format!("{}.{:02}", minor / 100, minor % 100));
        let refunds = list(&shown["refunds"]);
        if is_nothing && back == 0 && financial != Some("refunded") {
            assert_eq!(refunds, [Value::Null; 0], "{case}");
        } else {
            assert_eq!(refunds.len(), 1, "{case}");
            assert_eq!(refunds[0]["state"], state, "{case}");
            assert_eq!(refunds[0]["payment_id"], Value::Null, "{case}");
            assert_eq!(refunds[0]["amount"], json!(amount), "{case}");
        }
    } else {
        assert_eq!(shown["refunds"], json!([]), "{case}");
    }
    // In these bodies a line is shipped as a whole or not at all.
    let shipped = !list(&body["fulfillments"]).is_empty();
    let refunds = list(&body["refunds"]);
    let written_off = |line: &Value| -> i64 {
        let lines = refunds.iter().flat_map(|it| list(&it["refund_line_items"]));
        lines
            .filter(|it| it["line_item_id"] == line["id"] && it["restock_type"] == "no_restock")
            .map(|it| it["quantity"].as_i64().unwrap())
            .sum()
    };
    let mut restocked: Vec<(i64, i64)> = list(&body["line_items"])
        .iter()
        .filter(|_| is_cancelled && !shipped)
        .map(|line| {
            let units = line["quantity"].as_i64().unwrap() - written_off(line);
            (line["id"].as_i64().unwrap(), units)
        })
        .filter(|(_, units)| *units > 0)
        .collect();
    restocked.sort_unstable();
    let restocked: Vec<Value> = restocked
        .iter()
        .map(|(line, units)| json!({"line_id": line, "quantity": units}))
        .collect();
    assert_eq!(shown["restocked"], json!(restocked), "{case}");
}

#[tokio::test]
async fn every_sample_and_its_variations_go_through_each_topic_and_are_shown_as_they_are() {
    let service = service().start().await;
    let key = service.api_key().await;
    let mut cases = Vec::new();
    for (name, sample) in samples() {
        for (variation, vary) in variations() {
            let mut body = sample.clone();
            vary(&mut body);
            for topic in TOPICS {
                let shop = format!("shop-{}.example", cases.len());
                let case = format!("{name}, {variation}, {topic}");
                cases.push((case, shop, topic, body.clone()));
            }
        }
    }
    assert_eq!(cases.len(), 11 * 17 * 5);
    let deliveries: Vec<Delivery> = cases
        .iter()
        .map(|(_, shop, topic, body)| order_delivery(topic, body).of_shop(shop))
        .collect();
    for some in deliveries.chunks(50) {
        post_all(&service, some).await;
    }
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    for (case, shop, topic, body) in &cases {
        let id = body["id"].as_i64().unwrap();
        let order = shown(&service, &key, shop, id).await;
        check_shown(&order, body, topic, case);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_recorded_cancellation_with_its_refund_is_shown_in_full() {
    let service = service().start().await;
    let body = sample_named("refunded_with_refund");
    let id = body["id"].as_i64().unwrap();
    deliver(&service, &order_delivery("orders/cancelled", &body)).await;
    let base = format!("{}/api/commerce/orders/{id}", service.url);
    assert_eq!(
        snapshot(&service, id).await,
        json!({
            "order_id": "5324790137142",
            "id": 5_324_790_137_142_i64,
            "shop": SHOP,
            "name": "#1009",
            "financial_status": "refunded",
            "payment_status": null,
            "fulfillment_status": null,
            "fulfillment": {
                "state": "cancelled", "provider_state": null, "waits_until": null, "cycles": [],
                "initiated_at": "(time)", "requested_at": null,
                "fulfilled_at": null, "cancelled_at": "(time)", "updated_at": "(time)",
            },
            "currency": "USD",
            "total_price": "1806.38",
            "subtotal_price": "1776.38",
            "total_tax": "0.00",
            "total_outstanding": "0.00",
            "owed": "0.00",
            "held": null,
            "payment_terms": null,
            "payment_due_at": null,
            "unread": [],
            "line_items": [
                {"id": 13_924_936_679_734_i64, "variant_id": 44_872_881_537_334_i64,
                 "title": body["line_items"][0]["title"], "quantity": 1, "price": "699.95",
                 "sku": null, "fulfillment_status": null, "current_quantity": 0,
                 "to_ship": 0, "fulfillment_service": "manual"},
                {"id": 13_924_936_712_502_i64, "variant_id": 44_872_881_570_102_i64,
                 "title": body["line_items"][1]["title"], "quantity": 2, "price": "699.95",
                 "sku": null, "fulfillment_status": null, "current_quantity": 0,
                 "to_ship": 0, "fulfillment_service": "manual"},
            ],
            "tracking": {
                "url": format!("{}/orders/{id}/track", service.url),
                "qr_png": format!("{base}/qr.png?shop={SHOP}"),
                "qr_svg": format!("{base}/qr.svg?shop={SHOP}"),
            },
            "shipments": [],
            "refunds": [{
                "state": "already_refunded", "payment_id": null, "refund_id": null,
                "amount": "1806.38", "currency": "USD",
            }],
            "storefront_refunds": [{"id": body["refunds"][0]["id"], "amount": "1806.38"}],
            // The refund's lines say no_restock.
            "restocked": [],
            "created_at": "2023-03-24T15:28:18.000Z",
            "cancelled_at": "2023-03-24T22:08:18.000Z",
            "cancel_reason": "other",
            "superseded_by": null,
            "test": false,
        })
    );
    service.stop().await;
}

#[tokio::test]
async fn a_recorded_draft_order_of_nobody_is_shown_in_full() {
    let service = service().start().await;
    let body = sample_named("draft_order");
    let id = body["id"].as_i64().unwrap();
    deliver(&service, &order_delivery("orders/create", &body)).await;
    let base = format!("{}/api/commerce/orders/{id}", service.url);
    assert_eq!(
        snapshot(&service, id).await,
        json!({
            "order_id": "5324830114101",
            "id": 5_324_830_114_101_i64,
            "shop": SHOP,
            "name": "#1010",
            "financial_status": "paid",
            "payment_status": null,
            "fulfillment_status": null,
            "fulfillment": {
                "state": "requested", "provider_state": null, "waits_until": null, "cycles": [],
                "initiated_at": "(time)", "requested_at": "(time)",
                "fulfilled_at": null, "cancelled_at": null, "updated_at": "(time)",
            },
            "currency": "USD",
            "total_price": "2629.95",
            "subtotal_price": "2629.95",
            "total_tax": "0.00",
            "total_outstanding": "0.00",
            "owed": "0.00",
            "held": null,
            "payment_terms": null,
            "payment_due_at": null,
            "unread": [],
            "line_items": [
                {"id": 13_925_006_311_734_i64, "variant_id": 44_872_881_439_030_i64,
                 "title": body["line_items"][0]["title"], "quantity": 1, "price": "2629.95",
                 "sku": "sku-hosted-1", "fulfillment_status": null, "current_quantity": 1,
                 "to_ship": 1, "fulfillment_service": "snow-city-warehouse"},
            ],
            "tracking": {
                "url": format!("{}/orders/{id}/track", service.url),
                "qr_png": format!("{base}/qr.png?shop={SHOP}"),
                "qr_svg": format!("{base}/qr.svg?shop={SHOP}"),
            },
            "shipments": [],
            "refunds": [],
            "storefront_refunds": [],
            "restocked": [],
            "created_at": "2023-03-24T16:37:26.000Z",
            "cancelled_at": null,
            "cancel_reason": null,
            "superseded_by": null,
            "test": false,
        })
    );
    service.stop().await;
}

#[tokio::test]
async fn a_partly_shipped_order_that_is_cancelled_is_shown_in_full() {
    let service = service().start().await;
    let body = with(
        cancelled(7, 9, "partially_refunded"),
        &json!({
            "fulfillment_status": "partial",
            "fulfillments": [
                fulfilment(70, &["A 1", "B/2"], &[(1, 1)]),
                {"id": 71, "status": "cancelled", "line_items": [{"id": 2, "quantity": 1}]},
            ],
        }),
    );
    deliver(&service, &order_delivery("orders/cancelled", &body)).await;
    let base = format!("{}/api/commerce/orders/7", service.url);
    let parcel = |number: &str, path: &str| {
        json!({
            "tracking_number": number,
            "tracking_url": format!("https://carrier.example/{number}"),
            "page_url": format!("{}/tracking/{path}", service.url),
            "qr_png": format!("{base}/parcels/{path}/qr.png?shop={SHOP}"),
            "qr_svg": format!("{base}/parcels/{path}/qr.svg?shop={SHOP}"),
        })
    };
    assert_eq!(
        snapshot(&service, 7).await,
        json!({
            "order_id": "7",
            "id": 7,
            "shop": SHOP,
            "name": "#7",
            "financial_status": "partially_refunded",
            "payment_status": null,
            "fulfillment_status": "partial",
            "fulfillment": {
                "state": "cancelled", "provider_state": null, "waits_until": null, "cycles": [],
                "initiated_at": "(time)", "requested_at": null,
                "fulfilled_at": null, "cancelled_at": "(time)", "updated_at": "(time)",
            },
            "currency": "USD",
            "total_price": "30.00",
            "subtotal_price": "28.00",
            "total_tax": "2.00",
            "total_outstanding": "0.00",
            "owed": "30.00",
            "held": null,
            "payment_terms": null,
            "payment_due_at": null,
            "unread": [],
            "line_items": [
                {"id": 1, "variant_id": 101, "title": "Mug", "quantity": 2, "price": "10.00",
                 "sku": "MUG", "fulfillment_status": null, "current_quantity": 2,
                 "to_ship": 0, "fulfillment_service": null},
                {"id": 2, "variant_id": null, "title": "Apron", "quantity": 1, "price": "8.00",
                 "sku": null, "fulfillment_status": null, "current_quantity": 1,
                 "to_ship": 0, "fulfillment_service": null},
            ],
            "tracking": {
                "url": format!("{}/orders/7/track", service.url),
                "qr_png": format!("{base}/qr.png?shop={SHOP}"),
                "qr_svg": format!("{base}/qr.svg?shop={SHOP}"),
            },
            "shipments": [
                {"id": 70, "status": "success", "delivery_status": null, "carrier": "Post",
                 "parcels": [parcel("A 1", "A%201"), parcel("B/2", "B%2F2")]},
                {"id": 71, "status": "cancelled", "delivery_status": null, "carrier": null, "parcels": []},
            ],
            "refunds": [{
                "state": "recorded", "payment_id": null, "refund_id": null,
                "amount": "30.00", "currency": "USD",
            }],
            "storefront_refunds": [],
            "restocked": [{"line_id": 1, "quantity": 1}, {"line_id": 2, "quantity": 1}],
            "created_at": "2027-01-15T07:00:00.000Z",
            "cancelled_at": "2027-01-15T07:00:09.000Z",
            "cancel_reason": "customer",
            "superseded_by": null,
            "test": false,
        })
    );
    service.stop().await;
}
