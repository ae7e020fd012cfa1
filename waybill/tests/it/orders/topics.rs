//! The five order topics. Whichever deliveries come, in any sequence and however often, an order
//! ends in its right state, and each effect of it happens once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use domain::job::State;
use domain::time::Timestamp;
use sandbox::sample;
use serde_json::{Value, json};

use crate::both::orders::deliveries::zbar;
use crate::support::delivery::{SHOP, storefront};
use crate::support::operator;
use crate::support::order::{
    Rows, TOPICS, at, body, cancelled, captured, deliver, events, fulfilment, kinds,
    naming_agreement, no_person_in_events_and_jobs, order_delivery, post_all, rows, shown, times,
    with,
};
use crate::support::records;
use crate::support::{START, Service, service};

/// The provider's own bodies, and ours of each topic.
pub fn samples() -> BTreeMap<String, Value> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../common/domain/tests/fixtures/storefront"
    );
    let mut samples = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("orders_") && !name.contains("edited") {
            samples.insert(name, read(&path));
        }
    }
    assert_eq!(samples.len(), 6, "the recorded samples are there");
    for topic in TOPICS {
        let body = sample::storefront(topic, 7, START.0).unwrap();
        samples.insert(topic.to_owned(), serde_json::from_str(&body).unwrap());
    }
    samples
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn sample_named(part: &str) -> Value {
    let mut samples = samples().into_iter();
    samples.find(|(name, _)| name.contains(part)).unwrap().1
}

pub fn cut(body: &mut Value, keys: &[&str]) {
    let fields = body.as_object_mut().unwrap();
    fields.retain(|key, _| !keys.contains(&key.as_str()));
}

pub fn cut_to(body: &mut Value, kept: &[&str]) {
    let fields = body.as_object_mut().unwrap();
    fields.retain(|key, _| kept.contains(&key.as_str()));
}

/// The order as the API shows it, without the times at which we did something.
pub async fn snapshot(service: &Service, id: i64) -> Value {
    let key = service.api_key().await;
    snapshot_of(service, &key, SHOP, id).await
}

pub async fn snapshot_of(service: &Service, key: &str, shop: &str, id: i64) -> Value {
    let mut order = shown(service, key, shop, id).await;
    cut(&mut order, &["updated_at"]);
    let ours = [
        "initiated_at",
        "requested_at",
        "fulfilled_at",
        "cancelled_at",
        "updated_at",
    ];
    for time in ours {
        let time = &mut order["fulfillment"][time];
        if let Some(text) = time.as_str() {
            assert!(text.ends_with('Z'), "{text}");
            *time = json!("(time)");
        }
    }
    for list in ["shipments", "refunds"] {
        for item in order[list].as_array_mut().unwrap() {
            cut(item, &["updated_at"]);
        }
    }
    order
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut permutations = vec![Vec::new()];
    for next in 0..count {
        permutations = permutations
            .iter()
            .flat_map(|shorter| {
                (0..=shorter.len()).map(move |place| {
                    let mut longer = shorter.clone();
                    longer.insert(place, next);
                    longer
                })
            })
            .collect();
    }
    permutations
}

/// Delivers the bodies in every order, each order to a shop of its own, and at every step one
/// of those before it again. Returns the orders and what the tables say at the end.
async fn every_order_of(
    service: &Service,
    bodies: &[(&str, String)],
) -> Vec<(Vec<usize>, String, Rows)> {
    let permutations = permutations(bodies.len());
    let shop = |nth: usize| format!("shop-{nth}.example");
    for step in 0..bodies.len() {
        let mut deliveries = Vec::new();
        for (nth, permutation) in permutations.iter().enumerate() {
            for (which, time) in [(step, "first"), ((nth + step) % (step + 1), "again")] {
                let (topic, body) = &bodies[permutation[which]];
                let id = format!("w-{nth}-{step}-{time}");
                let delivery = storefront(topic, body.clone());
                deliveries.push(delivery.of_shop(&shop(nth)).id(&id));
            }
        }
        post_all(service, &deliveries).await;
        service.settled().await;
    }
    assert_eq!(service.jobs(State::Dead).await, 0);
    let mut rows = rows(service.db()).await;
    let ends = permutations.into_iter().enumerate();
    ends.map(|(nth, permutation)| {
        let rows = rows.remove(&shop(nth)).unwrap_or_default();
        (permutation, shop(nth), rows)
    })
    .collect()
}

fn place(kinds: &[String], kind: &str) -> Option<usize> {
    kinds.iter().position(|it| it == kind)
}

