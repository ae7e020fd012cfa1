//! Bodies of orders, one to three of one input, with a zero byte between them. An order is the same however often and in
//! whatever sequence its bodies come, no amount and no quantity is below zero, and without its person it is the same
//! order.

use domain::order::Order;
use domain::order::outcome::{Change, changes, level_of, request};
use domain::order::record::{Contact, Record};
use domain::privacy::erased_body;
use domain::record::Forget as _;

use super::input::Input;

const TOPICS: [&str; 6] = [
    "orders/create",
    "orders/updated",
    "orders/paid",
    "orders/fulfilled",
    "orders/cancelled",
    "",
];
const RECEIVED_AT: i64 = 1_800_000_000_000;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let topics = [
        input.one_of(&TOPICS),
        input.one_of(&TOPICS),
        input.one_of(&TOPICS),
    ];
    let bodies = input.rest().split(|byte| *byte == 0).take(3);
    let mut records = Vec::with_capacity(3);
    for (body, topic) in bodies.zip(topics) {
        let Ok(order) = Order::read(body) else {
            continue;
        };
        assert!(Order::read(body).as_ref() == Ok(&order));
        sound(&order);
        without_its_person(&order, body);
        let record = Record::of(order, topic.parse().ok(), body, RECEIVED_AT);
        outcome(None, &record);
        records.push(record);
    }
    if let [a, b, ..] = &records[..] {
        let ab = merged(a, b);
        assert!(ab == merged(b, a), "not commutative");
        assert!(merged(&ab, b) == ab && merged(a, a) == *a, "not idempotent");
        if let [_, _, c] = &records[..] {
            assert!(
                merged(&ab, c) == merged(a, &merged(b, c)),
                "not associative"
            );
        }
        outcome(Some(a), &ab);
        outcome(Some(b), &ab);
    }
}

fn merged(a: &Record, b: &Record) -> Record {
    let mut merged = a.clone();
    merged.merge(b.clone());
    merged
}

fn sound(order: &Order) {
    assert!(order.id > 0);
    assert!(
        order
            .lines
            .iter()
            .all(|line| line.id > 0 && line.units() >= 0 && line.left() <= line.units())
    );
    for fulfillment in &order.fulfillments {
        assert!(fulfillment.id > 0 && fulfillment.tracking.len() <= 250);
        assert!(
            fulfillment
                .lines
                .iter()
                .all(|(id, quantity)| *id > 0 && *quantity >= 0)
        );
        assert!(
            fulfillment
                .tracking
                .iter()
                .all(|it| !it.number.contains(char::is_control))
        );
    }
    for refund in &order.refunds {
        assert!(refund.lines.iter().all(|line| line.quantity >= 0));
    }
    let texts = [
        &order.email,
        &order.name,
        &order.pact_id,
        &order.cancel_reason,
    ];
    assert!(
        texts
            .iter()
            .all(|text| text.as_ref().is_none_or(|text| !text.contains('\0')))
    );
}

/// What handlers decide by is the same in the erased body.
fn without_its_person(order: &Order, body: &[u8]) {
    let rest = erased_body("orders/create", body).expect("an order is an object");
    let left = Order::read(&rest).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(left.id, order.id);
    assert_eq!(
        (left.currency, left.total, left.outstanding),
        (order.currency, order.total, order.outstanding)
    );
    assert_eq!(
        (left.updated_at, left.cancelled_at),
        (order.updated_at, order.cancelled_at)
    );
    assert_eq!(left.pact_id, order.pact_id);
    assert_eq!(left.lines.len(), order.lines.len());
    assert!(left.refunds == order.refunds || left.refunds.len() == order.refunds.len());
    assert!(left.email.is_none() && left.phone.is_none());
    assert!(left.shipping_address.is_none() && left.billing_address.is_none());
    assert_eq!(
        erased_body("orders/create", &rest).as_deref(),
        Some(&rest[..])
    );
}

fn outcome(before: Option<&Record>, after: &Record) {
    let state = after.fulfillment_state();
    assert_eq!(after.clone().fulfillment_state(), state);
    assert!(after.kept().is_none_or(|minor| minor >= 0));
    assert!(after.too_much() >= 0);
    assert!(
        after.owed() <= after.kept().or(Some(0)),
        "more is owed than is kept"
    );
    assert!(after.restocked().values().all(|units| *units >= 0));
    assert!(after.restocked().is_empty() || after.cancelled.is_some());
    let ordered: i128 = after
        .lines
        .value
        .iter()
        .map(|line| i128::from(line.units()))
        .sum();
    let restocked: i128 = after
        .restocked()
        .values()
        .map(|units| i128::from(*units))
        .sum();
    assert!(restocked <= ordered, "more goes back than was ordered");
    assert!(level_of(after).values().all(|units| *units >= 0));

    let level = before.map(level_of).unwrap_or_default();
    if let Some(request) = request(after, &level) {
        assert!(request.level.values().all(|units| *units >= 0));
        let told = request.units.iter().chain(&request.called_off).flatten();
        assert!(told.into_iter().all(|(_, units)| *units > 0));
        let again = self::request(after, &request.level);
        assert_eq!(again, None, "units are requested or called off twice");
    }
    let reported = changes(before, after);
    assert_eq!(reported.contains(&Change::Created), before.is_none());
    assert_eq!(changes(Some(after), after), []);
    let written = serde_json::to_string(after).unwrap();
    assert!(domain::record::read(&written).as_ref() == Ok(after));
    let mut nobody = after.clone();
    nobody.forget_person();
    assert!(nobody.contact.value == Contact::default());
    assert!(nobody.addresses.value.shipping.is_none() && nobody.addresses.value.billing.is_none());
    assert_eq!(nobody.fulfillment_state(), state);
}
