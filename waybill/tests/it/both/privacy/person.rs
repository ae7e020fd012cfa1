//! Whom a privacy request means: ids decide, an address that a buyer typed never leads to another
//! customer, and uncertain cases are held for an operator.

use std::time::Duration;

use domain::job::State;
use domain::order::record::Record;
use domain::privacy::Decided;
use platform::clock::Clock;
use serde_json::{Value, json};
use store::privacy_requests::{self, RequestEntry};
use store::{audit, erasure};

use crate::both::privacy::erasure::places;
use crate::support::backend::statement;
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::order::{body, deliver, naming_agreement, order_delivery, with};
use crate::support::payment::{event, intent};
use crate::support::records;
use crate::support::requests::{decide, document, entry, posted, waybill};
use crate::support::{START, Service, eventually, service};

const SUCCEEDED: &str = "payment_intent.succeeded";

fn redact(customer: &Value, orders: &[i64]) -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, "orders_to_redact": orders,
    });
    storefront("customers/redact", body.to_string())
}

/// An order with a word of its own in every name and address.
fn order(id: i64, customer: Option<i64>, word: &str, fields: &Value) -> Value {
    let email = format!("{word}@example.com");
    let customer = customer.map(|id| json!({"id": id, "email": email, "first_name": word}));
    let own = json!({
        "email": email, "phone": null, "customer": customer, "note": word,
        "shipping_address": {"first_name": word, "address1": format!("1 {word} Street")},
    });
    with(with(body(id, 1, "paid"), &own), fields)
}

async fn buys(service: &Service, order: &Value) {
    let id = format!("order-{}", order["id"]);
    deliver(service, &order_delivery("orders/create", order).id(&id)).await;
}

async fn asked(service: &Service, request: &Delivery) -> RequestEntry {
    let id = posted(service, request).await;
    service.settled().await;
    entry(service, id).await
}

fn customers(entry: &RequestEntry) -> Vec<i64> {
    let held = entry.held.as_ref().expect("something is held");
    held.customers.keys().copied().collect()
}

async fn is_whole(service: &Service, word: &str) {
    let found = places(service, word).await;
    for place in ["orders.record", "deliveries.body"] {
        assert!(
            found.contains(&place.to_owned()),
            "{word} {place}: {found:?}"
        );
    }
    let orders = records::orders(service.db()).await;
    let mut orders = orders.iter().map(|(_, order)| order);
    let is_whole = orders.any(|order| {
        let address = json!(order.addresses.value.shipping).to_string();
        let email = order.contact.value.email.as_deref().unwrap_or_default();
        [email, &address]
            .iter()
            .all(|text| text.to_lowercase().contains(word))
    });
    assert!(
        is_whole,
        "the order of {word} has its address and where it goes"
    );
}

async fn is_gone(service: &Service, word: &str) {
    assert_eq!(places(service, word).await, Vec::<String>::new(), "{word}");
}

#[tokio::test]
async fn a_buyer_who_types_another_customers_address_erases_only_themselves() {
    for typed in [
        json!({"email": "Victim@Example.com"}),
        json!({"phone": "+1 202 555 0144"}),
    ] {
        let service = service().manual_clock().start().await;
        let victim = json!({"phone": "+12025550144"});
        buys(&service, &order(1, Some(77), "victim", &victim)).await;
        // The storefront passes on what its customer typed.
        buys(&service, &order(2, Some(66), "villain", &typed)).await;
        let named = with(json!({"id": 66, "email": "villain@example.com"}), &typed);
        let request = asked(&service, &redact(&named, &[2])).await;
        // The request itself is kept until somebody has decided.
        let left = places(&service, "villain").await;
        assert!(
            left.iter().all(|place| place == "deliveries.body"),
            "{left:?}"
        );
        is_whole(&service, "victim").await;
        assert_eq!(request.state, "held", "{typed}");
        assert_eq!(customers(&request), [77]);
        assert!(request.finished_at.is_none(), "its deadline goes on");
        let nobody_else = Decided {
            is_all: true,
            ..Decided::default()
        };
        decide(&service, request.id, &nobody_else).await;
        is_gone(&service, "villain").await;
        is_whole(&service, "victim").await;
        service.stop().await;
    }
}

