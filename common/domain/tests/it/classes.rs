//! Records in which everything is filled: each leaf has its class, and an erasure takes what is a person's and nothing else.

use std::collections::BTreeMap;

use domain::customer::Record as Customer;
use domain::order::record::Record as Order;
use domain::payment::checkout::Record as Session;
use domain::payment::record::Record as Payment;
use domain::payment::subscription::Record as Subscription;
use domain::record::{Class, Forget, Record, read};
use serde_json::{Value, json};

type Classes = BTreeMap<String, Class>;

/// What a record has of each path that has a class.
type Found = BTreeMap<String, Vec<Value>>;

fn classes<R: Forget>() -> Classes {
    let mut classes = Classes::new();
    R::classes("", &mut |path, class| {
        assert_eq!(classes.insert(path.to_owned(), class), None, "{path}");
    });
    classes
}

fn find(value: &Value, at: &str, classes: &Classes, found: &mut Found) {
    if classes.contains_key(at) {
        return found.entry(at.to_owned()).or_default().push(value.clone());
    }
    let below = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    let star = below("*");
    match value {
        Value::Array(items) => items.iter().for_each(|it| find(it, &star, classes, found)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let is_item = classes.keys().any(|path| path.starts_with(&star));
            let path = if is_item { star.clone() } else { below(name) };
            find(value, &path, classes, found);
        }),
        _ => assert_eq!(at, "schema", "a leaf has no class"),
    }
}

/// The paths of a record that is filled.
fn check<R: Record + Forget + PartialEq>(filled: &Value) -> Found {
    let classes = classes::<R>();
    let of = |value: &Value| {
        let mut found = Found::new();
        find(value, "", &classes, &mut found);
        found
    };
    let without = |out: Class| {
        let mut left = of(filled);
        left.retain(|path, _| classes[path] != out);
        left
    };
    let mut record: R = read(&filled.to_string()).expect("a record");
    assert_eq!(serde_json::to_value(&record).expect("a record"), *filled);
    let found = of(filled);
    assert!(found.keys().eq(classes.keys()), "{:?}", {
        let mut empty: Vec<_> = classes.keys().collect();
        empty.retain(|path| !found.contains_key(*path));
        empty
    });
    record.forget_person();
    let left = serde_json::to_value(&record).expect("a record");
    assert_eq!(of(&left), without(Class::Person));
    found
}

fn part(value: &Value) -> Value {
    json!({"version": {"at": 7, "tie": 8}, "value": value})
}

fn order() -> Value {
    let address = json!({"city": "London"});
    json!({
        "schema": 1,
        "version": {"at": 9, "tie": 9},
        "name": part(&json!("#1001")),
        "ordered_at": 5,
        "totals": part(&json!({
            "currency": "USD", "total": 500, "subtotal": 400, "tax": 100, "current": 450, "cash_rounding": 1,
            "other_currency": "CAD", "presentment": {"currency": "EUR", "total": 460, "current": 410},
        })),
        "outstanding": part(&json!(5)),
        "offers": {"500": {"version": {"at": 8, "tie": 8}, "units": {"1": 3}, "is_paid": true}},
        "means": part(&json!({"terms": {"kind": "net", "due_at": 9, "pays_first": true}, "own_credit": true})),
        "financial": part(&json!("paid")),
        "fulfillment": part(&json!("partial")),
        "lines": part(&json!([{
            "id": 1, "variant_id": 2, "title": "Tea", "quantity": 3, "price": "1.00", "sku": "T",
            "fulfillment_status": "fulfilled", "current_quantity": 2, "requires_shipping": true,
            "fulfillment_service": "manual",
            "service_ships": true,
        }])),
        "customer": part(&json!(77)),
        "contact": part(&json!({"email": "ada@example.com", "phone": "+44"})),
        "addresses": part(&json!({"shipping": address, "billing": address})),
        "refunds": part(&json!([{
            "id": 1, "amount": 5, "past_providers": true, "lines": [{"line_id": 1, "quantity": 1, "restock": "return"}],
        }])),
        "agreement": part(&json!("A")),
        "own_reference": "1@stripe-b",
        "cancelled": {"at": 6, "reason": "customer"},
        "revocable": part(&json!({"at": 6, "reason": "customer"})),
        "unread": ["note"],
        "was_paid": true,
        "was_fulfilled": true,
        "is_test": true, "deleted_at": 7,
        "shipments": {"5": part(&json!({
            "delivery": "in_transit",
            "status": "success", "carrier": "Post", "lines": [[1, 2]],
            "tracking": [{"number": "T-1", "url": "https://post.example/ada"}],
        }))},
        "settled": {
            "status": "paid", "covers": true, "is_disputed": true, "canceled_at": 8, "is_foreign": true,
            "amounts": [[5, 1]], "discount": 1, "added": 2,
        },
        "waits_until": 9,
        "own": {
            "known_at": 1,
            "redacted_at": 2,
            "fulfillment": {
                "requested_at": 1, "fulfilled_at": 2, "cancelled_at": 3, "updated_at": 4,
                "requested": {"1": 2},
                "asked": {"job": "00000000-0000-0000-0000-000000000001", "state": "created", "id": "F-1"},
            },
            "cycles": {"2": {"is_requested": true, "requested_at": 1, "cancelled_at": 2}},
            "page_url": "https://shop.example/orders/1/track",
            "parcel_urls": {"T-1": "https://shop.example/tracking/T-1"},
            "shipments_at": {"5": 6},
            "successor": ["shop.example", 7],
            "bodies": {"00": {"topic": "orders/paid", "repeats": 1, "refuted": 2, "at": 3}},
        },
    })
}

