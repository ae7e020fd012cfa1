//! What is paid, to be shipped and owed of an order, for real-life orders of which public reports
//! or the providers' own documentation tell. Each ends so in every sequence of its deliveries.

use std::collections::BTreeMap;

use domain::money::Currency;
use domain::order::Order;
use domain::order::outcome::{FulfillmentState, Level, request};
use domain::order::record::{Record, Version};
use domain::order::settlement::{Cycle, Linked, Payments, settle};
use proptest::prelude::*;
use serde_json::{Value, json};

use FulfillmentState::{Cancelled, Fulfilled, Initiated, Requested};

/// An order of 100.00: one unit of the line 1 for 60.00 and two of the line 2 for 20.00 each.
fn order(fields: &Value) -> Value {
    let mut body = json!({
        "id": 7, "created_at": "2027-01-15T12:00:00Z", "currency": "USD", "total_price": "100.00",
        "financial_status": "paid", "fulfillment_status": null, "cancelled_at": null,
        "line_items": [{"id": 1, "quantity": 1}, {"id": 2, "quantity": 2}],
    });
    let fields = fields.as_object().expect("fields").clone();
    body.as_object_mut().expect("a body").extend(fields);
    body
}

/// The same order at WooCommerce.
fn woo(fields: &Value) -> Value {
    let mut body = json!({
        "id": 7, "number": "7", "date_created_gmt": "2027-01-15T12:00:00", "currency": "USD",
        "total": "100.00", "status": "processing", "date_paid_gmt": "2027-01-15T12:00:01",
        "date_completed_gmt": null, "refunds": [],
        "line_items": [{"id": 1, "quantity": 1}, {"id": 2, "quantity": 2}],
    });
    let fields = fields.as_object().expect("fields").clone();
    body.as_object_mut().expect("a body").extend(fields);
    body
}

/// The record of the delivery at this place of a history, which comes a second after the last.
fn record(nth: usize, mut body: Value) -> Record {
    let at = format!("2027-01-15T12:{:02}:00", nth + 1);
    if body.get("date_created_gmt").is_some() {
        body["date_modified_gmt"] = at.into();
    } else {
        body["updated_at"] = format!("{at}Z").into();
    }
    let bytes = body.to_string();
    let order = Order::read(bytes.as_bytes()).expect("an order");
    assert_eq!(order.unread, Vec::<&str>::new(), "{body}");
    Record::of(order, None, bytes.as_bytes(), 0)
}

fn payments(payments: &[(&str, i64, i64)]) -> Payments {
    let linked = payments
        .iter()
        .zip(1..)
        .map(|((currency, received, refunded), nth)| Linked {
            id: format!("pi_{nth}"),
            currency: Currency::parse(currency).unwrap(),
            received: *received,
            tip: 0,
            refunded: *refunded,
            fully_refunded: *received > 0 && refunded >= received,
            is_disputed: false,
            canceled_at: None,
            cycle: Cycle::first(),
        });
    Payments {
        linked: linked.collect(),
        ..Payments::default()
    }
}

fn merged<'a>(records: impl IntoIterator<Item = &'a Record>) -> Record {
    let mut merged = Record::unknown(Version::NEVER);
    for record in records {
        merged.merge(record.clone());
    }
    merged
}

fn permutations(length: usize) -> Vec<Vec<usize>> {
    if length == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(length - 1).into_iter();
    let longer = shorter.flat_map(|it| {
        (0..length).map(move |at| {
            let mut longer = it.clone();
            longer.insert(at, length - 1);
            longer
        })
    });
    longer.collect()
}

