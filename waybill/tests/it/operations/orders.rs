//! `waybill orders list` and `waybill orders show`.

use serde_json::{Value, json as value};

use crate::support::delivery::SHOP;
use crate::support::operator::{items, json, refused, said};
use crate::support::order::{body, deliver, order_delivery, shown, with, without_texts};
use crate::support::payment::{event_called, intent};
use crate::support::{records, service};

const OTHER: &str = "a-shop-with-a-name-that-no-terminal-has-room-for.example";

fn ids(page: &Value) -> Vec<i64> {
    let orders = page.as_array().unwrap().iter();
    orders.map(|order| order["id"].as_i64().unwrap()).collect()
}

/// The cursor of the next page, as the list names it for people.
fn next(said: &str) -> Option<&str> {
    let (_, after) = said.split_once("--after=")?;
    Some(after.trim())
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_listed_page_by_page() {
    let service = service().start().await;
    assert_eq!(said(&service, &["orders", "list"]).await, "No orders.\n");
    for n in 1..=5_i64 {
        let fields = value!({
            "name": format!("A name of an order that has no end {n}"),
            "created_at": format!("2027-01-0{n}T00:00:00Z"),
            "total_price": "1234567.89",
        });
        let order = with(
            body(820_982_911_946_154_500 + n, 1, "partially_refunded"),
            &fields,
        );
        deliver(
            &service,
            &order_delivery("orders/create", &order).of_shop(OTHER),
        )
        .await;
    }
    let all = ids(&items(&service, &["orders", "list"]).await);
    let expected: Vec<i64> = (1..=5).rev().map(|n| 820_982_911_946_154_500 + n).collect();
    assert_eq!(all, expected);
    let mut read = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut arguments = vec!["orders", "list", "--limit", "2"];
        arguments.extend(cursor.iter().flat_map(|cursor| ["--after", cursor]));
        let page = json(&service, &arguments).await;
        let text = said(&service, &arguments).await;
        assert!(text.starts_with("ORDERED "), "{text}");
        assert_eq!(next(&text), page["next"].as_str(), "{text}");
        read.extend(ids(&page["items"]));
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(read, all);
    let filtered = ["orders", "list", "--financial-status", "paid"];
    assert_eq!(said(&service, &filtered).await, "No orders.\n");
    let filtered = [
        "orders",
        "list",
        "--created-after",
        "2027-01-04",
        "--shop",
        OTHER,
    ];
    assert_eq!(ids(&items(&service, &filtered).await), all[..2]);
    for wrong in [
        ["--after", "x"],
        ["--state", "lost"],
        ["--created-after", "once"],
    ] {
        let (code, _) = refused(&service, &[&["orders", "list"][..], &wrong].concat()).await;
        assert_eq!(code, 2, "{wrong:?}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_shown_by_its_name_with_what_came_of_its_deliveries() {
    let service = service().start().await;
    let order = with(body(77, 1, "pending"), &value!({"name": "#1007"}));
    deliver(&service, &order_delivery("orders/create", &order).id("w-1")).await;
    let order = with(body(77, 2, "paid"), &value!({"name": "#1007"}));
    deliver(&service, &order_delivery("orders/paid", &order).id("w-2")).await;
    // A third one is dead, because the record of its customer is damaged.
    let damaged = |_: &str| r#"{"schema":1,"email":5}"#.to_owned();
    records::edit(service.db(), "customers where id = 77", damaged).await;
    let order = with(body(77, 3, "paid"), &value!({"name": "#1007"}));
    deliver(
        &service,
        &order_delivery("orders/updated", &order).id("w-3"),
    )
    .await;
    for name in ["#1007", "1007", "77"] {
        let text = said(&service, &["orders", "show", name]).await;
        let at = |part: &str| {
            let found = text.find(part);
            found.unwrap_or_else(|| panic!("{part} in\n{text}"))
        };
        assert!(text.starts_with("order       77\n"), "{text}");
        assert!(at("orders/create") < at("orders/paid"), "{text}");
        for part in [
            "w-1",
            "w-2",
            "w-3",
            "ACCEPTED",
            "the record of shop.example 77 in customers cannot be read",
        ] {
            at(part);
        }
        assert!(at("order.created") < at("order.paid"), "{text}");
        assert!(
            at("order.paid") < at("order.fulfillment_requested"),
            "{text}"
        );
    }
    let machine = without_texts(json(&service, &["orders", "show", "#1007"]).await);
    let key = service.api_key().await;
    let api = shown(&service, &key, SHOP, 77).await;
    for (field, value) in api.as_object().unwrap() {
        // The command has its own PUBLIC_URL.
        if field == "tracking" {
            continue;
        }
        assert_eq!(machine[field], *value, "{field}");
    }
    let jobs = machine["jobs"].as_array().unwrap();
    let states: Vec<(&str, &str, usize)> = jobs
        .iter()
        .filter(|job| job["source"] == "storefront")
        .map(|job| {
            let text = |field: &str| job[field].as_str().unwrap();
            let attempts = job["history"].as_array().unwrap().len();
            (text("delivery_id"), text("state"), attempts)
        })
        .collect();
    assert_eq!(
        states,
        [("w-1", "done", 0), ("w-2", "done", 0), ("w-3", "dead", 1)]
    );
    let events = machine["events"].as_array().unwrap();
    assert_eq!(events[0]["type"], "order.created");
    // The job itself shows the same attempt.
    let dead = jobs.iter().find(|job| job["state"] == "dead").unwrap();
    let id = dead["id"].as_str().unwrap();
    let job = json(&service, &["jobs", "show", id]).await;
    assert_eq!(job["history"], dead["history"]);
    for command in [["jobs", "show", id], ["dead", "show", id]] {
        let text = said(&service, &command).await;
        assert!(text.contains("ATTEMPT  STARTED"), "{text}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_several_shops_use_is_asked_back_and_the_shops_are_listed() {
    let service = service().start().await;
    for (id, shop) in [(1, SHOP), (2, OTHER), (9, SHOP), (9, OTHER)] {
        let name = if id == 9 { "#9" } else { "#1007" };
        let order = with(body(id, 1, "pending"), &value!({"name": name}));
        deliver(
            &service,
            &order_delivery("orders/create", &order).of_shop(shop),
        )
        .await;
    }
    for order in ["#1007", "9"] {
        let (code, text) = refused(&service, &["orders", "show", order]).await;
        assert_eq!(code, 1);
        for part in ["--shop", SHOP, OTHER] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let text = said(&service, &["orders", "show", order, "--shop", OTHER]).await;
        assert!(text.contains(OTHER), "{text}");
    }
    for unknown in ["#1008", "404", "no order"] {
        let (code, text) = refused(&service, &["orders", "show", unknown]).await;
        assert_eq!(code, 1);
        assert!(text.contains(&format!("no order {unknown}")), "{text}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_shown_with_what_came_of_the_deliveries_about_its_payments() {
    let service = service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(77, 1, "pending")).id("w-1"),
    )
    .await;
    let of_order = intent("pi_of_77", "succeeded", 4200, Some("77"));
    let of_other = intent("pi_of_78", "succeeded", 4200, Some("78"));
    for (id, object) in [("evt_77", &of_order), ("evt_78", &of_other)] {
        let paid = event_called(&service, id, "payment_intent.succeeded", 1, object);
        deliver(&service, &paid).await;
    }
    let shown = json(&service, &["orders", "show", "77"]).await;
    let of = |list: &str, field: &str| -> Vec<String> {
        let rows = shown[list].as_array().unwrap().iter();
        rows.filter_map(|row| row[field].as_str().map(str::to_owned))
            .collect()
    };
    let deliveries = of("jobs", "delivery_id");
    assert_eq!(deliveries, ["w-1", "evt_77"], "{shown}");
    assert!(
        of("events", "type").contains(&"payment.succeeded".to_owned()),
        "{shown}"
    );
    let text = said(&service, &["orders", "show", "77"]).await;
    assert!(text.contains("payment_intent.succeeded"), "{text}");
    assert!(!text.contains("evt_78"), "{text}");
    service.stop().await;
}