#[tokio::test]
async fn the_five_topics_in_every_order_with_repetitions_end_in_the_same_rows() {
    let service = service().start().await;
    let bodies = TOPICS.map(|topic| (topic, sample::storefront(topic, 7, START.0).unwrap()));
    let order: Value = serde_json::from_str(&bodies[0].1).unwrap();
    let id = order["id"].as_i64().unwrap();
    let ends = every_order_of(&service, &bodies).await;
    assert_eq!(ends.len(), 120);
    let (_, shop, expected) = &ends[0];
    let key = service.api_key().await;
    let end = shown(&service, &key, shop, id).await;
    assert_eq!(end["fulfillment"]["state"], "cancelled");
    assert_eq!(end["financial_status"], "refunded");
    assert_eq!(end["refunds"][0]["amount"], order["total_price"]);
    assert_eq!(end["restocked"], json!([]), "all was shipped");
    let number = &end["shipments"][0]["parcels"][0]["tracking_number"];
    assert_eq!(number, "WB000000000007");
    let tables: Vec<&str> = expected.keys().copied().collect();
    assert_eq!(
        tables,
        [
            "customers",
            "orders",
            "records",
            "refunds",
            "tracking_numbers",
        ],
        "all was shipped, so nothing is back in stock"
    );
    for (permutation, shop, rows) in &ends {
        assert_eq!(rows, expected, "{permutation:?}");
        let kinds = kinds(service.db(), shop, id).await;
        let step = |topic: usize| permutation.iter().position(|it| *it == topic).unwrap();
        let (paid, fulfilled, cancelled) = (step(2), step(3), step(4));
        assert_eq!(kinds[0], "order.created", "{permutation:?}");
        for kind in ["order.created", "order.paid", "order.cancelled"] {
            assert_eq!(times(&kinds, kind), 1, "{kind} in {permutation:?}");
        }
        let requested = usize::from(paid < fulfilled && paid < cancelled);
        assert_eq!(times(&kinds, "order.fulfillment_requested"), requested);
        let was_fulfilled = usize::from(fulfilled < cancelled);
        assert_eq!(times(&kinds, "order.fulfilled"), was_fulfilled);
        let taken_back = usize::from(requested == 1 && cancelled < fulfilled);
        assert_eq!(times(&kinds, "order.fulfillment_cancelled"), taken_back);
        let recorded = times(&kinds, "order.refund_recorded");
        assert_eq!(recorded, 0, "the storefront gave it back: {permutation:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_order_cancelled_unshipped_puts_the_same_back_into_stock_in_every_order() {
    let service = service().start().await;
    let topics = [
        "orders/create",
        "orders/updated",
        "orders/paid",
        "orders/cancelled",
    ];
    let bodies = topics.map(|topic| (topic, sample::storefront(topic, 7, START.0).unwrap()));
    let ends = every_order_of(&service, &bodies).await;
    assert_eq!(ends.len(), 24);
    let (_, _, expected) = &ends[0];
    let order: Value = serde_json::from_str(&bodies[0].1).unwrap();
    let lines = order["line_items"].as_array().unwrap().iter();
    let units = lines.map(|line| format!("{} {} {}", order["id"], line["id"], line["quantity"]));
    let units: Vec<String> = units.collect();
    assert_eq!(expected["inventory_movements"], units, "all of it");
    for (permutation, _, rows) in &ends {
        assert_eq!(rows, expected, "{permutation:?}");
    }
    let movements = "select count(*) as n from inventory_movements";
    assert_eq!(service.count(movements).await, 24 * 2, "one a line");
    service.stop().await;
}

#[tokio::test]
async fn the_life_of_an_order_is_described_in_events_of_ids_and_amounts() {
    let service = service().start().await;
    let shipped = json!({
        "fulfillment_status": "fulfilled",
        "fulfillments": [fulfilment(70, &["T-1"], &[(1, 2), (2, 1)])],
    });
    let returned = json!({"fulfillments": shipped["fulfillments"], "refunds": [{
        "id": 9,
        "transactions": [{"id": 1, "kind": "refund", "status": "success", "amount": "30.00"}],
        "refund_line_items": [{"id": 5, "line_item_id": 1, "quantity": 2, "restock_type": "return"}],
    }]});
    let life = [
        ("orders/create", body(7, 1, "pending")),
        ("orders/updated", body(7, 2, "authorized")),
        ("orders/updated", body(7, 2, "authorized")),
        ("orders/paid", body(7, 3, "paid")),
        ("orders/fulfilled", with(body(7, 4, "paid"), &shipped)),
        (
            "orders/cancelled",
            with(cancelled(7, 5, "refunded"), &returned),
        ),
    ];
    for (topic, body) in &life {
        deliver(&service, &order_delivery(topic, body)).await;
    }
    let about = |mut body: Value| {
        body["shop"] = json!(SHOP);
        body["order_id"] = json!("7");
        body
    };
    let state = |financial: &str, fulfillment: Option<&str>| {
        about(json!({
            "currency": "USD", "total_price": "30.00", "financial_status": financial,
            "fulfillment_status": fulfillment,
        }))
    };
    let expected = [
        ("order.created", state("pending", None)),
        ("order.updated", state("authorized", None)),
        ("order.updated", state("paid", None)),
        ("order.paid", state("paid", None)),
        (
            "order.fulfillment_requested",
            about(json!({"cycle": "1", "lines": [
                {"line_id": "1", "variant_id": "101", "sku": "MUG", "fulfillment_service": null, "quantity": 2},
                {"line_id": "2", "variant_id": null, "sku": null, "fulfillment_service": null, "quantity": 1},
            ]})),
        ),
        ("order.updated", state("paid", Some("fulfilled"))),
        ("order.fulfilled", about(json!({}))),
        (
            "order.tracking_updated",
            about(json!({"parcels": [{
                "shipment_id": "70", "carrier": "Post", "tracking_number": "T-1",
            }]})),
        ),
        ("order.updated", state("refunded", None)),
        (
            "order.cancelled",
            about(json!({"cancelled_at": "2027-01-15T07:00:05.000Z", "reason": "customer"})),
        ),
        (
            "order.inventory_restocked",
            about(json!({"movements": [
                {"line_id": "1", "variant_id": "101", "sku": "MUG", "quantity": 2},
            ]})),
        ),
    ];
    let expected: Vec<(String, Value)> = expected
        .into_iter()
        .map(|(kind, body)| (kind.to_owned(), body))
        .collect();
    assert_eq!(events(service.db(), SHOP, 7).await, expected);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn events_of_an_order_sort_as_they_happened_whatever_the_clocks_say() {
    let mut ahead = service().manual_clock().start().await;
    ahead.clock().advance(Duration::from_hours(1));
    deliver(
        &ahead,
        &order_delivery("orders/create", &body(7, 1, "pending")),
    )
    .await;
    deliver(
        &ahead,
        &order_delivery("orders/updated", &body(7, 2, "authorized")),
    )
    .await;
    let before = kinds(ahead.db(), SHOP, 7).await;
    assert_eq!(before, ["order.created", "order.updated"]);
    ahead.halt().await;
    // A host whose clock is an hour behind, and stands still.
    let behind = service().manual_clock().start_beside(&ahead).await;
    assert_eq!(behind.clock().now(), START);
    deliver(&behind, &order_delivery("orders/paid", &body(7, 3, "paid"))).await;
    deliver(
        &behind,
        &order_delivery("orders/cancelled", &cancelled(7, 4, "refunded")),
    )
    .await;
    assert_eq!(
        kinds(behind.db(), SHOP, 7).await,
        [
            "order.created",
            "order.updated",
            "order.updated",
            "order.paid",
            "order.fulfillment_requested",
            "order.updated",
            "order.cancelled",
            "order.fulfillment_cancelled",
            "order.inventory_restocked",
        ]
    );
    behind.stop().await;
}

#[tokio::test]
async fn an_order_that_is_paid_again_and_again_is_requested_once() {
    let service = service().start().await;
    let mut deliveries = Vec::new();
    for (nth, topic) in TOPICS.iter().cycle().take(40).enumerate() {
        // Some deliveries are of the time before it was paid, and come late.
        let (second, status) = match nth % 4 {
            3 => (0, "pending"),
            _ => (u32::try_from(nth).unwrap() + 1, "paid"),
        };
        deliveries.push(order_delivery(topic, &body(7, second, status)).id(&format!("w-{nth}")));
    }
    for some in deliveries.chunks(8) {
        post_all(&service, some).await;
        service.settled().await;
    }
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.fulfillment_requested"), 1);
    assert_eq!(times(&kinds, "order.paid"), 1);
    service.stop().await;
}

pub async fn parcels(service: &Service) -> Vec<(String, Option<String>)> {
    let orders = records::orders(service.db()).await;
    let (_, order) = &orders[0];
    let shipments = order.shipments.values();
    let parcels = shipments.flat_map(|shipment| &shipment.value.tracking);
    let parcels = parcels.map(|parcel| {
        let url = order.own.parcel_urls.get(&parcel.number);
        (parcel.number.clone(), url.cloned())
    });
    parcels.collect()
}

#[tokio::test]
async fn every_parcel_of_every_shipment_has_a_code_that_reads() {
    let service = service()
        .setting("QR_BASE_URL", "https://track.example")
        .start()
        .await;
    let fields = json!({
        "fulfillment_status": "fulfilled",
        "fulfillments": [
            fulfilment(71, &["1Z 999 AA1", "Ä/7?"], &[(1, 1)]),
            fulfilment(70, &["T-0"], &[(1, 1), (2, 1)]),
            {"id": 72, "status": "success", "tracking_number": "ALONE", "tracking_url": null},
            {"id": 73, "status": "success", "tracking_numbers": [], "tracking_number": null},
        ],
    });
    deliver(
        &service,
        &order_delivery("orders/fulfilled", &with(body(7, 1, "paid"), &fields)),
    )
    .await;
    let expected = [
        ("T-0", "T-0"),
        ("1Z 999 AA1", "1Z%20999%20AA1"),
        ("Ä/7?", "%C3%84%2F7%3F"),
        ("ALONE", "ALONE"),
    ];
    let parcels = parcels(&service).await;
    assert_eq!(parcels.len(), expected.len());
    let key = service.api_key().await;
    for ((number, url), (expected, path)) in parcels.iter().zip(expected) {
        assert_eq!(number, expected);
        let page = format!("https://track.example/tracking/{path}");
        assert_eq!(url.as_deref(), Some(page.as_str()));
        let symbol = service.parts.config.qr.custom(&page).unwrap();
        for (kind, drawn) in [("png", symbol.png()), ("svg", symbol.svg().into_bytes())] {
            let path = format!("/api/commerce/orders/7/parcels/{path}/qr.{kind}?shop={SHOP}");
            let answer = service.get(&path).bearer_auth(&key).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{path}");
            let served = answer.bytes().await.unwrap();
            assert!(served == drawn, "{path} shows the link");
            if kind == "png" {
                assert_eq!(zbar(&served), page.as_bytes());
            }
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_corrected_tracking_number_takes_the_place_of_the_old_one() {
    let service = service().start().await;
    let version = |second: u32, numbers: &[&str]| {
        let fields = json!({
            "fulfillment_status": "fulfilled",
            "fulfillments": [fulfilment(70, numbers, &[(1, 2)]), fulfilment(71, &["OTHER"], &[(2, 1)])],
        });
        with(body(7, second, "paid"), &fields)
    };
    let numbers = async || -> Vec<String> {
        let parcels = parcels(&service).await;
        parcels.into_iter().map(|(number, _)| number).collect()
    };
    deliver(
        &service,
        &order_delivery("orders/fulfilled", &version(1, &["WRONG", "KEPT"])),
    )
    .await;
    assert_eq!(numbers().await, ["WRONG", "KEPT", "OTHER"]);
    let printed = parcels(&service).await[1].1.clone();
    deliver(
        &service,
        &order_delivery("orders/updated", &version(3, &["KEPT", "RIGHT"])),
    )
    .await;
    assert_eq!(numbers().await, ["KEPT", "RIGHT", "OTHER"]);
    assert_eq!(
        parcels(&service).await[0].1,
        printed,
        "a printed link stays"
    );
    // What comes late was true before.
    deliver(
        &service,
        &order_delivery("orders/updated", &version(2, &["WRONG", "LATE"])),
    )
    .await;
    assert_eq!(numbers().await, ["KEPT", "RIGHT", "OTHER"]);
    let key = service.api_key().await;
    let order = shown(&service, &key, SHOP, 7).await;
    let parcel = &order["shipments"][0]["parcels"][1];
    assert_eq!(parcel["tracking_number"], "RIGHT");
    assert_eq!(parcel["tracking_url"], "https://carrier.example/RIGHT");
    for (number, status) in [("WRONG", 404), ("RIGHT", 200)] {
        let qr = format!("/api/commerce/orders/7/parcels/{number}/qr.png?shop={SHOP}");
        let answer = service.get(&qr).bearer_auth(&key).send().await.unwrap();
        assert_eq!(answer.status(), status, "{number}");
    }
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.tracking_updated"), 2);
    assert_eq!(times(&kinds, "order.fulfilled"), 1);
    service.stop().await;
}

#[tokio::test]
async fn links_that_may_have_been_printed_stay_when_the_base_of_new_ones_changes() {
    let with_base = |base| service().setting("QR_BASE_URL", base);
    let shipped = |second: u32, numbers: &[&str]| {
        let fields = json!({
            "fulfillment_status": "fulfilled",
            "fulfillments": [fulfilment(70, numbers, &[(1, 1)])],
        });
        order_delivery("orders/fulfilled", &with(body(7, second, "paid"), &fields))
    };
    let mut before = with_base("https://old.example").start().await;
    deliver(&before, &shipped(1, &["T-1"])).await;
    let (_, order) = records::orders(before.db()).await.remove(0);
    let page = order.own.page_url.unwrap();
    assert!(page.starts_with("https://old.example/orders/7/"), "{page}");
    before.halt().await;
    let backend = before.backend.clone();
    let service = with_base("https://new.example").start_on(backend).await;
    deliver(&service, &shipped(2, &["T-1", "T-2"])).await;
    let (_, order) = records::orders(service.db()).await.remove(0);
    assert_eq!(order.own.page_url, Some(page));
    let links: Vec<&String> = order.own.parcel_urls.values().collect();
    assert_eq!(
        links,
        [
            "https://old.example/tracking/T-1",
            "https://new.example/tracking/T-2"
        ]
    );
    service.stop().await;
}

#[tokio::test]
async fn a_number_that_fits_no_code_is_tracked_without_one() {
    let service = service().start().await;
    // Percent-encoded it is more than a symbol holds; a character more, and it is no number.
    let long = "\u{6F22}".repeat(255);
    let longer = "9".repeat(256);
    let odd = "nul\u{0}and/break";
    let fields = json!({
        "fulfillment_status": "fulfilled",
        "fulfillments": [fulfilment(70, &[&long, &longer, "..", odd, "T-1"], &[])],
    });
    deliver(
        &service,
        &order_delivery("orders/fulfilled", &with(body(7, 1, "paid"), &fields)),
    )
    .await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let parcels = parcels(&service).await;
    let found: Vec<(&str, bool)> = parcels
        .iter()
        .map(|(number, url)| (number.as_str(), url.is_some()))
        .collect();
    let odd = odd.replace('\0', "\u{FFFD}");
    assert_eq!(
        found,
        [
            (long.as_str(), false),
            ("..", false),
            (odd.as_str(), true),
            ("T-1", true)
        ]
    );
    let key = service.api_key().await;
    let order = shown(&service, &key, SHOP, 7).await;
    let shown = &order["shipments"][0]["parcels"];
    assert_eq!(shown[0]["tracking_number"], long);
    assert_eq!(shown[0]["page_url"], Value::Null);
    assert_eq!(shown[0]["qr_png"], Value::Null);
    assert!(shown[3]["qr_png"].is_string());
    service.stop().await;
}

async fn ledger(service: &Service) -> Vec<(i64, i64)> {
    let rows = service
        .db()
        .query("select line_id, quantity from inventory_movements order by id, line_id")
        .fetch_all();
    let rows = rows.await.unwrap();
    rows.iter()
        .map(|row| (row.get("line_id").unwrap(), row.get("quantity").unwrap()))
        .collect()
}

#[tokio::test]
async fn the_ledger_is_added_to_when_a_later_version_corrects_it_and_never_changed() {
    let service = service().start().await;
    let key = service.api_key().await;
    let balance = async || shown(&service, &key, SHOP, 7).await["restocked"].clone();
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(7, 1, "paid")),
    )
    .await;
    let mut before = ledger(&service).await;
    before.sort_unstable();
    assert_eq!(before, [(1, 2), (2, 1)]);
    assert_eq!(
        balance().await,
        json!([{"line_id": 1, "quantity": 2}, {"line_id": 2, "quantity": 1}])
    );
    // A mug had been shipped after all.
    let shipped = json!({"fulfillments": [fulfilment(70, &[], &[(1, 1)])]});
    let shipped = with(cancelled(7, 2, "paid"), &shipped);
    deliver(&service, &order_delivery("orders/updated", &shipped)).await;
    assert_eq!(ledger(&service).await[2..], [(1, -1)]);
    assert_eq!(
        balance().await,
        json!([{"line_id": 1, "quantity": 1}, {"line_id": 2, "quantity": 1}])
    );
    // It came back, and the apron is gone for good.
    let refunds = json!({"refunds": [{"id": 9, "refund_line_items": [
        {"id": 5, "line_item_id": 1, "quantity": 1, "restock_type": "return"},
        {"id": 6, "line_item_id": 2, "quantity": 1, "restock_type": "no_restock"},
    ]}]});
    let returned = with(with(shipped, &refunds), &json!({"updated_at": at(3)}));
    deliver(&service, &order_delivery("orders/updated", &returned)).await;
    let movements = ledger(&service).await;
    assert_eq!(movements.len(), 5);
    assert_eq!(movements[2], (1, -1), "what was written stays");
    assert_eq!(
        movements
            .iter()
            .filter(|(line, _)| *line == 1)
            .map(|(_, units)| units)
            .sum::<i64>(),
        2
    );
    assert_eq!(
        movements
            .iter()
            .filter(|(line, _)| *line == 2)
            .map(|(_, units)| units)
            .sum::<i64>(),
        0
    );
    // None of it again, nor anything older.
    for (topic, body) in [
        ("orders/updated", &returned),
        ("orders/cancelled", &cancelled(7, 1, "paid")),
        ("orders/create", &body(7, 0, "pending")),
    ] {
        deliver(&service, &order_delivery(topic, body)).await;
    }
    assert_eq!(ledger(&service).await, movements);
    service.stop().await;
}

#[tokio::test]
async fn a_cancelled_order_without_a_payment_of_ours_records_what_the_storefront_took() {
    let service = service().start().await;
    let key = service.api_key().await;
    let refunds = async |id: i64| shown(&service, &key, SHOP, id).await["refunds"].clone();
    // Never paid: nothing to give back.
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(1, 1, "voided")),
    )
    .await;
    assert_eq!(refunds(1).await, json!([]));
    // Paid; a later version corrects the amount, in the same row.
    let partly = json!({"total_outstanding": "12.00"});
    let partly = with(cancelled(2, 1, "paid"), &partly);
    deliver(&service, &order_delivery("orders/cancelled", &partly)).await;
    assert_eq!(refunds(2).await[0]["amount"], "18.00");
    deliver(
        &service,
        &order_delivery("orders/updated", &cancelled(2, 2, "paid")),
    )
    .await;
    let now = refunds(2).await;
    assert_eq!(now.as_array().unwrap().len(), 1);
    assert_eq!(
        (&now[0]["state"], &now[0]["amount"]),
        (&json!("recorded"), &json!("30.00"))
    );
    assert_eq!(now[0]["payment_id"], Value::Null);
    let told_twice = times(&kinds(service.db(), SHOP, 2).await, "order.refund_recorded");
    assert_eq!(told_twice, 2, "each amount is reported once");
    // It is known to have been paid only after it was cancelled.
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(3, 2, "voided")),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/paid", &body(3, 1, "paid")),
    )
    .await;
    assert_eq!(refunds(3).await[0]["state"], "recorded");
    service.stop().await;
}