/// What is known: the bodies of the storefront, and of each payment its currency, what was captured
/// and what was refunded.
struct Given {
    bodies: Vec<Value>,
    payments: Vec<(&'static str, i64, i64)>,
}

/// What follows: whether it is paid, how many cents are owed, which units are to be shipped, and
/// the state of the fulfilment.
type Expected = (bool, Option<i64>, &'static [(i64, i64)], FulfillmentState);

fn outcome(order: &Record) -> (bool, Option<i64>, Vec<(i64, i64)>, FulfillmentState) {
    let to_ship = order.to_ship().into_iter().filter(|(_, units)| *units > 0);
    (
        order.is_paid(),
        order.owed(),
        to_ship.collect(),
        order.fulfillment_state(),
    )
}

/// What ends otherwise than expected.
fn check(what: &str, given: Given, expected: Expected) -> Vec<String> {
    let bodies = (0..).zip(given.bodies);
    let records: Vec<Record> = bodies.map(|(nth, body)| record(nth, body)).collect();
    let payments = payments(&given.payments);
    let (paid, owed, to_ship, state) = expected;
    let expected = (paid, owed, to_ship.to_vec(), state);
    let ends = permutations(records.len()).into_iter().map(|sequence| {
        let twice = sequence.iter().chain(&sequence).map(|nth| &records[*nth]);
        let mut order = merged(twice);
        settle(&mut order, &payments);
        (outcome(&order), sequence)
    });
    let wrong = ends.filter(|(end, _)| *end != expected);
    wrong
        .map(|(end, sequence)| format!("{what}, {sequence:?}: {end:?} instead of {expected:?}"))
        .collect()
}

const ALL: &[(i64, i64)] = &[(1, 1), (2, 2)];
const NONE: &[(i64, i64)] = &[];

/// Minutes before and after count, so each later body is newer.
fn cancelled(mut body: Value) -> Value {
    body["cancelled_at"] = "2027-01-15T13:00:00Z".into();
    body
}

fn refund(id: i64, amount: &str, gateway: &str, lines: &Value) -> Value {
    json!({"id": id, "refund_line_items": lines, "transactions": [
        {"id": id, "kind": "refund", "status": "success", "amount": amount, "gateway": gateway}]})
}

macro_rules! cases {
    ($($what:literal: [$($body:expr),* $(,)?], [$($payment:expr),* $(,)?] => $expected:expr;)*) => {
        let mut wrong = Vec::new();
        $(wrong.extend(check($what, Given { bodies: vec![$($body),*], payments: vec![$($payment),*] }, $expected));)*
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    };
}

#[test]
fn what_is_paid_to_ship_and_owed_at_shopify() {
    let amounts = |status: &str, current: &str, outstanding: &str| {
        order(
            &json!({"financial_status": status, "current_total_price": current,
                      "total_outstanding": outstanding}),
        )
    };
    let with = |mut body: Value, key: &str, value: Value| {
        body[key] = value;
        body
    };
    let gift = json!(["gift_card"]);
    let both = json!(["gift_card", "stripe"]);
    let cancel_of_2 =
        json!([{"id": 5, "line_item_id": 2, "quantity": 1, "restock_type": "cancel"}]);
    let eur = json!({"shop_money": {"amount": "100.00", "currency_code": "USD"},
                     "presentment_money": {"amount": "92.00", "currency_code": "EUR"}});
    let ten_more =
        json!([{"id": 1, "quantity": 1}, {"id": 2, "quantity": 2}, {"id": 3, "quantity": 1}]);
    let shipped = |status: &str, units: i64| json!([{"id": 70, "status": status, "line_items": [{"id": 1, "quantity": 1}, {"id": 2, "quantity": units}]}]);
    cases! {
        // The way of most orders (shopify.dev, Order).
        "paid": [amounts("paid", "100.00", "0.00")], [] => (true, Some(0), ALL, Requested);
        "pending": [amounts("pending", "100.00", "100.00")], [] => (false, Some(0), NONE, Initiated);
        "a bank deposit is waited for": [with(amounts("pending", "100.00", "100.00"),
            "payment_gateway_names", json!(["Bank Deposit"]))], [] => (false, Some(0), NONE, Initiated);
        "authorized is not paid": [amounts("authorized", "100.00", "0.00")], []
            => (false, Some(0), NONE, Initiated);
        "an authorisation expires": [amounts("authorized", "100.00", "100.00"), amounts("expired", "100.00", "100.00")], []
            => (false, Some(0), NONE, Initiated);
        "voided and cancelled": [cancelled(amounts("voided", "100.00", "100.00"))], []
            => (false, Some(0), NONE, Cancelled);
        "cancelled, nothing given back yet": [amounts("paid", "100.00", "0.00"), cancelled(amounts("paid", "0.00", "-100.00"))], []
            => (true, Some(10000), NONE, Cancelled);
        "cancelled, and the body keeps its amounts": [cancelled(amounts("paid", "100.00", "0.00"))], []
            => (true, Some(10000), NONE, Cancelled);
        "cancelled and given back": [amounts("paid", "100.00", "0.00"), cancelled(amounts("refunded", "0.00", "0.00"))], []
            => (true, Some(0), NONE, Cancelled);
        "cancelled, and only the status says that it is paid": [cancelled(order(&json!({})))], []
            => (true, Some(10000), NONE, Cancelled);
        "paid in part, and nobody says how much": [cancelled(order(&json!({"financial_status": "partially_paid"})))], []
            => (false, None, NONE, Cancelled);
        // Documentation samples are paid and all of it is outstanding.
        "paid by a sample": [amounts("paid", "100.00", "100.00")], [] => (true, Some(0), ALL, Requested);
        "voided after it was paid, and the amounts say that it was kept": [amounts("paid", "100.00", "0.00"),
            cancelled(amounts("voided", "100.00", "0.00"))], [] => (false, Some(10000), NONE, Cancelled);
        "a paid order that is pending again is called off": [amounts("paid", "100.00", "0.00"), amounts("pending", "100.00", "100.00")], []
            => (false, Some(0), NONE, Initiated);
        // H3: shopify.dev, Order.total_outstanding; BCApps#7447.
        "H3 a deposit that went back": [amounts("partially_paid", "100.00", "60.00"), cancelled(amounts("refunded", "0.00", "0.00"))], []
            => (false, Some(0), NONE, Cancelled);
        "H3 a deposit that was kept": [cancelled(amounts("partially_paid", "0.00", "-40.00"))], []
            => (false, Some(4000), NONE, Cancelled);
        "H3 edited down, and cancelled": [cancelled(amounts("paid", "60.00", "-40.00"))], []
            => (true, Some(10000), NONE, Cancelled);
        "H3 a refund in between": [cancelled(with(amounts("partially_refunded", "70.00", "0.00"),
            "refunds", json!([refund(9, "30.00", "stripe", &json!([]))])))], []
            => (true, Some(7000), NONE, Cancelled);
        // H4: BCApps#6138, #5596, #4336.
        "H4 refunded in the buyer's currency": [cancelled(with(order(&json!({"financial_status": "refunded"})),
            "refunds", json!([{"id": 9, "transactions": [{"id": 1, "kind": "refund", "status": "success",
                               "amount": "92.00", "currency": "EUR"}]}])))], []
            => (false, Some(0), NONE, Cancelled);
        "H4 a part in the buyer's currency is not known": [cancelled(with(order(&json!({"financial_status": "partially_refunded"})),
            "refunds", json!([{"id": 9, "transactions": [{"id": 1, "kind": "refund", "status": "success",
                               "amount": "9.20", "currency": "EUR"}]}])))], []
            => (true, None, NONE, Cancelled);
        "H4 unless the shop's money is said": [cancelled(with(order(&json!({"financial_status": "partially_refunded"})),
            "refunds", json!([{"id": 9, "transactions": [{"id": 1, "kind": "refund", "status": "success",
                "amount": "9.20", "currency": "EUR",
                "amount_set": {"shop_money": {"amount": "10.00", "currency_code": "USD"}}}]}])))], []
            => (true, Some(9000), NONE, Cancelled);
        "H4 or what is outstanding": [cancelled(with(amounts("partially_refunded", "90.00", "0.00"),
            "refunds", json!([{"id": 9, "transactions": [{"id": 1, "kind": "refund", "status": "success",
                               "amount": "9.20", "currency": "EUR"}]}])))], []
            => (true, Some(9000), NONE, Cancelled);
        // H11: shopify.dev, current_total_price.
        "H11 an item is removed before it is paid": [with(amounts("pending", "60.00", "60.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "current_quantity": 1}, {"id": 2, "quantity": 2, "current_quantity": 0}]))],
            [("USD", 6000, 0)] => (true, Some(0), &[(1, 1)], Requested);
        "H11 less than the current total": [amounts("pending", "60.00", "60.00")], [("USD", 5900, 0)]
            => (false, Some(0), NONE, Initiated);
        // M6: total_price_set.presentment_money.
        "M6 paid in the buyer's currency": [with(order(&json!({"financial_status": "pending"})), "total_price_set", eur.clone())],
            [("EUR", 9200, 0)] => (true, Some(0), ALL, Requested);
        "M6 in part": [with(order(&json!({"financial_status": "pending"})), "total_price_set", eur.clone())],
            [("EUR", 9199, 0)] => (false, Some(0), NONE, Initiated);
        "M6 in a third currency": [with(order(&json!({"financial_status": "pending"})), "total_price_set", eur)],
            [("GBP", 9200, 0)] => (false, Some(0), NONE, Initiated);
        // N1: shopify.dev, OrderDisplayFinancialStatus is "for display only"; btcpayserver#3193.
        "N1 a part of a deposit went back": [amounts("partially_paid", "100.00", "60.00"), with(amounts("partially_refunded", "90.00", "60.00"),
            "refunds", json!([refund(9, "10.00", "stripe", &json!([]))]))], [] => (false, Some(0), NONE, Initiated);
        "N1 and then the order is cancelled": [cancelled(amounts("partially_refunded", "90.00", "60.00"))], []
            => (false, Some(3000), NONE, Cancelled);
        "N1 a refund after everything was paid": [amounts("partially_refunded", "90.00", "0.00")], []
            => (true, Some(0), ALL, Requested);
        // N2: mollie/magento2#873, adyen-magento2#2214.
        "N2 a gift card and a payment": [cancelled(with(amounts("paid", "100.00", "0.00"), "payment_gateway_names", both))],
            [("USD", 7000, 0)] => (true, Some(10000), NONE, Cancelled);
        "N2 the shop waits for what was just paid": [amounts("partially_paid", "100.00", "70.00")], [("USD", 7000, 0)]
            => (true, Some(0), ALL, Requested);
        "N2 and is cancelled": [cancelled(amounts("partially_paid", "100.00", "70.00"))], [("USD", 7000, 0)]
            => (true, Some(10000), NONE, Cancelled);
        "N2 a part of what is outstanding, and more": [amounts("partially_paid", "100.00", "60.00")], [("USD", 7000, 0)]
            => (false, Some(0), NONE, Initiated);
        "N2 and is cancelled, and not more is owed than is certain": [cancelled(amounts("partially_paid", "100.00", "60.00"))],
            [("USD", 7000, 0)] => (false, Some(7000), NONE, Cancelled);
        "N2 two halves": [with(amounts("partially_paid", "100.00", "50.00"), "payment_gateway_names", gift.clone())],
            [("USD", 5000, 0)] => (true, Some(0), ALL, Requested);
        "N2 a half that both know": [cancelled(amounts("partially_paid", "100.00", "50.00"))], [("USD", 5000, 0)]
            => (false, Some(5000), NONE, Cancelled);
        "N2 one payment that both know": [cancelled(amounts("paid", "100.00", "0.00"))], [("USD", 10000, 0)]
            => (true, Some(10000), NONE, Cancelled);
        "N2 the payment went back, the gift card did not": [cancelled(amounts("paid", "100.00", "0.00"))], [("USD", 7000, 7000)]
            => (false, Some(3000), NONE, Cancelled);
        "N2 both went back": [cancelled(with(amounts("refunded", "0.00", "0.00"), "refunds", json!([
            refund(9, "70.00", "stripe", &json!([])), refund(10, "30.00", "gift_card", &json!([]))])))], [("USD", 7000, 7000)]
            => (true, Some(0), NONE, Cancelled);
        // What contradicts itself: a documentation sample of 2026-07 is paid with a part outstanding.
        "paid, and a part is outstanding": [amounts("paid", "100.00", "40.00")], [] => (false, Some(0), NONE, Initiated);
        "paid, and what is outstanding was paid at the provider": [amounts("paid", "100.00", "40.00")], [("USD", 10000, 0)]
            => (true, Some(0), ALL, Requested);
        "a total below zero": [order(&json!({"total_price": "-100.00"}))], [("USD", 10000, 0)] => (false, Some(0), NONE, Initiated);
        "a total in two currencies of the shop": [order(&json!({"total_price_set": {
            "shop_money": {"amount": "100.00", "currency_code": "CAD"}}}))], [("USD", 10000, 0)] => (false, Some(0), NONE, Initiated);
        "and a newer version in one": [order(&json!({"total_price_set": {
            "shop_money": {"amount": "100.00", "currency_code": "CAD"}}})), order(&json!({}))], [("USD", 10000, 0)]
            => (true, Some(0), ALL, Requested);
        // M5: the gateway's name says that it is store credit.
        "M5 given back as store credit": [cancelled(with(amounts("refunded", "0.00", "0.00"), "refunds",
            json!([refund(9, "100.00", "shopify_store_credit", &json!([]))])))], [("USD", 10000, 0)]
            => (true, Some(0), NONE, Cancelled);
        "M5 a part as store credit": [cancelled(with(amounts("partially_refunded", "60.00", "0.00"), "refunds",
            json!([refund(9, "40.00", "gift_card", &json!([]))])))], [("USD", 10000, 0)]
            => (true, Some(6000), NONE, Cancelled);
        // N7: docs/orders.md.
        "N7 an order of nothing": [cancelled(order(&json!({"total_price": "0.00", "current_total_price": "0.00", "total_outstanding": "0.00"})))], []
            => (true, Some(0), NONE, Cancelled);
        "N7 a free order is shipped": [order(&json!({"total_price": "0.00", "current_total_price": "0.00", "total_outstanding": "0.00"}))], []
            => (true, Some(0), ALL, Requested);
        "N7 two cents of rounding": [cancelled(with(amounts("paid", "0.00", "-0.02"),
            "total_cash_rounding_payment_adjustment_set", json!({"shop_money": {"amount": "-0.02", "currency_code": "USD"}})))], []
            => (true, Some(0), NONE, Cancelled);
        // N8: help.shopify.com, payment terms.
        "N8 due on fulfilment": [with(amounts("pending", "100.00", "100.00"), "payment_terms", json!({"payment_terms_type": "fulfillment"}))], []
            => (false, Some(0), ALL, Requested);
        "N8 net": [with(amounts("pending", "100.00", "100.00"), "payment_terms", json!({"payment_terms_type": "NET",
            "payment_schedules": [{"due_at": "2027-02-15T12:00:00Z"}]}))], [] => (false, Some(0), ALL, Requested);
        "N8 due on receipt is an open invoice": [with(amounts("pending", "100.00", "100.00"), "payment_terms", json!({"payment_terms_type": "receipt"}))], []
            => (false, Some(0), NONE, Initiated);
        "N8 cash on delivery": [with(amounts("pending", "100.00", "100.00"), "payment_gateway_names", json!(["Cash on Delivery (COD)"]))], []
            => (false, Some(0), ALL, Requested);
        "N8 cancelled before it is paid": [cancelled(with(amounts("pending", "100.00", "100.00"), "payment_terms", json!({"payment_terms_type": "net"})))], []
            => (false, Some(0), NONE, Cancelled);
        // M9: what was paid stays requested.
        "M9 an unpaid item is added": [amounts("paid", "100.00", "0.00"), with(with(amounts("partially_paid", "110.00", "10.00"),
            "line_items", ten_more.clone()), "total_price", json!("110.00"))], [] => (false, Some(0), ALL, Requested);
        "M9 to an order that was paid at the provider": [amounts("pending", "100.00", "100.00"), with(with(amounts("pending", "110.00", "110.00"),
            "line_items", ten_more.clone()), "total_price", json!("110.00"))], [("USD", 10000, 0)] => (false, Some(0), ALL, Requested);
        "M9 and is paid": [amounts("pending", "100.00", "100.00"), with(with(amounts("pending", "110.00", "110.00"),
            "line_items", ten_more.clone()), "total_price", json!("110.00"))], [("USD", 10000, 0), ("USD", 1000, 0)]
            => (true, Some(0), &[(1, 1), (2, 2), (3, 1)], Requested);
        "M9 after everything was shipped": [with(amounts("paid", "100.00", "0.00"), "fulfillments", shipped("success", 2)),
            with(with(with(amounts("partially_paid", "110.00", "10.00"), "line_items", ten_more), "total_price", json!("110.00")),
                "fulfillments", shipped("success", 2))], [] => (false, Some(0), NONE, Initiated);
        "an exchange is paid": [amounts("paid", "100.00", "0.00"), with(amounts("partially_refunded", "100.00", "0.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "current_quantity": 0}, {"id": 2, "quantity": 2}, {"id": 3, "quantity": 1}]))], []
            => (true, Some(0), &[(2, 2), (3, 1)], Requested);
        "an order came back whole and got new paid items": [amounts("refunded", "0.00", "0.00"), with(amounts("partially_refunded", "40.00", "0.00"),
            "line_items", json!([{"id": 1, "quantity": 1, "current_quantity": 0}, {"id": 2, "quantity": 2, "current_quantity": 0}, {"id": 3, "quantity": 1}]))], []
            => (true, Some(0), &[(3, 1)], Requested);
        // M3 and N6: changelog of 2023-12-05; ecommerce_integrations#225.
        "M3 removed without a refund": [with(amounts("paid", "60.00", "0.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "current_quantity": 1}, {"id": 2, "quantity": 2, "current_quantity": 0}]))], []
            => (true, Some(0), &[(1, 1)], Requested);
        "N6 refunded as a return, and then its shipment is cancelled": [with(with(amounts("partially_refunded", "60.00", "0.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "current_quantity": 1}, {"id": 2, "quantity": 2, "current_quantity": 0}])),
            "fulfillments", shipped("cancelled", 2))], [] => (true, Some(0), &[(1, 1)], Requested);
        "N6 one of the shipped units came back, and the other stays": [with(with(amounts("partially_refunded", "80.00", "0.00"), "refunds",
            json!([refund(9, "20.00", "stripe", &json!([{"id": 5, "line_item_id": 2, "quantity": 1, "restock_type": "return"}]))])),
            "fulfillments", shipped("success", 1))], [] => (true, Some(0), &[(2, 1)], Requested);
        "N4 all goods are refunded and the shipping is kept": [with(amounts("partially_refunded", "10.00", "0.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "current_quantity": 0}, {"id": 2, "quantity": 2, "current_quantity": 0}]))], []
            => (true, Some(0), NONE, Cancelled);
        "N4 one unit is refunded and the rest is shipped": [with(with(amounts("partially_refunded", "80.00", "0.00"), "refunds",
            json!([refund(9, "20.00", "stripe", &cancel_of_2)])), "fulfillments", shipped("success", 1))], []
            => (true, Some(0), NONE, Fulfilled);
        // M10: requires_shipping.
        "M10 a download is not shipped": [with(amounts("paid", "100.00", "0.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "requires_shipping": false}, {"id": 2, "quantity": 2, "requires_shipping": true}]))], []
            => (true, Some(0), &[(2, 2)], Requested);
        "fulfilled, and its shipments list only a part": [with(with(amounts("paid", "100.00", "0.00"),
            "fulfillment_status", json!("fulfilled")), "fulfillments", shipped("success", 1))], [] => (true, Some(0), NONE, Fulfilled);
        "M10 an order of downloads is fulfilled when it is paid": [with(amounts("paid", "100.00", "0.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "requires_shipping": false}]))], [] => (true, Some(0), NONE, Fulfilled);
        "M10 and not before": [with(amounts("pending", "100.00", "100.00"), "line_items",
            json!([{"id": 1, "quantity": 1, "requires_shipping": false}]))], [] => (false, Some(0), NONE, Initiated);
        // Payments alone.
        "paid twice": [amounts("pending", "100.00", "100.00")], [("USD", 10000, 0), ("USD", 10000, 0)]
            => (true, Some(0), ALL, Requested);
        "paid twice, and one went back": [amounts("pending", "100.00", "100.00")], [("USD", 10000, 0), ("USD", 10000, 10000)]
            => (true, Some(0), ALL, Requested);
        "a small refund of a payment": [amounts("pending", "100.00", "100.00")], [("USD", 10000, 500)]
            => (true, Some(0), ALL, Requested);
        "the whole payment went back": [amounts("paid", "100.00", "0.00")], [("USD", 10000, 10000)]
            => (true, Some(0), NONE, Cancelled);
    }
}

#[test]
fn what_is_paid_to_ship_and_owed_at_woocommerce() {
    let status = |status: &str| woo(&json!({"status": status}));
    let unpaid = |status: &str| woo(&json!({"status": status, "date_paid_gmt": null}));
    cases! {
        "pending": [unpaid("pending")], [] => (false, Some(0), NONE, Initiated);
        "processing": [unpaid("pending"), status("processing")], [] => (true, Some(0), ALL, Requested);
        "completed": [status("processing"), woo(&json!({"status": "completed", "date_completed_gmt": "2027-01-16T12:00:00"}))], []
            => (true, Some(0), NONE, Fulfilled);
        // H2: woocommerce#20928, #14625, blockonomics#294.
        "H2 cancelled after the hold-stock time": [unpaid("pending"), unpaid("cancelled")], [] => (false, Some(0), NONE, Cancelled);
        "H2 and then paid": [unpaid("pending"), unpaid("cancelled"), status("processing")], [] => (true, Some(0), ALL, Requested);
        "H2 and cancelled again": [unpaid("cancelled"), status("processing"), status("cancelled")], [] => (true, Some(10000), NONE, Cancelled);
        // H5: mollie/WooCommerce#138, #290.
        "H5 a deposit": [status("partially-paid")], [] => (false, Some(0), NONE, Initiated);
        "H5 by another plugin": [status("partial-payment")], [] => (false, Some(0), NONE, Initiated);
        "H5 a status that nobody knows is not paid": [status("awaiting-shipment")], [] => (false, Some(0), NONE, Initiated);
        "H5 and takes nothing away": [status("processing"), status("awaiting-shipment")], [] => (true, Some(0), ALL, Requested);
        // H6: woocommerce#14775, #10522, #29471.
        "H6 cash on delivery": [unpaid("processing")], [] => (false, Some(0), ALL, Requested);
        "H6 and cancelled": [unpaid("processing"), unpaid("cancelled")], [] => (false, Some(0), NONE, Cancelled);
        // M7: a bounced debit, a dispute.
        "M7 failed after processing": [status("processing"), status("failed")], [] => (false, Some(0), NONE, Initiated);
        "M7 on hold, though a payment is linked": [status("processing"), status("on-hold")], [("USD", 10000, 0)]
            => (false, Some(0), NONE, Initiated);
        "M7 and goes on": [status("processing"), status("on-hold"), status("processing")], [("USD", 10000, 0)]
            => (true, Some(0), ALL, Requested);
        "M7 a payment before the shop knows of it": [unpaid("pending")], [("USD", 10000, 0)] => (true, Some(0), ALL, Requested);
        "trashed": [status("processing"), status("trash")], [] => (true, Some(10000), NONE, Cancelled);
        "restored": [status("processing"), status("trash"), status("processing")], [] => (true, Some(0), ALL, Requested);
        "tidied away": [woo(&json!({"status": "completed", "date_completed_gmt": "2027-01-16T12:00:00"})),
            woo(&json!({"status": "trash", "date_completed_gmt": "2027-01-16T12:00:00"}))], [] => (true, Some(0), NONE, Fulfilled);
        "refunded in part": [woo(&json!({"refunds": [{"id": 8, "total": "-30.00"}]}))], [] => (true, Some(0), ALL, Requested);
        "refunded in part and cancelled": [woo(&json!({"status": "cancelled", "refunds": [{"id": 8, "total": "-30.00"}]}))], []
            => (true, Some(7000), NONE, Cancelled);
        "refunded": [status("processing"), woo(&json!({"status": "refunded", "refunds": [{"id": 8, "total": "-100.00"}]}))], []
            => (true, Some(0), NONE, Cancelled);
    }
}

#[test]
fn an_order_whose_numbers_cannot_be_read_is_kept() {
    let read = |body: &Value| {
        let bytes = body.to_string();
        let order = Order::read(bytes.as_bytes()).expect("an order");
        Record::of(order, None, bytes.as_bytes(), 0)
    };
    let by_weight = woo(&json!({"line_items": [{"id": 1, "quantity": 1.5}]}));
    let order = read(&by_weight);
    assert_eq!(outcome(&order), (true, Some(0), vec![(1, 1)], Requested));
    assert_eq!(order.unread, ["line_items[].quantity"]);
    assert_eq!(order.lines.value[0].quantity, None);
    let no_total = read(&self::order(
        &json!({"total_price": "1e3", "cancelled_at": "soon"}),
    ));
    assert_eq!(outcome(&no_total), (true, None, vec![], Cancelled));
    assert_eq!(no_total.unread, ["total_price", "cancelled_at"]);
}

#[test]
fn what_was_taken_beyond_the_price_is_known() {
    let too_much = |body: &Value, taken: &[(&str, i64, i64)]| {
        let mut order = record(0, order(body));
        settle(&mut order, &payments(taken));
        order.too_much()
    };
    let open = json!({"financial_status": "pending"});
    assert_eq!(too_much(&open, &[("USD", 10000, 0)]), 0);
    assert_eq!(
        too_much(&open, &[("USD", 10000, 0), ("USD", 10000, 0)]),
        10000
    );
    assert_eq!(
        too_much(&open, &[("USD", 10000, 0), ("USD", 10000, 10000)]),
        0
    );
    assert_eq!(
        too_much(&json!({}), &[("USD", 10000, 0)]),
        0,
        "both know of one payment"
    );
    let gift = json!({"financial_status": "partially_paid", "current_total_price": "100.00",
                      "total_outstanding": "70.00"});
    assert_eq!(too_much(&gift, &[("USD", 10000, 0)]), 3000);
    let edited = json!({"current_total_price": "60.00", "total_outstanding": "-40.00"});
    assert_eq!(too_much(&edited, &[]), 4000);
    let cancelled = json!({"cancelled_at": "2027-01-15T13:00:00Z"});
    assert_eq!(
        too_much(&cancelled, &[("USD", 10000, 0), ("USD", 10000, 0)]),
        0,
        "it is owed"
    );
}

#[test]
fn an_amount_that_the_provider_rounds_pays_all() {
    let mut order = record(
        0,
        order(&json!({"currency": "KWD", "total_price": "10.005", "financial_status": "pending"})),
    );
    settle(&mut order, &payments(&[("KWD", 10_000, 0)]));
    assert!(order.is_paid() && order.too_much() == 0);
    settle(&mut order, &payments(&[("KWD", 9_990, 0)]));
    assert!(!order.is_paid());
}

/// What a warehouse hears that follows the events: the units to ship, by line.
fn requested(records: &[Record]) -> Vec<(&'static str, Vec<(i64, i64)>)> {
    let mut level = Level::new();
    let mut requested = Vec::new();
    for known in 1..=records.len() {
        let order = merged(&records[..known]);
        let Some(request) = request(&order, &level) else {
            continue;
        };
        for (word, units) in [("off", request.called_off), ("ship", request.units)] {
            requested.extend(units.map(|units| (word, units.into_iter().collect())));
        }
        level = request.level;
    }
    requested
}

#[test]
fn units_that_are_not_to_be_shipped_any_more_are_called_off_by_line() {
    let requested = |bodies: Vec<Value>| {
        let records = (0..).zip(bodies).map(|(nth, body)| record(nth, body));
        requested(&records.collect::<Vec<_>>())
    };
    let lines = |lines: &Value| order(&json!({"line_items": lines}));
    let three = |left: i64| lines(&json!([{"id": 1, "quantity": 3, "current_quantity": left}]));
    // M1: a unit is refunded, or a line is reduced or removed.
    assert_eq!(
        requested(vec![three(3), three(2)]),
        [("ship", vec![(1, 3)]), ("off", vec![(1, 1)])]
    );
    let gone = lines(&json!([{"id": 2, "quantity": 2}]));
    assert_eq!(
        requested(vec![
            lines(&json!([{"id": 1, "quantity": 1}, {"id": 2, "quantity": 2}])),
            gone
        ]),
        [("ship", vec![(1, 1), (2, 2)]), ("off", vec![(1, 1)])]
    );
    // M2: three were requested, one is refunded, two are shipped, and the shipment is cancelled.
    let refunds = json!([refund(
        9,
        "20.00",
        "stripe",
        &json!([{"id": 5, "line_item_id": 1, "quantity": 1, "restock_type": "cancel"}])
    )]);
    let shipment = |status: &str| json!([{"id": 70, "status": status, "line_items": [{"id": 1, "quantity": 2}]}]);
    let of_three = |fields: Value| {
        let mut body = lines(&json!([{"id": 1, "quantity": 3}]));
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        body
    };
    assert_eq!(
        requested(vec![
            of_three(json!({})),
            of_three(json!({"refunds": refunds})),
            of_three(json!({"refunds": refunds, "fulfillments": shipment("success")})),
            of_three(json!({"refunds": refunds, "fulfillments": shipment("cancelled")})),
        ]),
        [
            ("ship", vec![(1, 3)]),
            ("off", vec![(1, 1)]),
            ("ship", vec![(1, 2)])
        ]
    );
    // N4 and M7: the whole order falls back, and may come again.
    let shipping_kept = three(0);
    assert_eq!(
        requested(vec![three(3), shipping_kept]),
        [("ship", vec![(1, 3)]), ("off", vec![(1, 3)])]
    );
    let status =
        |status: &str| woo(&json!({"status": status, "line_items": [{"id": 1, "quantity": 3}]}));
    assert_eq!(
        requested(vec![
            status("processing"),
            status("on-hold"),
            status("processing"),
            status("cancelled")
        ]),
        [
            ("ship", vec![(1, 3)]),
            ("off", vec![(1, 3)]),
            ("ship", vec![(1, 3)]),
            ("off", vec![(1, 3)])
        ]
    );
    let whole = |status: &str| order(&json!({"line_items": [], "financial_status": status}));
    assert_eq!(
        requested(vec![whole("paid"), whole("refunded")]),
        [("ship", vec![]), ("off", vec![])]
    );
    // What was shipped is not called off, in whatever way that is said.
    let shipped = |status: &str| {
        order(&json!({"fulfillment_status": "fulfilled", "financial_status": status}))
    };
    assert_eq!(
        requested(vec![
            order(&json!({})),
            shipped("paid"),
            shipped("refunded")
        ]),
        [("ship", ALL.to_vec())]
    );
    let by_line = lines(
        &json!([{"id": 1, "quantity": 3, "fulfillment_status": "fulfilled"}, {"id": 2, "quantity": 1}]),
    );
    let both = lines(&json!([{"id": 1, "quantity": 3}, {"id": 2, "quantity": 1}]));
    assert_eq!(
        requested(vec![both, by_line]),
        [("ship", vec![(1, 3), (2, 1)])]
    );
}

#[test]
fn an_open_dispute_holds_what_is_not_shipped() {
    let part = json!([{"id": 70, "status": "success", "line_items": [{"id": 2, "quantity": 1}]}]);
    let fields = json!({"financial_status": "pending", "fulfillments": part});
    let mut order = record(0, order(&fields));
    let mut level = Level::new();
    let mut requested = Vec::new();
    for is_disputed in [false, true, false] {
        let mut payments = payments(&[("USD", 10_000, 0)]);
        payments.linked[0].is_disputed = is_disputed;
        settle(&mut order, &payments);
        let request = request(&order, &level).expect("something changes");
        requested.push((request.units, request.called_off, order.fulfillment_state()));
        level = request.level;
    }
    let rest = || Some(BTreeMap::from([(1, 1), (2, 1)]));
    assert_eq!(
        requested,
        [
            (rest(), None, Requested),
            (None, rest(), Initiated),
            (rest(), None, Requested)
        ]
    );
}

#[test]
fn of_two_versions_of_one_second_the_one_that_is_further_on_is_newer() {
    // M4.
    let read = |body: &Value| {
        let bytes = body.to_string();
        let order = Order::read(bytes.as_bytes()).expect("an order");
        Record::of(order, None, bytes.as_bytes(), 0)
    };
    let version = |note: &str, left: i64| {
        order(&json!({"updated_at": "2027-01-15T12:01:00Z", "name": note,
                      "line_items": [{"id": 1, "quantity": 3, "current_quantity": left}]}))
    };
    // A unit was removed, whatever the hashes of the bodies are.
    for note in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let (first, last) = (read(&version("z", 2)), read(&version(note, 1)));
        for both in [[&first, &last], [&last, &first]] {
            assert_eq!(
                merged(both).lines.value[0].current_quantity,
                Some(1),
                "{note}"
            );
        }
    }
    let shipment = |second: u32, status: &str| {
        order(
            &json!({"updated_at": "2027-01-15T12:01:00Z", "fulfillments": [
            {"id": 70, "status": status, "updated_at": format!("2027-01-15T12:00:{second:02}Z")}]}),
        )
    };
    let (first, last) = (read(&shipment(3, "success")), read(&shipment(5, "open")));
    for both in [[&first, &last], [&last, &first]] {
        assert_eq!(
            merged(both).shipments[&70].value.status.as_deref(),
            Some("open")
        );
    }
}

/// A version of an order, as a storefront may report it.
fn version() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(vec![
        "pending",
        "authorized",
        "partially_paid",
        "paid",
        "partially_refunded",
        "refunded",
        "voided",
    ]);
    let cents = prop::sample::select(vec![-4000_i64, 0, 2000, 3000, 6000, 10000]);
    let given = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..3_i64,
        0..3_i64,
    );
    (status, cents.clone(), cents, given).prop_map(|(status, current, outstanding, given)| {
        let (amounts, is_cancelled, has_refund, left, units) = given;
        let decimal = |cents: i64| format!("{}.{:02}", cents / 100, (cents % 100).abs());
        let mut body = order(&json!({"financial_status": status, "line_items": [
            {"id": 1, "quantity": 1}, {"id": 2, "quantity": 2, "current_quantity": left}],
            "fulfillments": [{"id": 70, "status": if left == 1 { "cancelled" } else { "success" },
                              "line_items": [{"id": 2, "quantity": units}]}]}));
        if amounts {
            body["current_total_price"] = decimal(current.max(0)).into();
            body["total_outstanding"] = decimal(outstanding).into();
        }
        if has_refund {
            let gateway = if left == 0 { "gift_card" } else { "stripe" };
            body["refunds"] = json!([refund(9, &decimal(units * 2000), gateway, &json!([]))]);
        }
        if is_cancelled { cancelled(body) } else { body }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn nothing_is_owed_or_requested_beyond_what_there_is(
        bodies in prop::collection::vec(version(), 1..5),
        taken in prop::collection::vec((prop::sample::select(vec![3000_i64, 7000, 10000]), any::<bool>()), 0..3),
    ) {
        let records: Vec<Record> = (0..).zip(bodies).map(|(nth, body)| record(nth, body)).collect();
        let taken: Vec<_> = taken.into_iter().map(|(cents, back)| ("USD", cents, if back { cents } else { 0 })).collect();
        let payments = payments(&taken);
        let settled = |records: &mut dyn Iterator<Item = &Record>| {
            let mut order = merged(records);
            settle(&mut order, &payments);
            order
        };
        let order = settled(&mut records.iter());
        prop_assert_eq!(outcome(&settled(&mut records.iter().rev())), outcome(&order));
        prop_assert_eq!(outcome(&settled(&mut records.iter().chain(&records))), outcome(&order));

        // Never owe more than was taken and not given back.
        let by_provider: i64 = taken.iter().map(|(_, received, back)| received - back).sum();
        let mut alone = order.clone();
        settle(&mut alone, &Payments::default());
        if let (Some(owed), Some(by_shop)) = (order.owed(), alone.kept()) {
            prop_assert!((0..=by_shop + by_provider).contains(&owed), "{owed} of {by_shop} and {by_provider}");
            prop_assert!(order.cancelled.is_some() || owed == 0);
        }
        // Never request more units than are open, and never less in the end than was paid for.
        let open = [(1, 1), (2, order.lines.value[1].left())];
        for (line, units) in order.to_ship() {
            prop_assert!(open.iter().any(|(of, open)| *of == line && (0..=*open).contains(&units)));
        }
        let is_over = order.cancelled.is_some() || order.is_given_back();
        if order.is_paid() && !is_over {
            prop_assert_eq!(order.to_ship().get(&1).copied(), Some(1));
        }
        // What was requested in the end is what is to be shipped.
        let mut level = Level::new();
        let mut requested = 0;
        for known in 1..=records.len() {
            let order = settled(&mut records[..known].iter());
            if let Some(request) = request(&order, &level) {
                let of_line_1 = |units: Option<BTreeMap<i64, i64>>| {
                    units.and_then(|units| units.get(&1).copied()).unwrap_or(0)
                };
                requested += of_line_1(request.units) - of_line_1(request.called_off);
                level = request.level;
            }
        }
        prop_assert_eq!(requested, order.to_ship().get(&1).copied().unwrap_or(0));
    }
}
