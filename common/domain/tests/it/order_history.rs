//! An order comes out the same in whatever sequence and however often its deliveries come.

use std::collections::{BTreeMap, BTreeSet};

use domain::order::outcome::{Change, FulfillmentState, Level, changes, request};
use domain::order::record::Record;
use domain::order::{Line, Order};
use domain::record::{Forget as _, read};
use proptest::prelude::*;
use serde_json::{Value, json};

const RECEIVED_AT: i64 = 1_800_000_000_000;

fn record(topic: &str, body: &Value) -> Record {
    let body = body.to_string();
    let order = Order::read(body.as_bytes()).expect("an order");
    Record::of(order, topic.parse().ok(), body.as_bytes(), RECEIVED_AT)
}

fn at(second: u32) -> String {
    format!("2027-01-15T12:00:{second:02}Z")
}

/// A body that has every field.
fn body(second: u32, financial: &str, fulfillment: Option<&str>) -> Value {
    json!({
        "id": 7,
        "name": "#7",
        "created_at": at(0),
        "updated_at": at(second),
        "currency": "USD",
        "total_price": "30.00",
        "total_outstanding": if financial == "pending" { "30.00" } else { "0.00" },
        "financial_status": financial,
        "fulfillment_status": fulfillment,
        "cancelled_at": null,
        "line_items": [
            {"id": 1, "quantity": 2, "sku": "A", "price": "10.00"},
            {"id": 2, "quantity": 1, "sku": null, "price": "10.00"},
        ],
        "email": "someone@example.com",
        "refunds": [],
    })
}

fn with(mut body: Value, fields: &Value) -> Value {
    let more = fields.as_object().expect("fields").clone();
    body.as_object_mut().expect("a body").extend(more);
    body
}

fn without(mut body: Value, keys: &[&str]) -> Value {
    for key in keys {
        body.as_object_mut().expect("a body").remove(*key);
    }
    body
}

fn shipped(number: &str) -> Value {
    json!([{"id": 70, "status": "success", "tracking_company": "Post", "tracking_number": number,
            "line_items": [{"id": 1, "quantity": 2}]}])
}

fn cancelled(second: u32) -> Value {
    json!({"cancelled_at": at(second), "cancel_reason": "customer"})
}

/// The life of an order, with one record for each delivery of its topics.
fn life() -> Vec<Record> {
    vec![
        record("orders/create", &body(1, "pending", None)),
        record("orders/updated", &body(2, "authorized", None)),
        record("orders/paid", &body(3, "paid", None)),
        record(
            "orders/fulfilled",
            &with(
                body(4, "paid", Some("fulfilled")),
                &json!({"fulfillments": shipped("T-1")}),
            ),
        ),
        record(
            "orders/cancelled",
            &with(body(5, "refunded", None), &cancelled(5)),
        ),
    ]
}

/// What providers also send: equal seconds, bodies without some keys, other statuses,
/// corrections.
fn pool() -> Vec<Record> {
    let mut pool = life();
    let statuses = [
        "pending",
        "authorized",
        "partially_paid",
        "paid",
        "partially_refunded",
        "refunded",
        "voided",
        "expired",
    ];
    let topics = ["orders/create", "orders/updated", "orders/paid"];
    for (index, status) in statuses.into_iter().enumerate() {
        for second in [2, 3, 6] {
            pool.push(record(topics[index % 3], &body(second, status, None)));
        }
        let cut = without(
            body(3, status, None),
            &["total_price", "line_items", "email"],
        );
        pool.push(record("orders/updated", &cut));
    }
    for fulfillment in ["partial", "fulfilled", "restocked", "pending"] {
        for number in ["T-1", "T-2"] {
            let body = with(
                body(6, "paid", Some(fulfillment)),
                &json!({"fulfillments": shipped(number)}),
            );
            pool.push(record("orders/updated", &body));
        }
    }
    for second in [2, 3, 7] {
        let body = with(body(second, "paid", None), &cancelled(second));
        pool.push(record("orders/cancelled", &body));
        let reasonless = without(body, &["cancel_reason"]);
        pool.push(record("orders/updated", &reasonless));
    }
    let statuses = ["financial_status", "fulfillment_status", "cancelled_at"];
    for topic in [
        "orders/create",
        "orders/paid",
        "orders/fulfilled",
        "orders/cancelled",
    ] {
        let bare = without(body(4, "paid", None), &statuses);
        pool.push(record(topic, &bare));
        pool.push(record(topic, &json!({"id": 7})));
    }
    let refund = |kind: &str, quantity: i64| {
        json!({"refunds": [{
            "id": 9, "transactions": [{"id": 1, "kind": "refund", "status": "success", "amount": "10.00"}],
            "refund_line_items": [{"id": 5, "line_item_id": 1, "quantity": quantity, "restock_type": kind}],
        }]})
    };
    for (kind, quantity) in [("no_restock", 1), ("return", 2), ("cancel", 1)] {
        let body = with(body(6, "partially_refunded", None), &refund(kind, quantity));
        pool.push(record("orders/updated", &body));
        pool.push(record("orders/cancelled", &with(body, &cancelled(6))));
    }
    pool
}