#[tokio::test]
async fn a_captured_body_that_is_sent_again_under_other_topics_changes_nothing() {
    let service = service().start().await;
    let created = body(7, 1, "pending");
    deliver(&service, &order_delivery("orders/create", &created)).await;
    let before = rows(service.db()).await;
    let told_before = kinds(service.db(), SHOP, 7).await;
    for (nth, topic) in TOPICS.iter().enumerate() {
        deliver(
            &service,
            &order_delivery(topic, &created).id(&format!("w-{nth}")),
        )
        .await;
    }
    assert_eq!(rows(service.db()).await, before);
    assert_eq!(kinds(service.db(), SHOP, 7).await, told_before);
    let state = "select count(*) as n from orders where state = 'initiated'";
    assert_eq!(service.count(state).await, 1);
    service.stop().await;
}

/// A paid order as the specification documents it: no key says whether it is cancelled.
pub fn documented(id: i64, second: u32) -> Value {
    let address = json!({
        "first_name": "Canary", "last_name": "Canary", "address1": "1 Canary Street",
        "city": "Canaryton", "province": "ON", "country": "Canada", "zip": "K1A 0A1",
    });
    json!({
        "id": id,
        "email": "canary@example.com",
        "created_at": at(0),
        "updated_at": at(second),
        "total_price": "30.00",
        "subtotal_price": "28.00",
        "total_tax": "2.00",
        "currency": "USD",
        "financial_status": "paid",
        "fulfillment_status": null,
        "line_items": [
            {"id": 1, "variant_id": 101, "title": "Mug", "quantity": 3, "price": "10.00",
             "sku": "MUG", "fulfillment_status": null},
        ],
        "shipping_address": address,
        "billing_address": address,
    })
}