#[test]
fn each_leaf_of_a_record_has_its_class_and_an_erasure_takes_persons_alone() {
    check::<Order>(&order());
    let stated = json!({"at": 1, "value": "Ada"});
    check::<Customer>(&json!({
        "schema": 1, "email": stated, "phone": stated, "first_name": stated, "last_name": stated,
    }));
    let part = |value: &Value| json!({"version": {"created": 1, "event": "evt_1"}, "value": value});
    let text = part(&json!("text"));
    let mail = part(&json!("ada@example.com"));
    let (number, currency) = (part(&json!(5)), part(&json!("USD")));
    check::<Payment>(&json!({
        "schema": 1, "succeeded": true, "canceled": 5, "received": 5, "tip": 1,
        "returned": {"7": {"minor": 5, "all": true}},
        "refunds": {"re_1": {"minor": 5, "made": 6, "succeeded": true, "failed": 7}},
        "disputes": {"dp_1": {"at": 1, "status": "lost", "minor": 5, "reason": "fraudulent"}},
        "failure": part(&json!({
            "charge": "ch_1", "code": "card_declined", "decline_code": "stolen", "payment_method": "pm_1",
        })),
        "currency": currency, "amount": number, "status": part(&json!("succeeded")), "pact_id": text,
        "cycle": text, "payment_type": text, "transfer_group": text, "invoice": text, "customer": text,
        "account": text, "receipt_email": mail, "unread": ["data.object.customer"],
    }));
    check::<Session>(&json!({
        "schema": 1, "payment_status": "paid", "mode": part(&json!("payment")), "total": number,
        "currency": currency, "subtotal": number, "discount": number, "added": number, "payment_intent": text,
        "subscription": text, "invoice": text, "customer": text, "client_reference_id": text, "pact_id": text,
        "cycle": text, "email": mail, "unread": ["data.object.customer"],
    }));
    check::<Subscription>(&json!({
        "schema": 1, "invoices": {"in_1": {"made": 1, "end": 5, "replaces": true, "items": {"price_1": 5}, "credited": {"price_2": 4}}},
        "returned": ["in_0"], "ended_at": 7, "customer": text, "pact_id": text,
    }));
}

#[test]
#[should_panic(expected = "a leaf has no class")]
fn a_leaf_without_a_class_is_seen() {
    let classes = Classes::from([("name".to_owned(), Class::Thing)]);
    find(
        &json!({"schema": 1, "name": {"at": 1}, "note": ["ada"]}),
        "",
        &classes,
        &mut Found::new(),
    );
}
