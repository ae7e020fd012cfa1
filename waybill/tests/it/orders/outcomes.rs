//! What shops and providers really do with an order: they bring it back, call units off, take money of several kinds, and
//! send what nobody documented.

use std::time::Duration;

use domain::job::State;
use domain::signature::sign_storefront;
use sandbox::{Fault, PAYMENT_KEY, Sandbox};
use serde_json::{Value, json};
use store::orders::checkout_key;

use super::agreements::permutations;
use crate::api::profiles::api;
use crate::both::connections::{self, connect_account, with_connections};
use crate::both::orders::providers::{
    REFUND, capture, deliver_without_waiting, job, now, sandbox, with_payment,
};
use crate::support::delivery::{Delivery, SHOP, payment_at};
use crate::support::operator::{items as listed_by, json as shown_by, refused, said};
use crate::support::order::{
    CAPTURED, at, body, cancelled, captured, deliver, events, naming_agreement, order_delivery,
    post_all, shown, with,
};
use crate::support::payment::{CREATED, charge, event, intent, invoice, session};
use crate::support::{STOREFRONT_SECRET, Service, eventually, service};

/// An order of WooCommerce, of three units for 30.00.
fn woo(second: u32, status: &str, fields: &Value) -> Delivery {
    let body = json!({
        "id": 7, "number": "7", "date_created_gmt": "2027-01-15T07:00:00",
        "date_modified_gmt": at(second).trim_end_matches('Z'), "currency": "USD", "total": "30.00",
        "status": status, "date_paid_gmt": null, "date_completed_gmt": null, "refunds": [],
        "line_items": [{"id": 1, "quantity": 3}],
    });
    order_delivery("orders/updated", &with(body, fields))
}

/// Each refund of an order: its state, its payment and its amount.
fn refunds(order: &Value) -> Vec<(Value, Value, Value)> {
    let refunds = order["refunds"].as_array().unwrap().iter();
    refunds
        .map(|it| {
            (
                it["state"].clone(),
                it["payment_id"].clone(),
                it["amount"].clone(),
            )
        })
        .collect()
}

/// What a warehouse hears that follows the events: the last word of each, and the units by line.
async fn to_warehouse(service: &Service, id: i64) -> Vec<(String, Vec<(String, Value)>)> {
    let events = events(service.db(), SHOP, id).await.into_iter();
    let of_shipping = events.filter_map(|(kind, body)| {
        let word = kind.strip_prefix("order.fulfillment_")?.to_owned();
        let lines = body["lines"].as_array().cloned().unwrap_or_default();
        let unit = |line: &Value| {
            let id = line["line_id"].as_str().unwrap_or_default();
            (id.to_owned(), line["quantity"].clone())
        };
        Some((word, lines.iter().map(unit).collect()))
    });
    of_shipping.collect()
}

fn word(word: &str, lines: &[(&str, i64)]) -> (String, Vec<(String, Value)>) {
    let lines = lines
        .iter()
        .map(|(id, units)| (id.to_string(), json!(units)));
    (word.to_owned(), lines.collect())
}

async fn state(service: &Service, key: &str, id: i64) -> Value {
    shown(service, key, SHOP, id).await["fulfillment"]["state"].clone()
}

#[tokio::test]
async fn an_order_that_a_late_payment_brings_back_is_shipped_and_not_given_back() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    let key = service.api_key().await;
    let paid = json!({"date_paid_gmt": "2027-01-15T07:00:03"});
    capture(&sandbox, 7, "7");
    deliver(&service, &woo(1, "pending", &json!({}))).await;
    deliver(&service, &captured(now(&service), 7, "7")).await;
    deliver(&service, &woo(2, "cancelled", &json!({}))).await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(
        refunds(&order),
        [(json!("recorded"), json!("pi_7"), json!("30.00"))]
    );
    let held = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(held[0]["reason"], "refund_is_yours", "{held}");
    deliver(&service, &woo(3, "processing", &paid)).await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["fulfillment"]["state"], "requested");
    assert_eq!(
        (&order["cancelled_at"], refunds(&order)),
        (&Value::Null, vec![])
    );
    let held = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(held, json!([]));
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        0,
        "nothing is asked for"
    );
    assert_eq!(
        to_warehouse(&service, 7).await,
        [
            word("requested", &[("1", 3)]),
            word("cancelled", &[("1", 3)]),
            word("requested", &[("1", 3)])
        ]
    );
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn what_the_shop_and_the_provider_took_is_owed_by_each() {
    let service = service().start().await;
    let key = service.api_key().await;
    let fields = json!({
        "total_price": "100.00", "payment_gateway_names": ["gift_card", "stripe"],
        "note_attributes": [{"name": "pact_id", "value": "p1"}],
    });
    let order = with(body(1, 1, "paid"), &fields);
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let paid = intent("pi_1", "succeeded", 7000, Some("p1"));
    let paid = event(&service, "payment_intent.succeeded", 1, &paid);
    deliver(&service, &paid).await;
    let gone = with(cancelled(1, 2, "paid"), &fields);
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    let recorded = json!("recorded");
    assert_eq!(
        refunds(&order),
        [
            (recorded.clone(), Value::Null, json!("30.00")),
            (recorded, json!("pi_1"), json!("70.00"))
        ]
    );
    service.stop().await;
}

/// What the shop gave back itself, by one transaction.
fn given_back(transaction: &Value) -> Value {
    let whole = json!({"id": 90, "kind": "refund", "status": "success"});
    json!([{"id": 9, "transactions": [with(whole, transaction)], "refund_line_items": []}])
}