/// The lines of `waybill orders repeated`, without times.
async fn repeated(service: &Service) -> Value {
    let mut listed = operator::items(service, &["orders", "repeated"]).await;
    for body in listed.as_array_mut().unwrap() {
        cut(body, &["created_at", "refuted"]);
    }
    listed
}

#[tokio::test]
async fn a_captured_order_that_has_no_cancellation_is_not_cancelled_under_that_topic() {
    let service = service().start().await;
    let key = service.api_key().await;
    let created = documented(7, 1);
    deliver(&service, &order_delivery("orders/create", &created)).await;
    let before = rows(service.db()).await;
    let told_before = kinds(service.db(), SHOP, 7).await;
    assert_eq!(repeated(&service).await, json!([]));

    let captured = order_delivery("orders/cancelled", &created);
    deliver(&service, &captured.id("captured")).await;
    assert_eq!(rows(service.db()).await, before);
    assert_eq!(kinds(service.db(), SHOP, 7).await, told_before);
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["fulfillment"]["state"], "requested");
    assert_eq!(order["cancelled_at"], Value::Null);
    assert_eq!(order["refunds"], json!([]));
    assert_eq!(order["restocked"], json!([]));
    assert_eq!(service.jobs(State::Dead).await, 0);
    let once = json!([{"shop": SHOP, "order_id": 7, "topic": "orders/create", "repeats": 1}]);
    assert_eq!(repeated(&service).await, once);
    let listed = operator::said(&service, &["orders", "repeated"]).await;
    assert!(listed.contains("orders/create        1"), "{listed}");
    let metrics = service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let counted = "waybill_order_bodies_repeated_total{topic=\"orders/cancelled\"} 1";
    assert!(metrics.contains(counted), "{metrics}");

    let cancelled = documented(7, 2);
    for nth in 0..2 {
        let delivery = order_delivery("orders/cancelled", &cancelled);
        deliver(&service, &delivery.id(&format!("cancelled-{nth}"))).await;
    }
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    assert_eq!(order["cancelled_at"], at(2).replace('Z', ".000Z"));
    assert_eq!(order["refunds"][0]["amount"], "30.00");
    assert_eq!(order["restocked"], json!([{"line_id": 1, "quantity": 3}]));
    assert_eq!(repeated(&service).await, once, "one topic twice is none");
    service.stop().await;
}