/// The order that a history leads to, and the changes that were reported on the way.
fn merged_history(history: impl IntoIterator<Item = Record>) -> (Record, Vec<Change>) {
    let mut order: Option<Record> = None;
    let mut merged_history = Vec::new();
    for delivery in history {
        let before = order.clone();
        match &mut order {
            None => order = Some(delivery),
            Some(order) => order.merge(delivery),
        }
        merged_history.extend(changes(before.as_ref(), order.as_ref().expect("an order")));
    }
    (order.expect("a history has a delivery"), merged_history)
}

fn check(pool: &[Record], history: &[usize]) {
    let (order, changes) = merged_history(history.iter().map(|index| pool[*index].clone()));
    let distinct: BTreeSet<usize> = history.iter().copied().collect();
    let (expected, _) = merged_history(distinct.iter().rev().map(|index| pool[*index].clone()));
    assert!(order == expected, "{history:?} and {distinct:?} differ");
    let position = |change| changes.iter().position(|it| *it == change);
    for change in [Change::Created, Change::Cancelled] {
        let times = changes.iter().filter(|it| **it == change).count();
        assert!(times <= 1, "{change:?} {times} times in {history:?}");
    }
    let history: Vec<Record> = history.iter().map(|index| pool[*index].clone()).collect();
    requested_is_what_is_to_be_shipped(&history);
    assert_eq!(changes.first(), Some(&Change::Created));
    if let (Some(requested), Some(cancelled)) = (
        position(Change::FulfillmentRequested),
        position(Change::Cancelled),
    ) {
        assert!(requested < cancelled, "requested after it was cancelled");
    }
    let known = |fact: fn(&Record) -> bool| distinct.iter().any(|index| fact(&pool[*index]));
    let state = order.fulfillment_state();
    let is_cancelled = known(|it| it.cancelled.is_some());
    assert_eq!(order.cancelled.is_some(), is_cancelled);
    assert_eq!(position(Change::Cancelled).is_some(), is_cancelled);
    if is_cancelled {
        assert_eq!(state, FulfillmentState::Cancelled, "never open again");
        let units: i64 = order.restocked().values().sum();
        let ordered: i64 = order.lines.value.iter().map(Line::units).sum();
        assert!((0..=ordered).contains(&units), "{units} of {ordered} units");
    } else {
        assert!(order.restocked().is_empty());
    }
    if state == FulfillmentState::Requested {
        assert!(order.is_paid());
        assert!(position(Change::FulfillmentRequested).is_some());
    }
}

/// No shipment of these histories is cancelled or fails, so the units that were requested, without
/// those that were called off, are those to ship, unless they were shipped before.
fn requested_is_what_is_to_be_shipped(history: &[Record]) {
    let mut order: Option<Record> = None;
    let mut level = Level::new();
    let mut requested: BTreeMap<i64, i64> = BTreeMap::new();
    let mut is_by_line = true;
    for delivery in history {
        match &mut order {
            None => order = Some(delivery.clone()),
            Some(order) => order.merge(delivery.clone()),
        }
        let after = order.as_ref().unwrap();
        let Some(request) = request(after, &level) else {
            continue;
        };
        is_by_line &= request.units.as_ref().is_none_or(|units| !units.is_empty());
        for (line, units) in request.units.into_iter().flatten() {
            *requested.entry(line).or_default() += units;
        }
        for (line, units) in request.called_off.into_iter().flatten() {
            *requested.entry(line).or_default() -= units;
        }
        level = request.level;
    }
    let order = order.unwrap();
    for line in order.lines.value.iter().filter(|_| is_by_line) {
        let requested = requested.get(&line.id).copied().unwrap_or(0);
        assert!((0..=line.units()).contains(&requested), "{requested} units");
        let to_ship = order.to_ship().get(&line.id).copied().unwrap_or(0);
        if !order.was_fulfilled && order.shipments.is_empty() {
            assert_eq!(requested, to_ship, "line {}", line.id);
        }
    }
}