#[tokio::test]
async fn a_number_that_many_typed_merges_nobody() {
    let service = service().manual_clock().start().await;
    let made_up = json!({"phone": "000000"});
    buys(&service, &order(1, Some(77), "ann", &made_up)).await;
    buys(&service, &order(2, Some(78), "bob", &made_up)).await;
    buys(&service, &order(3, None, "guest", &made_up)).await;
    let request = asked(
        &service,
        &redact(&json!({"id": 77, "phone": "000000"}), &[]),
    )
    .await;
    assert_eq!(request.state, "done", "nobody has this number");
    is_gone(&service, "ann").await;
    is_whole(&service, "bob").await;
    is_whole(&service, "guest").await;
    service.stop().await;
}

#[tokio::test]
async fn an_order_of_another_customer_that_a_request_names_is_held() {
    let service = service().manual_clock().start().await;
    buys(&service, &order(1, Some(77), "ann", &json!({}))).await;
    buys(&service, &order(2, Some(78), "bob", &json!({}))).await;
    buys(&service, &order(3, None, "guest", &json!({}))).await;
    let request = asked(&service, &redact(&json!({"id": 77}), &[1, 2, 3, 4])).await;
    assert_eq!(request.state, "held");
    assert_eq!(customers(&request), [78]);
    is_gone(&service, "ann").await;
    is_gone(&service, "guest").await;
    is_whole(&service, "bob").await;
    // What comes late of it is told apart by the same rule.
    buys(&service, &order(4, Some(78), "bob", &json!({}))).await;
    let whole = "select count(*) as n from orders where customer_id = 78 and email_key is not null";
    assert_eq!(service.count(whole).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn an_operator_decides_who_is_meant_and_it_is_in_the_audit() {
    let service = service().manual_clock().start().await;
    let shared = json!({"phone": "+49 30 1234567"});
    for (id, customer, word) in [
        (1, Some(77), "ann"),
        (2, Some(78), "anna"),
        (3, Some(79), "bob"),
    ] {
        buys(&service, &order(id, customer, word, &shared)).await;
    }
    buys(&service, &order(4, None, "guest", &shared)).await;
    buys(&service, &order(5, None, "stranger", &shared)).await;
    let named = json!({"id": 77, "phone": "tel:+49-30-1234567"});
    let request = asked(&service, &redact(&named, &[])).await;
    let held = request.held.clone().unwrap();
    assert_eq!(customers(&request), [78, 79]);
    assert_eq!(held.orders, [4, 5].into());
    let asked_for = request.id;
    let id = asked_for.to_string();

    let command = async |arguments: &[&str]| {
        let output = waybill(&service, &[], arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (_, shown, _) = command(&["privacy", "show", &id]).await;
    for part in [
        "customer 78",
        "customer 79",
        "order 4",
        "privacy decide",
        "days left",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(
        !shown.contains("anna") && !shown.contains("1234567"),
        "{shown}"
    );
    let (_, listed, _) = command(&["privacy", "list", "--state", "held"]).await;
    assert!(listed.contains(&id), "{listed}");
    for wrong in [
        &["--include", "1"][..],
        &[],
        &["--include", "78", "--exclude", "78"],
    ] {
        let all = [&["privacy", "decide", &id], wrong].concat();
        assert_eq!(command(&all).await.0, Some(1), "{wrong:?}");
    }
    let said = [
        "privacy",
        "decide",
        &id,
        "--include",
        "78",
        "--exclude",
        "79",
        "--by",
        "ann",
    ];
    let said = [&said[..], &["--include-order", "4"]].concat();
    assert_eq!(command(&said).await.0, Some(0));
    service.settled().await;

    let now = entry(&service, asked_for).await;
    assert_eq!(now.state, "held", "nothing was said of one order");
    assert_eq!(now.held.unwrap().orders, [5].into());
    for word in ["ann@", "anna", "guest"] {
        is_gone(&service, word).await;
    }
    is_whole(&service, "bob").await;
    is_whole(&service, "stranger").await;
    let rest = Decided {
        is_all: true,
        ..Decided::default()
    };
    decide(&service, request.id, &rest).await;
    let request = entry(&service, asked_for).await;
    assert_eq!(request.state, "done");
    assert_eq!(request.progress["customers"], 2);
    assert_eq!(request.progress["orders"], 3);
    is_whole(&service, "stranger").await;
    let trail = audit::list(service.db(), Some(&id), 0, 10).await.unwrap();
    let actions: Vec<&str> = trail.iter().map(|entry| entry.action.as_str()).collect();
    let expected = [
        "request.received",
        "request.held",
        "request.decided",
        "request.held",
        "request.decided",
        "customer.erased",
    ];
    assert_eq!(actions, expected);
    assert_eq!(trail[2].actor, "operator:ann");
    service.stop().await;
}

#[tokio::test]
async fn a_number_is_found_however_it_is_written() {
    let service = service().manual_clock().start().await;
    let spellings = [
        "+49 30/1234567",
        "+49\u{a0}30\u{a0}1234567",
        "0049 (30) 1234567 x12",
        "tel:+49-30-1234567",
    ];
    for (nth, phone) in (1..).zip(spellings) {
        buys(
            &service,
            &order(nth, None, "guest", &json!({"phone": phone})),
        )
        .await;
    }
    for phone in spellings {
        let request = asked(&service, &redact(&json!({"phone": phone}), &[])).await;
        assert_eq!(request.state, "held", "{phone}");
        assert_eq!(request.held.unwrap().orders, [1, 2, 3, 4].into(), "{phone}");
    }
    let upper = json!({"email": "ÄRA@EXAMPLE.COM"});
    buys(
        &service,
        &order(9, None, "umlaut", &json!({"email": "ära@example.com"})),
    )
    .await;
    let request = asked(&service, &redact(&upper, &[])).await;
    assert_eq!(
        (request.state.as_str(), &request.progress["orders"]),
        ("done", &json!(1))
    );
    service.stop().await;
}

#[tokio::test]
async fn a_number_in_a_body_is_a_telephone_number_only_where_one_stands() {
    let service = service().manual_clock().start().await;
    let phone = "44012345678901";
    let request = json!({"id": 77, "phone": phone});
    // A dead order of somebody else, with a variant of that number.
    let unreadable = json!({"order_id": 2, "line_items": [{"id": 1, "variant_id": phone}]});
    let dead = order(2, Some(78), "bob", &unreadable);
    deliver(&service, &order_delivery("orders/create", &dead)).await;
    assert_eq!(service.jobs(State::Dead).await, 1);
    let request = asked(&service, &redact(&request, &[])).await;
    assert_eq!(request.state, "done");
    let found = places(&service, "bob").await;
    assert!(found.contains(&"deliveries.body".to_owned()), "{found:?}");

    // A payment of that amount.
    asked(
        &service,
        &redact(&json!({"id": 79, "phone": "129900"}), &[]),
    )
    .await;
    let mut paid = intent("pi_5", "succeeded", 129_900, None);
    paid["receipt_email"] = json!("carol@example.com");
    paid["customer"] = json!("cus_5");
    deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
    let found = places(&service, "carol").await;
    assert!(found.contains(&"payments.record".to_owned()), "{found:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_late_event_about_an_old_payment_brings_nobody_back() {
    let service = service().manual_clock().start().await;
    asked(
        &service,
        &redact(&json!({"id": 77, "email": "canary@example.com"}), &[]),
    )
    .await;
    service.clock().advance(Duration::from_hours(24));
    let now = service.clock().now().unix_seconds();
    let late = |id: &str, created: i64| {
        let mut paid = intent(id, "succeeded", 100, None);
        paid["created"] = json!(created);
        paid["customer"] = json!(null);
        let body = json!({
            "id": format!("evt_{id}"), "object": "event", "created": now, "type": SUCCEEDED,
            "data": {"object": paid},
        });
        crate::support::delivery::payment_at(now, body.to_string())
    };
    deliver(&service, &late("pi_old", now - 40 * 3600)).await;
    is_gone(&service, "canary").await;
    // One that was made since is of whoever has come back.
    deliver(&service, &late("pi_new", now - 3600)).await;
    let found = places(&service, "canary").await;
    assert!(found.contains(&"payments.record".to_owned()), "{found:?}");
    service.stop().await;
}

#[tokio::test]
async fn payments_of_the_payment_providers_customer_are_found_and_get_tombstones() {
    let service = service().manual_clock().start().await;
    buys(
        &service,
        &order(1, Some(77), "ann", &naming_agreement("p1")),
    )
    .await;
    let pays = |id: &str, agreement: Option<&str>, email: &str| {
        let mut paid = intent(id, "succeeded", 100, agreement);
        paid["receipt_email"] = json!(email);
        paid["customer"] = json!("cus_ann");
        event(&service, SUCCEEDED, 1, &paid)
    };
    deliver(&service, &pays("pi_1", Some("p1"), "ann@example.com")).await;
    deliver(&service, &pays("pi_2", None, "ann-at-work@example.com")).await;
    // By whatever card, it is of somebody else's order.
    buys(
        &service,
        &order(2, Some(78), "bob", &naming_agreement("p2")),
    )
    .await;
    deliver(&service, &pays("pi_3", Some("p2"), "bob@example.com")).await;
    let request = asked(&service, &redact(&json!({"id": 77}), &[])).await;
    is_gone(&service, "ann@example").await;
    is_gone(&service, "ann-at-work").await;
    is_whole(&service, "bob").await;
    assert_eq!(customers(&request), [78]);
    service.clock().advance(Duration::from_hours(1));
    deliver(&service, &pays("pi_4", None, "ann-at-work@example.com")).await;
    is_gone(&service, "ann-at-work").await;
    service.stop().await;
}

/// What a late delivery leaves of an order's row while an erasure runs.
async fn forget_row(service: &Service, order: i64) {
    let mut tx = service.db().begin().await.unwrap();
    let key = (SHOP.to_owned(), order);
    erasure::forget::<Record>(&mut tx, vec![key], service.clock().now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_run_that_goes_on_knows_the_orders_that_the_one_before_it_found() {
    let clock = Clock::manual(START);
    let mut first = service().clock(&clock).start().await;
    let typed = json!({"email": "guest@example.com"});
    buys(&first, &order(1, None, "guest", &typed)).await;
    first.halt().await;
    let ingress = service().clock(&clock).without_workers();
    let ingress = ingress.start_beside(&first).await;
    let request = redact(&json!({"email": "GUEST@EXAMPLE.COM"}), &[]);
    let id = posted(&ingress, &request).await;
    // The run before was killed when it had found the order, and then the row lost its address.
    let mut tx = ingress.db().begin().await.unwrap();
    privacy_requests::note_progress(&mut tx, id, &json!({"orders": [1]}))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    forget_row(&ingress, 1).await;
    assert_eq!(places(&ingress, "guest@example").await, ["deliveries.body"]);

    clock.advance(Duration::from_mins(2));
    let workers = service().clock(&clock).start_beside(&first).await;
    // On a busy machine a run may be put off, and then it goes on a little later.
    eventually("it is done", async || {
        workers.pass(Duration::from_secs(10)).await;
        entry(&workers, id).await.state == "done"
    })
    .await;
    is_gone(&workers, "guest").await;
    ingress.stop().await;
    workers.stop().await;
}

#[tokio::test]
async fn an_order_of_a_guest_who_was_erased_holds_nothing_back() {
    let service = service().manual_clock().start().await;
    buys(&service, &order(1, None, "guest", &naming_agreement("p1"))).await;
    let mut paid = intent("pi_1", "succeeded", 100, Some("p1"));
    paid["receipt_email"] = json!("guest@example.com");
    deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
    forget_row(&service, 1).await;
    let named = json!({"email": "guest@example.com"});
    let request = asked(&service, &redact(&named, &[])).await;
    assert_eq!(request.state, "done", "{:?}", request.held);
    is_gone(&service, "guest").await;
    service.stop().await;
}

#[tokio::test]
async fn orders_that_came_without_a_shop_are_erased_too() {
    let service = service().manual_clock().start().await;
    let header = "X-Storefront-Shop-Domain";
    let unnamed = |order: &Value| order_delivery("orders/create", order).without(header);
    deliver(&service, &unnamed(&order(1, Some(77), "ann", &json!({})))).await;
    deliver(&service, &unnamed(&order(2, None, "annie", &json!({})))).await;
    let nameless = "select count(*) as n from orders where shop = ''";
    assert_eq!(service.count(nameless).await, 2);
    let named = json!({"id": 77, "email": "annie@example.com"});
    let request = asked(&service, &redact(&named, &[])).await;
    assert_eq!(
        (&request.progress["orders"], &request.progress["customers"]),
        (&json!(2), &json!(1))
    );
    is_gone(&service, "ann").await;
    // Nor does one that comes late bring them back.
    deliver(&service, &unnamed(&order(3, Some(77), "ann", &json!({})))).await;
    is_gone(&service, "ann").await;
    service.stop().await;
}

#[tokio::test]
async fn a_done_payment_event_is_found_however_its_address_is_written() {
    let service = service().manual_clock().start().await;
    let mut paid = intent("pi_1", "succeeded", 100, None);
    paid["customer"] = json!(null);
    paid["receipt_email"] = json!(null);
    paid["shipping"] = json!({"name": "Canary", "email": "CaNaRy@Example.COM"});
    deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
    let request = asked(
        &service,
        &redact(&json!({"email": "canary@example.com"}), &[]),
    )
    .await;
    assert_eq!(request.progress["jobs"], 1);
    is_gone(&service, "anary").await;
    service.stop().await;
}

#[tokio::test]
async fn an_export_has_the_bodies_that_an_erasure_would_find() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let service = service()
        .setting("PRIVACY_EXPORT_URL", &url)
        .manual_clock()
        .start()
        .await;
    // Dead, of a guest.
    let unreadable = json!({"order_id": 7});
    deliver(
        &service,
        &order_delivery("orders/create", &order(1, None, "canary", &unreadable)),
    )
    .await;
    let invoice = json!({
        "id": "in_1", "object": "invoice", "status": "paid", "amount_paid": 100, "total": 100,
        "currency": "usd", "customer_email": "canary@example.com", "lines": {"data": []},
    });
    deliver(
        &service,
        &event(&service, "invoice.payment_succeeded", 1, &invoice),
    )
    .await;
    let charge = json!({
        "id": "ch_1", "object": "charge", "amount": 100, "amount_captured": 100,
        "amount_refunded": 100, "captured": true, "refunded": true, "currency": "usd",
        "metadata": {}, "billing_details": {"email": "Canary@example.com"},
    });
    deliver(&service, &event(&service, "charge.refunded", 1, &charge)).await;
    let mut other = charge.clone();
    other["id"] = json!("ch_2");
    other["billing_details"] = json!({"email": "bob@example.com"});
    deliver(&service, &event(&service, "charge.refunded", 1, &other)).await;
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": {"email": "canary@example.com"},
        "orders_requested": [], "data_request": {"id": 1},
    });
    let asking = storefront("customers/data_request", body.to_string());
    let request = asked(&service, &asking).await;
    let document = std::fs::read(document(folder.path(), request.id));
    let document: Value = serde_json::from_slice(&document.unwrap()).unwrap();
    let deliveries = document["data"]["deliveries"].as_array().unwrap().iter();
    let mut kinds: Vec<&str> = deliveries.map(|it| it["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    let expected = [
        "charge.refunded",
        "invoice.payment_succeeded",
        "orders/create",
    ];
    assert_eq!(kinds, expected);
    assert!(!document.to_string().contains("bob@"));
    service.stop().await;
}

#[tokio::test]
async fn who_comes_back_with_the_same_id_is_a_new_relation() {
    let service = service().manual_clock().start().await;
    buys(&service, &order(1, Some(77), "before", &json!({}))).await;
    asked(
        &service,
        &redact(&json!({"id": 77, "email": "before@example.com"}), &[]),
    )
    .await;
    is_gone(&service, "before").await;
    service.clock().advance(Duration::from_hours(48));
    let back = json!({"created_at": "2027-01-17T07:30:00Z", "updated_at": "2027-01-17T07:31:00Z"});
    buys(&service, &order(2, Some(77), "comeback", &back)).await;
    is_whole(&service, "comeback").await;
    let found = places(&service, "comeback").await;
    assert!(found.contains(&"customers.record".to_owned()), "{found:?}");
    // A late version of what was erased neither comes back, nor takes the new relation with it.
    let late = order(
        1,
        Some(77),
        "before",
        &json!({"updated_at": "2027-01-15T07:20:00Z"}),
    );
    deliver(
        &service,
        &order_delivery("orders/updated", &late).id("late"),
    )
    .await;
    let unknown = order(3, Some(77), "before", &json!({}));
    deliver(
        &service,
        &order_delivery("orders/create", &unknown).id("unknown"),
    )
    .await;
    is_gone(&service, "before").await;
    is_whole(&service, "comeback").await;
    // They are erased when they ask again.
    let sql = "select count(*) as n from privacy_requests";
    assert_eq!(service.count(statement(sql.to_owned())).await, 1);
    asked(&service, &redact(&json!({"id": 77}), &[2])).await;
    is_gone(&service, "comeback").await;
    service.stop().await;
}