#[tokio::test]
async fn a_captured_body_without_a_status_says_it_under_its_first_topic_alone() {
    let service = service().start().await;
    let key = service.api_key().await;
    let bare = |id: i64, second: u32| {
        let mut body = body(id, second, "pending");
        cut(&mut body, &["financial_status", "fulfillment_status"]);
        cut(&mut body, &["cancelled_at"]);
        body
    };
    let state = async |id: i64| {
        let order = shown(&service, &key, SHOP, id).await;
        order["fulfillment"]["state"].as_str().unwrap().to_owned()
    };
    let topics = [
        ("orders/paid", "requested"),
        ("orders/fulfilled", "fulfilled"),
        ("orders/cancelled", "cancelled"),
    ];
    for (id, (topic, said)) in (1..).zip(topics) {
        deliver(&service, &order_delivery("orders/create", &bare(id, 1))).await;
        deliver(&service, &order_delivery("orders/updated", &bare(id, 1))).await;
        let listed = repeated(&service).await.as_array().unwrap().len();
        assert_eq!(
            i64::try_from(listed).unwrap(),
            id - 1,
            "that update says nothing"
        );
        let before = rows(service.db()).await;
        for nth in 1..=2 {
            deliver(&service, &order_delivery(topic, &bare(id, 1))).await;
            assert_eq!(repeated(&service).await[0]["repeats"], nth, "{topic}");
        }
        assert_eq!(rows(service.db()).await, before, "{topic}");
        assert_eq!(state(id).await, "initiated", "{topic}");
        deliver(&service, &order_delivery(topic, &bare(id, 2))).await;
        assert_eq!(state(id).await, said, "{topic}");
    }
    // What was said first stays, and what is said later of the same body is not added to it.
    deliver(&service, &order_delivery("orders/paid", &bare(9, 1))).await;
    deliver(&service, &order_delivery("orders/create", &bare(9, 1))).await;
    assert_eq!(state(9).await, "requested");
    deliver(&service, &order_delivery("orders/cancelled", &bare(9, 1))).await;
    assert_eq!(state(9).await, "requested");
    service.stop().await;
}