#[tokio::test]
async fn what_went_back_as_credit_is_not_refunded_again_without_a_person() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    let key = service.api_key().await;
    capture(&sandbox, 7, "7");
    let credit = given_back(&json!({"amount": "30.00", "currency": "USD", "gateway": "gift_card"}));
    let fields = json!({"refunds": credit});
    deliver(&service, &captured(now(&service), 7, "7")).await;
    let gone = with(cancelled(7, 2, "refunded"), &fields);
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    service.settled().await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(
        refunds(&order),
        [(json!("recorded"), json!("pi_7"), Value::Null)]
    );
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn what_went_back_in_the_buyers_currency_is_never_zero_of_the_shops() {
    let service = service().start().await;
    let key = service.api_key().await;
    let euros = json!({"amount": "92.00", "currency": "EUR", "gateway": "stripe"});
    let in_both = json!({"amount_set": {
        "shop_money": {"amount": "100.00", "currency_code": "USD"},
        "presentment_money": {"amount": "92.00", "currency_code": "EUR"},
    }});
    for (id, transaction, amount) in [
        (1, euros.clone(), Value::Null),
        (2, with(euros, &in_both), json!("100.00")),
    ] {
        let fields = json!({"total_price": "100.00", "refunds": given_back(&transaction)});
        let paid = with(body(id, 1, "paid"), &json!({"total_price": "100.00"}));
        deliver(&service, &order_delivery("orders/paid", &paid)).await;
        let gone = with(cancelled(id, 2, "refunded"), &fields);
        deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
        let order = shown(&service, &key, SHOP, id).await;
        assert_eq!(order["storefront_refunds"][0]["amount"], amount);
        let owed = (json!("already_refunded"), Value::Null, amount);
        assert_eq!(refunds(&order), [owed]);
    }
    assert_eq!(
        listed_by(&service, &["orders", "held"]).await,
        json!([]),
        "nothing is owed"
    );
    service.stop().await;
}

#[tokio::test]
async fn units_that_are_not_to_be_shipped_any_more_are_called_off_by_line() {
    let service = service().start().await;
    let of = |second: u32, left: i64, fulfillments: Value| {
        let fields = json!({
            "line_items": [{"id": 1, "quantity": 3, "current_quantity": left}],
            "fulfillments": fulfillments,
        });
        order_delivery("orders/updated", &with(body(1, second, "paid"), &fields))
    };
    let two = |status: &str| json!([{"id": 70, "status": status, "line_items": [{"id": 1, "quantity": 2}]}]);
    for delivery in [
        of(1, 3, json!([])),
        of(2, 2, json!([])),
        of(3, 2, two("success")),
        of(4, 2, two("cancelled")),
        of(5, 0, two("cancelled")),
    ] {
        deliver(&service, &delivery).await;
    }
    assert_eq!(
        to_warehouse(&service, 1).await,
        [
            word("requested", &[("1", 3)]),
            word("reduced", &[("1", 1)]),
            word("requested", &[("1", 2)]),
            word("cancelled", &[("1", 2)]),
        ]
    );
    service.stop().await;
}