#[test]
fn every_history_of_up_to_five_deliveries_ends_as_its_facts_say() {
    let mut pool = life();
    pool.push(record("orders/paid", &body(3, "pending", None)));
    pool.push(record(
        "orders/updated",
        &json!({"id": 7, "updated_at": at(6)}),
    ));
    pool.push(record("orders/updated", &body(4, "refunded", None)));
    let mut histories = 0;
    let mut history = Vec::new();
    let mut length = 1;
    while length <= 5 {
        history.resize(length, 0);
        history.fill(0);
        loop {
            check(&pool, &history);
            histories += 1;
            let Some(last) = history.iter().rposition(|index| *index + 1 < pool.len()) else {
                break;
            };
            history[last] += 1;
            history[last + 1..].fill(0);
        }
        length += 1;
    }
    assert_eq!(histories, 8 + 64 + 512 + 4096 + 32768);
}

#[test]
fn a_hundred_thousand_random_histories_end_as_their_facts_say() {
    let pool = pool();
    assert!(pool.len() > 60, "{} deliveries", pool.len());
    let config = ProptestConfig {
        cases: 100_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let histories = proptest::collection::vec(0..pool.len(), 1..9);
    proptest!(config, |(history in histories)| check(&pool, &history));
}

#[test]
fn merging_is_commutative_associative_and_idempotent() {
    let pool = pool();
    let join = |a: &Record, b: &Record| {
        let mut merged = a.clone();
        merged.merge(b.clone());
        merged
    };
    for a in &pool {
        assert!(join(a, a) == *a);
        for b in &pool {
            let ab = join(a, b);
            assert!(ab == join(b, a));
            assert!(join(&ab, b) == ab);
            for c in pool.iter().step_by(7) {
                assert!(join(&ab, c) == join(a, &join(b, c)));
            }
        }
    }
}

#[test]
fn an_order_is_kept_as_json_and_forgets_its_person_and_nothing_else() {
    let person = json!({
        "email": "canary@example.com", "phone": "+canary",
        "shipping_address": {"address1": "1 Canary Street"}, "billing_address": {"zip": "CANARY"},
    });
    let mut newest = with(body(59, "paid", None), &person);
    newest["fulfillments"] = shipped("T-7");
    newest["fulfillments"][0]["tracking_url"] = json!("https://t.example/canary");
    let mut pool = pool();
    pool.push(record("orders/fulfilled", &newest));
    let mut all = pool[0].clone();
    for one in pool {
        for order in [&one, &all] {
            let text = serde_json::to_string(order).expect("a record");
            assert!(
                read(&text).is_ok_and(|read: Record| read == *order),
                "{text}"
            );
        }
        all.merge(one);
    }
    let text = serde_json::to_string(&all)
        .expect("a record")
        .to_lowercase();
    assert_eq!(text.matches("canary").count(), 5, "{text}");
    let mut nobody = all.clone();
    nobody.forget_person();
    let left = serde_json::to_string(&nobody).expect("a record");
    assert!(!left.to_lowercase().contains("canary"), "{left}");
    assert!(left.contains("T-7"), "{left}");
    nobody.merge(all.clone());
    assert!(nobody != all, "no older delivery brings the person back");
}

#[test]
fn the_body_decides_and_not_the_topic_that_nobody_signed() {
    let pending = body(1, "pending", None);
    for topic in ["orders/paid", "orders/fulfilled", "orders/cancelled"] {
        let record = record(topic, &pending);
        assert_eq!(
            record.fulfillment_state(),
            FulfillmentState::Initiated,
            "{topic}"
        );
    }
}

#[test]
fn a_status_that_was_cut_from_the_body_is_what_the_topic_says() {
    let keys = ["financial_status", "fulfillment_status", "cancelled_at"];
    let bare = without(body(1, "pending", None), &keys);
    let state = |topic| record(topic, &bare).fulfillment_state();
    assert_eq!(state("orders/create"), FulfillmentState::Initiated);
    assert_eq!(state("orders/paid"), FulfillmentState::Requested);
    assert_eq!(state("orders/fulfilled"), FulfillmentState::Fulfilled);
    assert_eq!(state("orders/cancelled"), FulfillmentState::Cancelled);
}

#[test]
fn what_is_cut_from_a_newer_body_stays_as_it_was() {
    let mut order = record("orders/create", &body(1, "paid", None));
    order.merge(record(
        "orders/updated",
        &json!({"id": 7, "updated_at": at(2), "fulfillment_status": "partial"}),
    ));
    assert_eq!(order.totals.value.total, Some(3000));
    assert_eq!(order.lines.value.len(), 2);
    let financial = order
        .financial
        .value
        .as_ref()
        .map(domain::order::FinancialStatus::as_str);
    assert_eq!(financial, Some("paid"));
    let fulfillment = order
        .fulfillment
        .value
        .as_ref()
        .map(domain::order::FulfillmentStatus::as_str);
    assert_eq!(fulfillment, Some("partial"));
}

#[test]
fn an_order_refunded_before_it_was_shipped_is_not_shipped_any_more() {
    let paid = record("orders/paid", &body(2, "paid", None));
    let refunded = record("orders/updated", &body(3, "refunded", None));
    let (order, _) = merged_history([paid.clone(), refunded.clone()]);
    assert_eq!(order.fulfillment_state(), FulfillmentState::Cancelled);
    let (_, changes) = merged_history([refunded, paid]);
    assert!(!changes.contains(&Change::FulfillmentRequested));
}

/// How many units of a line of 3 go back into stock: (shipped, refund lines) -> units.
#[test]
fn stock_comes_back_unless_it_was_shipped_or_written_off() {
    let restocked = |shipped: i64, refunds: &[(&str, i64)]| {
        let refunds: Vec<Value> = (1..)
            .zip(refunds)
            .map(|(id, (kind, quantity))| {
                json!({"id": id, "line_item_id": 1, "quantity": quantity, "restock_type": kind})
            })
            .collect();
        let fields = json!({
            "line_items": [{"id": 1, "quantity": 3}],
            "fulfillments": [
                {"id": 1, "status": "success", "line_items": [{"id": 1, "quantity": shipped}]},
                {"id": 2, "status": "cancelled", "line_items": [{"id": 1, "quantity": 3}]},
            ],
            "refunds": [{"id": 1, "refund_line_items": refunds}],
        });
        let body = with(with(body(1, "paid", None), &cancelled(1)), &fields);
        record("orders/cancelled", &body).restocked()[&1]
    };
    assert_eq!(restocked(0, &[]), 3);
    assert_eq!(restocked(1, &[]), 2);
    assert_eq!(restocked(3, &[]), 0);
    assert_eq!(restocked(3, &[("return", 2)]), 2);
    assert_eq!(restocked(1, &[("return", 1)]), 3);
    assert_eq!(restocked(0, &[("cancel", 3)]), 3);
    assert_eq!(restocked(0, &[("no_restock", 1)]), 2);
    assert_eq!(restocked(1, &[("no_restock", 1)]), 2);
    assert_eq!(restocked(0, &[("no_restock", 9)]), 0);
    assert_eq!(restocked(2, &[("return", 9)]), 3);
}

fn with_fulfilment(second: u32, status: Option<&str>, shipment: &str) -> Record {
    let fulfillments = json!([{"id": 70, "status": shipment,
        "line_items": [{"id": 1, "quantity": 2}, {"id": 2, "quantity": 1}]}]);
    let body = with(
        body(second, "paid", status),
        &json!({"fulfillments": fulfillments}),
    );
    record("orders/updated", &body)
}

/// The units by line that a history requests to be shipped, with one entry for each request.
fn asked(history: &[Record]) -> Vec<BTreeMap<i64, i64>> {
    let mut order: Option<Record> = None;
    let mut level = Level::new();
    let mut asked = Vec::new();
    for delivery in history {
        match &mut order {
            None => order = Some(delivery.clone()),
            Some(order) => order.merge(delivery.clone()),
        }
        let after = order.as_ref().unwrap();
        if let Some(request) = request(after, &level) {
            asked.extend(request.units);
            level = request.level;
        }
    }
    asked
}

#[test]
fn stock_of_a_shipment_that_was_called_off_comes_back_with_the_cancellation() {
    let end = with(body(5, "paid", None), &cancelled(5));
    let end = with(
        end,
        &json!({"fulfillments": [{"id": 70, "status": "cancelled",
        "line_items": [{"id": 1, "quantity": 2}, {"id": 2, "quantity": 1}]}]}),
    );
    let history = [
        record("orders/paid", &body(2, "paid", None)),
        with_fulfilment(3, Some("fulfilled"), "success"),
        with_fulfilment(4, None, "cancelled"),
        record("orders/cancelled", &end),
    ];
    let (order, _) = merged_history(history.clone());
    assert_eq!(order.restocked(), BTreeMap::from([(1, 2), (2, 1)]));
    let (order, _) = merged_history(history.into_iter().rev());
    assert_eq!(order.restocked(), BTreeMap::from([(1, 2), (2, 1)]));
}

#[test]
fn an_order_whose_shipment_was_called_off_is_to_be_shipped_again() {
    let history = [
        record("orders/paid", &body(2, "paid", None)),
        with_fulfilment(3, Some("fulfilled"), "success"),
        with_fulfilment(4, None, "cancelled"),
    ];
    let (order, _) = merged_history(history.clone());
    assert_eq!(order.fulfillment_state(), FulfillmentState::Requested);
    let all = BTreeMap::from([(1, 2), (2, 1)]);
    assert_eq!(asked(&history), [all.clone(), all]);
    // The storefront's own status may stay as it was.
    let stale = with_fulfilment(4, Some("fulfilled"), "cancelled");
    assert_ne!(stale.fulfillment_state(), FulfillmentState::Fulfilled);
    // The sequence makes no difference: what is shipped in the end is not requested again.
    let (order, _) = merged_history(history.into_iter().rev());
    assert_eq!(order.fulfillment_state(), FulfillmentState::Requested);
}

#[test]
fn items_that_were_added_later_are_requested_when_they_are_paid_and_alone() {
    let added = |second, financial: &str| {
        let outstanding = if financial == "paid" { "0.00" } else { "40.00" };
        let lines = json!({"total_price": "70.00", "total_outstanding": outstanding, "line_items": [
            {"id": 1, "quantity": 2}, {"id": 2, "quantity": 1}, {"id": 3, "quantity": 4},
        ]});
        let body = with(body(second, financial, Some("partial")), &lines);
        let shipped = json!([{"id": 70, "status": "success",
            "line_items": [{"id": 1, "quantity": 2}, {"id": 2, "quantity": 1}]}]);
        record(
            "orders/updated",
            &with(body, &json!({"fulfillments": shipped})),
        )
    };
    let shipped_first = [
        record("orders/paid", &body(2, "paid", None)),
        with_fulfilment(3, Some("fulfilled"), "success"),
        added(4, "partially_paid"),
        added(5, "paid"),
    ];
    let all = BTreeMap::from([(1, 2), (2, 1)]);
    assert_eq!(asked(&shipped_first[..3]), std::slice::from_ref(&all));
    let (order, _) = merged_history(shipped_first[..3].to_vec());
    assert_eq!(order.fulfillment_state(), FulfillmentState::Initiated);
    assert_eq!(
        asked(&shipped_first),
        [all.clone(), BTreeMap::from([(3, 4)])]
    );
    let not_shipped = |second, financial: &str| {
        let outstanding = if financial == "paid" { "0.00" } else { "40.00" };
        let lines = json!({"total_price": "70.00", "total_outstanding": outstanding, "line_items": [
            {"id": 1, "quantity": 2}, {"id": 2, "quantity": 1}, {"id": 3, "quantity": 4},
        ]});
        record(
            "orders/updated",
            &with(body(second, financial, None), &lines),
        )
    };
    let history = [
        record("orders/paid", &body(2, "paid", None)),
        not_shipped(3, "partially_paid"),
        not_shipped(4, "paid"),
        not_shipped(5, "paid"),
    ];
    assert_eq!(asked(&history), [all.clone(), BTreeMap::from([(3, 4)])]);
    // A storefront that does not say what is outstanding says which version was paid.
    let silent = |second, financial: &str, total: &str, lines: i64| {
        let lines: Vec<Value> = (1..=lines)
            .map(|id| json!({"id": id, "quantity": 1}))
            .collect();
        let body = json!({"id": 7, "updated_at": at(second), "financial_status": financial,
                          "currency": "USD", "total_price": total, "line_items": lines});
        record("orders/updated", &body)
    };
    let history = [
        silent(2, "paid", "30.00", 1),
        silent(3, "partially_paid", "70.00", 2),
        silent(4, "paid", "70.00", 2),
    ];
    let each = [BTreeMap::from([(1, 1)]), BTreeMap::from([(2, 1)])];
    assert_eq!(asked(&history), each);
}

#[test]
fn a_refund_of_less_than_nothing_does_not_add_to_what_was_paid() {
    let refund = |amount: &str| {
        json!({"refunds": [{
            "id": 9, "refund_line_items": [],
            "transactions": [{"id": 1, "kind": "refund", "status": "success", "amount": amount}],
        }]})
    };
    let kept = |amount| record("orders/paid", &with(body(3, "paid", None), &refund(amount))).kept();
    assert_eq!(kept("10.00"), Some(2000));
    assert_eq!(kept("-10.00"), Some(3000));
}