#[tokio::test]
async fn a_captured_body_is_known_after_the_person_in_it_was_erased() {
    let service = service().start().await;
    let key = service.api_key().await;
    let created = with(documented(7, 1), &json!({"customer": {"id": 77}}));
    deliver(&service, &order_delivery("orders/create", &created)).await;
    deliver(&service, &order_delivery("orders/cancelled", &created)).await;
    let redaction = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": {"id": 77}, "orders_to_redact": [7],
    });
    deliver(
        &service,
        &storefront("customers/redact", redaction.to_string()),
    )
    .await;
    let erased = "select count(*) as n from orders where redacted_at is not null";
    assert_eq!(service.count(erased).await, 1);

    deliver(&service, &order_delivery("orders/cancelled", &created)).await;
    let requeue = ["jobs", "requeue", "--kind", "orders/cancelled", "--yes"];
    operator::said(&service, &requeue).await;
    service.settled().await;
    assert_eq!(repeated(&service).await[0]["repeats"], 4);
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["fulfillment"]["state"], "requested");
    assert_eq!(order["refunds"], json!([]));

    let cancelled = with(documented(7, 2), &json!({"customer": {"id": 77}}));
    deliver(&service, &order_delivery("orders/cancelled", &cancelled)).await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    service.stop().await;
}