#[tokio::test]
async fn what_a_payment_pays_for_stays_requested_when_something_is_added() {
    let service = service().start().await;
    let key = service.api_key().await;
    let order = with(body(1, 1, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let paid = intent("pi_1", "succeeded", 3000, Some("p1"));
    let paid = event(&service, "payment_intent.succeeded", 1, &paid);
    deliver(&service, &paid).await;
    let with_more = |second: u32, outstanding: &str| {
        let mut order = with(
            order.clone(),
            &json!({
                "updated_at": at(second), "total_price": "50.00", "total_outstanding": outstanding,
            }),
        );
        let lines = order["line_items"].as_array_mut().unwrap();
        lines.push(json!({"id": 3, "quantity": 1, "price": "20.00"}));
        order_delivery("orders/updated", &order)
    };
    deliver(&service, &with_more(2, "50.00")).await;
    assert_eq!(state(&service, &key, 1).await, "requested");
    let first = word("requested", &[("1", 2), ("2", 1)]);
    assert_eq!(
        to_warehouse(&service, 1).await,
        std::slice::from_ref(&first)
    );
    let rest = intent("pi_2", "succeeded", 2000, Some("p1"));
    let rest = event(&service, "payment_intent.succeeded", 2, &rest);
    deliver(&service, &rest).await;
    assert_eq!(
        to_warehouse(&service, 1).await,
        [first, word("requested", &[("3", 1)])]
    );
    service.stop().await;
}

#[tokio::test]
async fn an_order_on_terms_or_on_delivery_is_shipped_before_it_is_paid() {
    let service = service().start().await;
    let key = service.api_key().await;
    let terms = |kind: &str| json!({"payment_terms": {"payment_terms_type": kind, "payment_schedules": []}});
    let on_delivery = json!({"payment_gateway_names": ["Cash on Delivery (COD)"]});
    for (id, fields, expected) in [
        (1, terms("net"), "requested"),
        (2, terms("fulfillment"), "requested"),
        (3, terms("receipt"), "initiated"),
        (4, on_delivery, "requested"),
    ] {
        let open = with(body(id, 1, "pending"), &fields);
        deliver(&service, &order_delivery("orders/create", &open)).await;
        assert_eq!(state(&service, &key, id).await, expected, "{fields}");
        let paid = with(body(id, 2, "paid"), &fields);
        deliver(&service, &order_delivery("orders/paid", &paid)).await;
        let once = [word("requested", &[("1", 2), ("2", 1)])];
        assert_eq!(to_warehouse(&service, id).await, once, "{fields}");
    }
    // Whoever pays on delivery has paid nothing when it is cancelled.
    deliver(&service, &woo(1, "processing", &json!({}))).await;
    assert_eq!(state(&service, &key, 7).await, "requested");
    deliver(&service, &woo(2, "cancelled", &json!({}))).await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["refunds"], json!([]));
    service.stop().await;
}

#[tokio::test]
async fn a_shop_that_ships_nothing_unpaid_hears_of_the_orders_that_wait_by_their_terms() {
    let service = service().setting("SHIP_ON_TERMS", "false");
    let names = "Nachnahme, Postnachnahme";
    let service = service
        .setting("CASH_ON_DELIVERY_GATEWAYS", names)
        .start()
        .await;
    let key = service.api_key().await;
    let due = "2027-02-14T07:00:00Z";
    let terms = json!({
        "payment_terms": {"payment_terms_type": "net", "payment_schedules": [{"due_at": due}]},
    });
    let open = with(body(1, 1, "pending"), &terms);
    deliver(&service, &order_delivery("orders/create", &open)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["fulfillment"]["state"], "initiated");
    assert_eq!(
        (&order["payment_terms"], &order["payment_due_at"]),
        (&json!("net"), &json!("2027-02-14T07:00:00.000Z"))
    );
    let held = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(
        (&held[0]["reason"], &held[0]["order_id"]),
        (&json!("paid_later"), &json!("1"))
    );
    let paid = with(body(1, 2, "paid"), &terms);
    deliver(&service, &order_delivery("orders/paid", &paid)).await;
    assert_eq!(state(&service, &key, 1).await, "requested");
    assert_eq!(listed_by(&service, &["orders", "held"]).await, json!([]));
    // Who brings the goods takes the money, whatever the shop calls it.
    let on_delivery = json!({"payment_gateway_names": ["NACHNAHME"]});
    let open = with(body(2, 1, "pending"), &on_delivery);
    deliver(&service, &order_delivery("orders/create", &open)).await;
    assert_eq!(state(&service, &key, 2).await, "requested");
    service.stop().await;
}

#[tokio::test]
async fn lines_of_a_service_that_ships_them_are_not_requested() {
    let service = service()
        .setting("SERVICES_THAT_SHIP", "sample-warehouse")
        .start()
        .await;
    let key = service.api_key().await;
    let line =
        |id: i64, service: &str| json!({"id": id, "quantity": 2, "fulfillment_service": service});
    let lines = |lines: Vec<Value>| json!({"line_items": lines});
    let mixed = lines(vec![line(1, "manual"), line(2, "Sample-Warehouse")]);
    let paid = with(body(1, 1, "paid"), &mixed);
    deliver(&service, &order_delivery("orders/paid", &paid)).await;
    assert_eq!(
        to_warehouse(&service, 1).await,
        [word("requested", &[("1", 2)])]
    );
    let theirs = lines(vec![line(1, "sample-warehouse")]);
    let paid = with(body(2, 1, "paid"), &theirs);
    deliver(&service, &order_delivery("orders/paid", &paid)).await;
    assert_eq!(to_warehouse(&service, 2).await, []);
    assert_eq!(state(&service, &key, 2).await, "initiated");
    service.stop().await;
}

#[tokio::test]
async fn a_test_order_is_marked_and_not_requested() {
    let service = service().start().await;
    let key = service.api_key().await;
    let test = json!({"test": true});
    for (second, topic, status) in [(1, "orders/create", "pending"), (2, "orders/paid", "paid")] {
        let order = with(body(1, second, status), &test);
        deliver(&service, &order_delivery(topic, &order)).await;
    }
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(
        (&order["test"], &order["financial_status"]),
        (&json!(true), &json!("paid"))
    );
    assert_eq!(order["fulfillment"]["state"], "initiated");
    assert_eq!(to_warehouse(&service, 1).await, []);
    let said = said(&service, &["orders", "show", "1"]).await;
    assert!(said.contains("yes, not shipped"), "{said}");
    let real = with(body(2, 1, "paid"), &json!({"test": false}));
    deliver(&service, &order_delivery("orders/paid", &real)).await;
    assert_eq!(state(&service, &key, 2).await, "requested");
    service.stop().await;
}

#[tokio::test]
async fn an_order_with_a_number_that_cannot_be_read_is_kept_and_shipped() {
    let service = service().start().await;
    let key = service.api_key().await;
    let fields = json!({
        "line_items": [{"id": 1, "quantity": 1.5}, {"id": 2, "quantity": 2}],
        "date_paid_gmt": "2027-01-15T07:00:01",
    });
    deliver(&service, &woo(1, "processing", &fields)).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(order["line_items"][0]["quantity"], Value::Null);
    let lines = vec![("1".to_owned(), Value::Null), ("2".to_owned(), json!(2))];
    assert_eq!(
        to_warehouse(&service, 7).await,
        [("requested".to_owned(), lines)]
    );
    service.stop().await;
}

#[tokio::test]
async fn two_shops_in_folders_of_one_host_have_orders_of_their_own() {
    let service = service()
        .setting("STOREFRONT_PROVIDER", "woocommerce")
        .start()
        .await;
    let key = service.api_key().await;
    for (folder, total) in [("a", "10.00"), ("b", "20.00")] {
        let order = woo(1, "processing", &json!({"total": total}));
        let hmac = sign_storefront(STOREFRONT_SECRET, &order.body);
        let source = format!("https://Host.Example/{folder}/");
        let answer = service
            .post_to("/api/webhooks/storefront")
            .header("Content-Type", "application/json")
            .header("X-WC-Webhook-Source", source)
            .header("X-WC-Webhook-Topic", "order.updated")
            .header("X-WC-Webhook-Resource", "order")
            .header("X-WC-Webhook-Event", "updated")
            .header("X-WC-Webhook-Signature", hmac)
            .header("X-WC-Webhook-ID", "12")
            .header("X-WC-Webhook-Delivery-ID", folder)
            .body(order.body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
    }
    service.settled().await;
    for (shop, total) in [("host.example/a", "10.00"), ("host.example/b", "20.00")] {
        let order = shown(&service, &key, shop, 7).await;
        assert_eq!(order["total_price"], total, "{shop}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_payment_in_the_buyers_currency_pays_and_goes_back_in_it() {
    let service = service().start().await;
    let key = service.api_key().await;
    let both = json!({
        "shop_money": {"amount": "100.00", "currency_code": "USD"},
        "presentment_money": {"amount": "92.00", "currency_code": "EUR"},
    });
    let fields = json!({
        "total_price": "100.00", "total_outstanding": "100.00", "total_price_set": both,
        "note_attributes": [{"name": "pact_id", "value": "p1"}],
    });
    let order = with(body(1, 1, "pending"), &fields);
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let mut paid = intent("pi_1", "succeeded", 9200, Some("p1"));
    paid["currency"] = json!("eur");
    let paid = event(&service, "payment_intent.succeeded", 1, &paid);
    deliver(&service, &paid).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(
        (&order["financial_status"], &order["fulfillment"]["state"]),
        (&json!("paid"), &json!("requested"))
    );
    let mut back = charge("pi_1", 9200, 4600);
    back["currency"] = json!("eur");
    deliver(&service, &event(&service, "charge.refunded", 2, &back)).await;
    let gone = with(cancelled(1, 3, "pending"), &fields);
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(
        refunds(&order),
        [(json!("recorded"), json!("pi_1"), json!("46.00"))]
    );
    assert_eq!(order["refunds"][0]["currency"], "EUR");
    service.stop().await;
}

#[tokio::test]
async fn an_order_that_is_paid_twice_or_disputed_is_held_and_somebody_hears() {
    let service = service().start().await;
    let key = service.api_key().await;
    let order = with(body(1, 1, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let pays = async |id: &str, nth: i64| {
        let paid = intent(id, "succeeded", 3000, Some("p1"));
        deliver(
            &service,
            &event(&service, "payment_intent.succeeded", nth, &paid),
        )
        .await;
    };
    pays("pi_1", 1).await;
    assert_eq!(shown(&service, &key, SHOP, 1).await["held"], Value::Null);
    pays("pi_2", 2).await;
    assert_eq!(
        shown(&service, &key, SHOP, 1).await["held"],
        "paid_too_much"
    );
    let held = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(
        (&held[0]["reason"], &held[0]["amount"]),
        (&json!("paid_too_much"), &json!("30.00")),
        "{held}"
    );
    let back = charge("pi_2", 3000, 3000);
    deliver(&service, &event(&service, "charge.refunded", 3, &back)).await;
    assert_eq!(listed_by(&service, &["orders", "held"]).await, json!([]));
    let dispute = json!({
        "id": "dp_1", "object": "dispute", "payment_intent": "pi_1", "charge": "ch_pi_1", "amount": 3000,
        "currency": "usd", "status": "needs_response", "reason": "fraudulent",
    });
    let opened = event(&service, "charge.dispute.created", 4, &dispute);
    deliver(&service, &opened).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(
        (&order["held"], &order["line_items"][0]["to_ship"]),
        (&json!("disputed"), &json!(0))
    );
    let held: Vec<(Value, Value)> = events(service.db(), SHOP, 1)
        .await
        .into_iter()
        .filter(|(kind, _)| kind == "order.held")
        .map(|(_, body)| (body["reason"].clone(), body["amount"].clone()))
        .collect();
    let thirty = json!("30.00");
    assert_eq!(
        held,
        [
            (json!("paid_too_much"), thirty.clone()),
            (Value::Null, Value::Null),
            (json!("disputed"), thirty)
        ]
    );
    service.stop().await;
}

/// A service with a payment provider, and an order of 30.00 that these payments of 30.00 have paid.
async fn paid_by(payments: &[i64]) -> (Sandbox, Service) {
    let sandbox = sandbox().await;
    let options = service().manual_clock();
    let service = with_payment(options, &sandbox, PAYMENT_KEY).start().await;
    let order = with(body(1, 1, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    for nth in payments {
        capture(&sandbox, *nth, "p1");
        let paid = intent(&format!("pi_{nth}"), "succeeded", CAPTURED, Some("p1"));
        let paid = event(&service, "payment_intent.succeeded", *nth, &paid);
        deliver(&service, &paid).await;
    }
    (sandbox, service)
}

#[tokio::test]
async fn what_was_paid_twice_is_given_back_by_one_command() {
    let (sandbox, service) = paid_by(&[1, 2, 3]).await;
    let key = service.api_key().await;
    let give_back = ["orders", "give-back", "1", "--by", "ann"];
    let given = said(&service, &give_back).await;
    assert!(
        given.starts_with("30.00 USD of pi_3 are refunded\n30.00 USD of pi_2 are refunded\n"),
        "{given}"
    );
    service.settled().await;
    let order = shown(&service, &key, SHOP, 1).await;
    let issued = |id: &str| (json!("issued"), json!(id), json!("30.00"));
    assert_eq!(refunds(&order), [issued("pi_2"), issued("pi_3")]);
    assert_eq!(order["fulfillment"]["state"], "requested");
    // Until the provider's events come, the payments still count, but go back already.
    assert!(
        said(&service, &give_back)
            .await
            .starts_with("Nothing is too much")
    );
    for nth in [2, 3] {
        let back = charge(&format!("pi_{nth}"), CAPTURED, CAPTURED);
        let back = event(&service, "charge.refunded", 3 + nth, &back);
        deliver(&service, &back).await;
    }
    assert_eq!(listed_by(&service, &["orders", "held"]).await, json!([]));
    assert_eq!(
        shown_by(&service, &give_back).await,
        json!({"payments": [], "rest": null, "currency": null})
    );
    assert_eq!(sandbox.payment().refunds().len(), 2);
    // More was taken for it than it costs, so a person gives the rest back when the order is cancelled.
    let gone = with(cancelled(1, 2, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    service.settled().await;
    let order = shown(&service, &key, SHOP, 1).await;
    let rest = (json!("recorded"), json!("pi_1"), json!("30.00"));
    assert_eq!(refunds(&order), [rest, issued("pi_2"), issued("pi_3")]);
    assert_eq!(sandbox.payment().refunds().len(), 2);
    let log = listed_by(&service, &["audit", "list"]).await.to_string();
    assert!(
        log.contains("order.given_back") && log.contains("operator:ann"),
        "{log}"
    );
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn what_is_too_much_no_more_when_the_provider_answers_again_is_not_given_back() {
    let (sandbox, service) = paid_by(&[1, 2]).await;
    let key = service.api_key().await;
    let faults = &sandbox.payment().fault_injector;
    // The call is deferred.
    faults.fail(Fault::Status(401));
    let given = said(&service, &["orders", "give-back", "1"]).await;
    assert!(
        given.starts_with("30.00 USD of pi_2 are refunded"),
        "{given}"
    );
    eventually("it is asked for", async || faults.requests() > 0).await;
    // Somebody gives the other payment back at the provider.
    let back = event(
        &service,
        "charge.refunded",
        3,
        &charge("pi_1", CAPTURED, CAPTURED),
    );
    post_all(&service, &[back]).await;
    eventually("it is not too much any more", async || {
        shown(&service, &key, SHOP, 1).await["held"] == Value::Null
    })
    .await;
    faults.clear_faults();
    service.pass(Duration::from_mins(2)).await;
    service.settled().await;
    assert_eq!(refunds(&shown(&service, &key, SHOP, 1).await), []);
    assert_eq!(sandbox.payment().refunds().len(), 0);
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn what_the_shop_gave_back_itself_is_owed_again_when_its_bank_refuses_it() {
    for back_first in [true, false] {
        let service = service().start().await;
        let key = service.api_key().await;
        deliver(
            &service,
            &order_delivery("orders/create", &body(1, 1, "pending")),
        )
        .await;
        let paid = intent("pi_1", "succeeded", CAPTURED, Some("1"));
        deliver(
            &service,
            &event(&service, "payment_intent.succeeded", 1, &paid),
        )
        .await;
        let mut steps = [
            event(
                &service,
                "charge.refunded",
                2,
                &charge("pi_1", CAPTURED, CAPTURED),
            ),
            order_delivery("orders/cancelled", &cancelled(1, 2, "pending")),
        ];
        if !back_first {
            steps.reverse();
        }
        for step in &steps {
            deliver(&service, step).await;
        }
        let order = shown(&service, &key, SHOP, 1).await;
        let back = |state: &str| [(json!(state), json!("pi_1"), json!("30.00"))];
        assert_eq!(refunds(&order), back("already_refunded"), "{back_first}");
        let mut failed = json!({"id": "re_1", "object": "refund", "payment_intent": "pi_1", "amount": CAPTURED,
                                "currency": "usd", "status": "failed"});
        failed["created"] = json!(CREATED + 1);
        deliver(&service, &event(&service, "refund.failed", 9, &failed)).await;
        let order = shown(&service, &key, SHOP, 1).await;
        assert_eq!(refunds(&order), back("recorded"), "{back_first}");
        assert_eq!(order["owed"], "30.00", "{back_first}");
        service.stop().await;
    }
}

#[tokio::test]
async fn a_part_of_a_payment_and_what_is_disputed_is_left_to_people() {
    let (sandbox, service) = paid_by(&[1, 2]).await;
    // The latest payment is disputed, so its bank decides what is too much.
    let dispute = json!({
        "id": "dp_1", "object": "dispute", "payment_intent": "pi_2", "charge": "ch_pi_2", "amount": 3000,
        "currency": "usd", "status": "needs_response", "reason": "duplicate",
    });
    let opened = event(&service, "charge.dispute.created", 4, &dispute);
    deliver(&service, &opened).await;
    let given = said(&service, &["orders", "give-back", "1"]).await;
    assert!(given.starts_with("Nothing is too much"), "{given}");
    service.stop().await;
    sandbox.stop().await;

    let (sandbox, service) = paid_by(&[1]).await;
    let price = json!({"total_price": "20.00"});
    let less = with(with(body(1, 2, "pending"), &naming_agreement("p1")), &price);
    deliver(&service, &order_delivery("orders/updated", &less)).await;
    let (code, why) = refused(&service, &["orders", "give-back", "1"]).await;
    assert!(
        code == 1 && why.contains("10.00 USD are too much"),
        "{code} {why}"
    );
    assert_eq!(sandbox.payment().refunds().len(), 0);
    service.stop().await;
    sandbox.stop().await;

    let service = self::service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "paid")),
    )
    .await;
    let (code, why) = refused(&service, &["orders", "give-back", "1"]).await;
    assert!(code == 1 && why.contains("PAYMENT_API_URL"), "{code} {why}");
    service.stop().await;
}

#[tokio::test]
async fn an_order_that_contradicts_itself_is_held_until_a_newer_version_does_not() {
    let service = service().start().await;
    let key = service.api_key().await;
    let other =
        json!({"total_price_set": {"shop_money": {"amount": "30.00", "currency_code": "CAD"}}});
    let cases = [
        (
            1,
            "paid_and_outstanding",
            json!({"total_outstanding": "10.00"}),
        ),
        (2, "total_below_zero", json!({"total_price": "-30.00"})),
        (3, "currencies_differ", other),
    ];
    for (id, reason, fields) in &cases {
        let order = with(body(*id, 1, "paid"), fields);
        deliver(&service, &order_delivery("orders/create", &order)).await;
        let order = shown(&service, &key, SHOP, *id).await;
        assert_eq!(
            (&order["held"], &order["fulfillment"]["state"]),
            (&json!(reason), &json!("initiated"))
        );
        let held = events(service.db(), SHOP, *id).await.into_iter();
        let held: Vec<Value> = held
            .filter(|(kind, _)| kind == "order.held")
            .map(|(_, body)| body["reason"].clone())
            .collect();
        assert_eq!(held, [json!(reason)]);
    }
    let listed = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    for (id, ..) in cases {
        deliver(
            &service,
            &order_delivery("orders/updated", &body(id, 2, "paid")),
        )
        .await;
        assert_eq!(state(&service, &key, id).await, "requested");
    }
    assert_eq!(listed_by(&service, &["orders", "held"]).await, json!([]));
    service.stop().await;
}

#[tokio::test]
async fn an_order_that_is_deleted_is_called_off_and_what_was_paid_for_it_is_held() {
    // A deletion has the time at which it came.
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    let deleted = |id: i64| order_delivery("orders/delete", &json!({"id": id}));
    let paid = |id: i64| order_delivery("orders/create", &body(id, 1, "paid"));
    // Whichever comes first.
    for (id, steps) in [(1, [paid(1), deleted(1)]), (2, [deleted(2), paid(2)])] {
        for step in &steps {
            deliver(&service, step).await;
        }
        let order = shown(&service, &key, SHOP, id).await;
        assert_eq!(
            (&order["fulfillment"]["state"], &order["held"]),
            (&json!("cancelled"), &json!("deleted")),
            "{id}"
        );
        assert_eq!(refunds(&order), []);
    }
    let both = [("1", 2), ("2", 1)];
    assert_eq!(
        to_warehouse(&service, 1).await,
        [word("requested", &both), word("cancelled", &both)]
    );
    assert_eq!(to_warehouse(&service, 2).await, []);
    let held = listed_by(&service, &["orders", "held"]).await;
    assert_eq!(
        (&held[0]["reason"], &held[0]["amount"]),
        (&json!("deleted"), &json!("30.00"))
    );
    // It comes back with a newer version.
    let restored = with(
        body(1, 1, "paid"),
        &json!({"updated_at": "2027-06-01T12:00:00Z"}),
    );
    deliver(&service, &order_delivery("orders/updated", &restored)).await;
    assert_eq!(state(&service, &key, 1).await, "requested");
    // One that was shipped is tidied away, and one that nobody has paid.
    let shipped = with(
        body(3, 1, "paid"),
        &json!({"fulfillment_status": "fulfilled"}),
    );
    for (id, first, expected) in [
        (3, shipped, "fulfilled"),
        (4, body(4, 1, "pending"), "cancelled"),
    ] {
        deliver(&service, &order_delivery("orders/create", &first)).await;
        deliver(&service, &deleted(id)).await;
        let order = shown(&service, &key, SHOP, id).await;
        assert_eq!(
            (&order["fulfillment"]["state"], &order["held"]),
            (&json!(expected), &Value::Null)
        );
    }
    // The topic is not signed: with another body it deletes nothing.
    deliver(
        &service,
        &order_delivery("orders/create", &body(5, 1, "paid")),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/delete", &body(5, 1, "paid")),
    )
    .await;
    assert_eq!(state(&service, &key, 5).await, "requested");
    service.stop().await;
}

#[tokio::test]
async fn a_payment_with_an_odd_member_counts_and_says_which_one_it_is() {
    let service = service().start().await;
    let key = service.api_key().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "pending")),
    )
    .await;
    let mut paid = intent("pi_1", "succeeded", 3000, Some("1"));
    paid["customer"] = json!(7);
    deliver(
        &service,
        &event(&service, "payment_intent.succeeded", 1, &paid),
    )
    .await;
    assert_eq!(state(&service, &key, 1).await, "requested");
    let payment = shown_by(&service, &["payments", "show", "pi_1"]).await;
    assert_eq!(payment["unread"], json!(["data.object.customer"]));
    let payment = said(&service, &["payments", "show", "pi_1"]).await;
    assert!(payment.contains("data.object.customer"), "{payment}");
    // A session's order says it.
    let bought = session("cs_1", "paid", 3000, &json!({"amount_total": "30,00"}));
    deliver(
        &service,
        &event(&service, "checkout.session.completed", 2, &bought),
    )
    .await;
    let (shop, id) = checkout_key("cs_1");
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(
        (
            &order["unread"],
            &order["total_price"],
            &order["financial_status"]
        ),
        (
            &json!(["data.object.amount_total"]),
            &Value::Null,
            &json!("paid")
        )
    );
    // Money of a customer's balance was never a payment.
    let back = json!({"id": "re_1", "object": "refund", "payment_intent": null, "charge": null, "amount": 500,
                      "currency": "usd", "status": "succeeded"});
    deliver(&service, &event(&service, "refund.created", 3, &back)).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn an_order_shows_what_is_left_what_is_owed_and_what_could_not_be_read() {
    let service = service().start().await;
    let key = service.api_key().await;
    let fields = json!({
        "line_items": [
            {"id": 1, "quantity": 3, "current_quantity": 2, "fulfillment_service": "manual"},
            {"id": 2, "quantity": 1.5},
        ],
        "payment_terms": {"payment_terms_type": "net", "payment_schedules": [{"due_at": "2027-02-15T12:00:00Z"}]},
    });
    let open = with(body(1, 1, "pending"), &fields);
    deliver(&service, &order_delivery("orders/create", &open)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    let line = &order["line_items"][0];
    assert_eq!(
        (
            &line["current_quantity"],
            &line["to_ship"],
            &line["fulfillment_service"]
        ),
        (&json!(2), &json!(2), &json!("manual"))
    );
    assert_eq!(order["line_items"][1]["current_quantity"], Value::Null);
    assert_eq!(order["unread"], json!(["line_items[].quantity"]));
    assert_eq!(order["payment_terms"], "net");
    assert_eq!(order["payment_due_at"], "2027-02-15T12:00:00.000Z");
    assert_eq!(order["owed"], "0.00");
    let said = said(&service, &["orders", "show", "1"]).await;
    for part in ["line_items[].quantity", "net", "TO SHIP", "manual"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let gone = with(cancelled(1, 2, "paid"), &fields);
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    assert_eq!(shown(&service, &key, SHOP, 1).await["owed"], "30.00");
    service.stop().await;
}

#[tokio::test]
async fn a_part_that_is_shipped_is_heard_of_under_its_own_topic() {
    let service = service().start().await;
    let key = service.api_key().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "paid")),
    )
    .await;
    let part = with(
        body(1, 2, "paid"),
        &json!({"fulfillments": [{"id": 70, "status": "success", "tracking_number": "N1",
                                  "line_items": [{"id": 2, "quantity": 1}]}]}),
    );
    deliver(
        &service,
        &order_delivery("orders/partially_fulfilled", &part),
    )
    .await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["shipments"][0]["parcels"][0]["tracking_number"], "N1");
    service.stop().await;
}

#[tokio::test]
async fn a_tip_is_neither_too_much_nor_a_reason_to_give_nothing_back() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    let key = service.api_key().await;
    capture(&sandbox, 7, "7");
    let price = json!({"total_price": "27.00"});
    let order = with(body(7, 1, "pending"), &price);
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let mut paid = intent("pi_7", "succeeded", CAPTURED, Some("7"));
    paid["amount_details"] = json!({"tip": {"amount": 300}});
    let paid = event(&service, "payment_intent.succeeded", 1, &paid);
    deliver(&service, &paid).await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(
        (&order["financial_status"], &order["held"]),
        (&json!("paid"), &Value::Null)
    );
    let gone = with(cancelled(7, 2, "paid"), &price);
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    service.settled().await;
    let order = shown(&service, &key, SHOP, 7).await;
    assert_eq!(
        refunds(&order),
        [(json!("issued"), json!("pi_7"), json!("30.00"))]
    );
    service.stop().await;
    sandbox.stop().await;
}

/// Everything that was to be shipped under any name of one purchase, less what was called off.
async fn requests(service: &Service) -> Vec<String> {
    let rows = service
        .db()
        .query("select object_id from events where kind = 'order.fulfillment_requested' order by object_id")
        .fetch_all()
        .await
        .unwrap();
    rows.iter()
        .map(|row| row.get("object_id").unwrap())
        .collect()
}

#[tokio::test]
async fn a_session_whose_intent_names_the_order_is_no_purchase_of_its_own() {
    for sequence in permutations(&[0, 1, 2]) {
        let service = service().start().await;
        let key = service.api_key().await;
        let deliveries = [
            order_delivery("orders/create", &body(1001, 1, "pending")),
            event(
                &service,
                "payment_intent.succeeded",
                1,
                &intent("pi_1", "succeeded", 3000, Some("1001")),
            ),
            event(
                &service,
                "checkout.session.completed",
                2,
                &session(
                    "cs_1",
                    "paid",
                    3000,
                    &json!({"payment_intent": "pi_1", "metadata": {}}),
                ),
            ),
        ];
        for nth in sequence.iter().chain(&sequence) {
            deliver(&service, &deliveries[*nth]).await;
        }
        service.pass(Duration::from_hours(1)).await;
        service.settled().await;
        let order = shown(&service, &key, SHOP, 1001).await;
        assert_eq!(order["fulfillment"]["state"], "requested", "{sequence:?}");
        assert_eq!(requests(&service).await.len(), 1, "{sequence:?}");
        let open = "select count(*) as n from orders where cancelled_at is null";
        assert_eq!(service.count(open).await, 1, "{sequence:?}");
        service.stop().await;
    }
}

#[tokio::test]
async fn a_session_whose_subscription_names_the_order_is_no_purchase_of_its_own() {
    for (has_order, names) in [
        (true, "invoice"),
        (true, "subscription"),
        (false, "invoice"),
    ] {
        for sequence in permutations(if has_order { &[0, 1, 2] } else { &[0, 1] }) {
            let service = service().start().await;
            let key = service.api_key().await;
            let named = json!({"pact_id": "1001"});
            let mut invoice = invoice("in_1", "sub_1", 3000, 30);
            invoice["billing_reason"] = json!("subscription_create");
            invoice["parent"]["subscription_details"]["metadata"] = named.clone();
            let subscription = json!({"id": "sub_1", "object": "subscription", "metadata": named});
            let naming = match names {
                "invoice" => event(&service, "invoice.paid", 1, &invoice),
                _ => event(&service, "customer.subscription.updated", 1, &subscription),
            };
            let fields = json!({"payment_intent": null, "mode": "subscription", "subscription": "sub_1",
                                "invoice": "in_1", "metadata": {}});
            let bought = session("cs_1", "paid", 3000, &fields);
            let deliveries = [
                event(&service, "checkout.session.completed", 2, &bought),
                naming,
                order_delivery("orders/create", &body(1001, 1, "pending")),
            ];
            for nth in sequence.iter().chain(&sequence) {
                deliver(&service, &deliveries[*nth]).await;
            }
            service.pass(Duration::from_hours(1)).await;
            service.settled().await;
            let what = format!("{names} {has_order} {sequence:?}");
            let (shop, id) = if has_order {
                (SHOP.to_owned(), 1001)
            } else {
                checkout_key("1001")
            };
            let order = shown(&service, &key, &shop, id).await;
            assert_eq!(order["financial_status"], "paid", "{what}");
            assert_eq!(order["fulfillment"]["state"], "requested", "{what}");
            assert_eq!(requests(&service).await.len(), 1, "{what}");
            let open = "select count(*) as n from orders where cancelled_at is null";
            assert_eq!(service.count(open).await, 1, "{what}");
            service.stop().await;
        }
    }
}

#[tokio::test]
async fn an_event_of_the_test_mode_pays_for_nothing_where_the_key_is_live() {
    let sandbox = sandbox().await;
    for (secret, livemode, financial) in [
        ("sk_live_1", json!(false), "pending"),
        ("sk_live_1", json!(true), "paid"),
        ("sk_live_1", Value::Null, "paid"),
        (PAYMENT_KEY, json!(false), "paid"),
    ] {
        let service = with_payment(service(), &sandbox, secret).start().await;
        let key = service.api_key().await;
        let order = order_delivery("orders/create", &body(1, 1, "pending"));
        deliver(&service, &order).await;
        let paid = json!({
            "id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "livemode": livemode,
            "created": service.clock().now().unix_seconds(),
            "data": {"object": intent("pi_1", "succeeded", 3000, Some("1"))},
        });
        let at = service.clock().now().unix_seconds();
        deliver(&service, &payment_at(at, paid.to_string())).await;
        let order = shown(&service, &key, SHOP, 1).await;
        assert_eq!(order["financial_status"], financial, "{secret} {livemode}");
        service.stop().await;
    }
    sandbox.stop().await;
}

/// The event `evt_<nth>` of a payment of 30.00 for the order 1, at a connected account.
fn of_account(service: &Service, nth: u32, account: &str) -> Delivery {
    let at = service.clock().now().unix_seconds();
    let paid = json!({
        "id": format!("evt_{nth}"), "object": "event", "type": "payment_intent.succeeded", "account": account,
        "created": at, "data": {"object": intent("pi_1", "succeeded", 3000, Some("1"))},
    });
    payment_at(at, paid.to_string())
}

#[tokio::test]
async fn an_event_of_somebody_elses_account_pays_for_nothing() {
    let service = with_connections().start().await;
    connect_account(&service, "generic", "acct_8", None).await;
    let key = service.api_key().await;
    let order = order_delivery("orders/create", &body(1, 1, "pending"));
    deliver(&service, &order).await;
    deliver(&service, &of_account(&service, 1, "acct_9")).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "pending");
    let kept = listed_by(
        &service,
        &["jobs", "list", "--kind", "payment_intent.succeeded"],
    )
    .await;
    assert_eq!(kept[0]["state"], "done", "{kept}");
    deliver(&service, &of_account(&service, 2, "acct_8")).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "paid");
    let payment = shown_by(&service, &["payments", "show", "pi_1@connected"]).await;
    assert_eq!(payment["account"], "acct_8");
    service.stop().await;
}

#[tokio::test]
async fn a_refund_is_asked_for_at_the_payments_account_and_its_answer_may_lack_fields() {
    for (answer, state) in [
        (json!({"id": "re_1", "object": "refund"}), "issued"),
        (
            json!({"id": "re_1", "amount": null, "currency": null, "metadata": null}),
            "issued",
        ),
        (json!({"id": "re_1", "status": "pending"}), "issued"),
        (
            json!({"id": "re_1", "status": "requires_action"}),
            "requested",
        ),
    ] {
        let (url, heads) = api(answer.to_string()).await;
        let service = with_connections().start().await;
        let api = connections::api(url, PAYMENT_KEY);
        connect_account(&service, "generic", "acct_8", Some(api)).await;
        let key = service.api_key().await;
        deliver(&service, &of_account(&service, 1, "acct_8")).await;
        let order = order_delivery("orders/cancelled", &cancelled(1, 1, "paid"));
        deliver_without_waiting(&service, &order).await;
        eventually("the provider has answered", async || {
            let (of_job, _, error) = job(&service, REFUND).await;
            of_job == "done" || error.contains("waits until the customer says")
        })
        .await;
        let order = shown(&service, &key, SHOP, 1).await;
        assert_eq!(refunds(&order)[0].0, state, "{answer}");
        let asked = heads.lock().unwrap().join("").to_ascii_lowercase();
        assert!(asked.contains("stripe-account: acct_8"), "{asked}");
        service.stop().await;
    }
}