#[tokio::test]
async fn two_shops_with_one_order_id_share_neither_refund_nor_shipment_nor_stock() {
    let service = service().start().await;
    let key = service.api_key().await;
    let fields = json!({
        "fulfillment_status": "fulfilled",
        "fulfillments": [fulfilment(70, &["T-1"], &[(1, 2), (2, 1)])],
    });
    let ours = [
        order_delivery("orders/cancelled", &cancelled(7, 1, "paid")).of_shop("a.example"),
        order_delivery("orders/fulfilled", &with(body(7, 1, "paid"), &fields)).of_shop("b.example"),
    ];
    for delivery in &ours {
        deliver(&service, delivery).await;
    }
    let (a, b) = (
        shown(&service, &key, "a.example", 7).await,
        shown(&service, &key, "b.example", 7).await,
    );
    assert_eq!(a["fulfillment"]["state"], "cancelled");
    assert_eq!(a["refunds"].as_array().unwrap().len(), 1);
    assert_eq!(a["restocked"].as_array().unwrap().len(), 2);
    assert_eq!(a["shipments"], json!([]));
    assert_eq!(b["fulfillment"]["state"], "fulfilled");
    assert_eq!(b["shipments"][0]["parcels"][0]["tracking_number"], "T-1");
    assert_eq!((&b["refunds"], &b["restocked"]), (&json!([]), &json!([])));
    let tables = rows(service.db()).await;
    assert_eq!(tables["a.example"].get("tracking_numbers"), None);
    assert_eq!(tables["b.example"].get("refunds"), None);
    assert_eq!(tables["b.example"].get("inventory_movements"), None);
    service.stop().await;
}

#[tokio::test]
async fn a_payment_that_two_orders_claim_refunds_neither() {
    let service = service().manual_clock().start().await;
    let claimed =
        |id: i64, second: u32| with(cancelled(id, second, "paid"), &naming_agreement("pact_1"));
    let open = |id: i64| with(body(id, 0, "paid"), &naming_agreement("pact_1"));
    deliver(&service, &order_delivery("orders/create", &open(1))).await;
    deliver(&service, &order_delivery("orders/create", &open(2))).await;
    // By its id, an order of another shop.
    deliver(
        &service,
        &order_delivery("orders/create", &body(3, 0, "paid")).of_shop("a.example"),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(3, 0, "paid")).of_shop("b.example"),
    )
    .await;
    deliver(&service, &captured(START, 1, "pact_1")).await;
    deliver(&service, &captured(START, 2, "3")).await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &claimed(1, 1)),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &claimed(2, 1)),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(3, 1, "paid")).of_shop("a.example"),
    )
    .await;
    deliver(&service, &captured(START, 3, "pact_1")).await;
    let linked = "select count(*) as n from refunds where payment_id <> ''";
    assert_eq!(service.count(linked).await, 0);
    let recorded = "select count(*) as n from refunds where state = 'recorded'";
    assert_eq!(service.count(recorded).await, 3, "what the storefront took");
    assert_eq!(service.count("select count(*) as n from payments").await, 3);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn a_payment_is_linked_in_whichever_order_it_and_the_cancellation_come() {
    let service = service().manual_clock().start().await;
    let open = |id: i64, name: &str| with(body(id, 0, "paid"), &naming_agreement(name));
    let cancelled = |id: i64, name: &str| with(cancelled(id, 1, "paid"), &naming_agreement(name));
    // The payment first, in the middle, last; and by the order's id.
    deliver(&service, &captured(START, 1, "p1")).await;
    deliver(&service, &order_delivery("orders/create", &open(1, "p1"))).await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(1, "p1")),
    )
    .await;
    deliver(&service, &order_delivery("orders/create", &open(2, "p2"))).await;
    deliver(&service, &captured(START, 2, "p2")).await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(2, "p2")),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(3, "p3")),
    )
    .await;
    deliver(&service, &captured(START, 3, "p3")).await;
    deliver(&service, &order_delivery("orders/create", &open(3, "p3"))).await;
    let by_id = crate::support::order::cancelled(4, 1, "paid");
    deliver(&service, &order_delivery("orders/cancelled", &by_id)).await;
    deliver(&service, &captured(START, 4, "4")).await;
    let key = service.api_key().await;
    for id in 1..=4 {
        let order = shown(&service, &key, SHOP, id).await;
        let refunds = order["refunds"].as_array().unwrap();
        assert_eq!(refunds.len(), 1, "order {id}");
        assert_eq!(refunds[0]["payment_id"], format!("pi_{id}"));
        assert_eq!(refunds[0]["amount"], "30.00", "what was captured");
        // No payment provider is set: whoever reads the event gives it back.
        assert_eq!(refunds[0]["state"], "recorded");
        let kinds = kinds(service.db(), SHOP, id).await;
        assert_eq!(times(&kinds, "order.refund_requested"), 1);
        assert_eq!(times(&kinds, "order.refund_recorded"), usize::from(id > 2));
        let events = events(service.db(), SHOP, id).await;
        let asked = events
            .iter()
            .find(|(kind, _)| kind == "order.refund_requested");
        let asks = json!({
            "payment_id": format!("pi_{id}"), "amount": "30.00", "currency": "USD",
            "shop": SHOP, "order_id": id.to_string(), "automatic": false,
        });
        assert_eq!(asked.unwrap().1, asks);
        let recorded = place(&kinds, "order.refund_recorded");
        assert!(recorded < place(&kinds, "order.refund_requested"));
    }
    let jobs = "select count(*) as n from deliveries where source = 'internal'";
    assert_eq!(service.count(jobs).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn bodies_that_have_only_parts_end_in_the_same_rows_in_every_order() {
    let service = service().start().await;
    let mut named = body(7, 1, "pending");
    cut(&mut named, &["phone", "shipping_address", "line_items"]);
    let mut nameless = body(7, 2, "paid");
    cut(
        &mut nameless,
        &["email", "customer", "note_attributes", "total_price"],
    );
    let mut bare = with(body(7, 3, "authorized"), &json!({"customer": {"id": 77}}));
    cut_to(&mut bare, &["id", "updated_at", "customer", "line_items"]);
    let claimed = with(
        json!({"id": 7, "updated_at": at(4)}),
        &naming_agreement("pact_1"),
    );
    let bodies = [named, nameless, bare, claimed].map(|body| ("orders/updated", body.to_string()));
    let ends = every_order_of(&service, &bodies).await;
    let (_, _, expected) = &ends[0];
    for (permutation, _, rows) in &ends {
        assert_eq!(rows, expected, "{permutation:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn versions_of_one_second_end_the_same_in_either_order() {
    let service = service().start().await;
    let (one, other) = (
        body(7, 1, "authorized"),
        with(body(7, 1, "authorized"), &json!({"name": "#other"})),
    );
    let deliveries = |shop: &str, bodies: [&Value; 2]| {
        bodies.map(|body| order_delivery("orders/updated", body).of_shop(shop))
    };
    for delivery in deliveries("a.example", [&one, &other]) {
        deliver(&service, &delivery).await;
    }
    for delivery in deliveries("b.example", [&other, &one]) {
        deliver(&service, &delivery).await;
    }
    let rows = rows(service.db()).await;
    assert_eq!(rows["a.example"], rows["b.example"]);
    service.stop().await;
}

#[tokio::test]
async fn a_time_that_only_the_receipt_gives_is_that_of_the_receipt() {
    let service = service().manual_clock().start().await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &json!({"id": 7})),
    )
    .await;
    let key = service.api_key().await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["cancelled_at"], Timestamp(START.0).to_string());
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    service.stop().await;
}
