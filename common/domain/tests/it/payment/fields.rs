//! Payment events field by field, with values that are missing, null or garbage.

use domain::json::{Problem, Unreadable};
use domain::payment::{Event, Object};
use serde_json::{Value, json};

use super::{NEW, OLD, body};

pub fn parsed(name: &str) -> Value {
    serde_json::from_str(&body(name)).expect("a fixture is JSON")
}

/// The fixture of a type, in the newer generation of the API.
fn new(event_type: &str) -> Value {
    parsed(&format!("{event_type}.{NEW}"))
}

/// The body with the value at the path replaced, or its key removed.
pub fn with(mut body: Value, path: &str, value: Option<Value>) -> Value {
    let pointer = format!("/{}", path.replace("[]", "/0").replace('.', "/"));
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match (body.pointer_mut(parent).expect("the fixture has it"), value) {
        (Value::Array(items), Some(value)) => {
            items[key.parse::<usize>().expect("an index")] = value;
        }
        (Value::Object(fields), Some(value)) => {
            fields.insert(key.to_owned(), value);
        }
        (Value::Object(fields), None) => {
            fields.remove(key).expect("the fixture has it");
        }
        _ => panic!("nothing at {path}"),
    }
    body
}

pub fn read(body: &Value) -> Result<Event, Unreadable> {
    Event::read(body.to_string().as_bytes())
}

fn problem(body: &Value, field: &str) -> Problem {
    match read(body) {
        Err(Unreadable::Field {
            field: reported,
            problem,
        }) if reported == field => problem,
        other => panic!("{field}: {other:?}"),
    }
}

/// What is wrong with a field on which nothing depends costs this field alone, and the event lists it.
fn is_listed(body: &Value, field: &str) -> bool {
    read(body).is_ok_and(|event| event.unread == [field])
}

const INTENT: &str = "payment_intent.succeeded";
const FAILED: &str = "payment_intent.payment_failed";
const CHARGE: &str = "charge.refunded";
const SESSION: &str = "checkout.session.completed";
const INVOICE: &str = "invoice.payment_succeeded";
const ALL: [&str; 4] = [INTENT, CHARGE, SESSION, INVOICE];

#[test]
fn what_must_be_there_is_asked_for_by_name() {
    let mut required = vec![
        (INTENT, "data.object.amount"),
        (CHARGE, "data.object.amount"),
        (CHARGE, "data.object.amount_refunded"),
        (INTENT, "data.object.currency"),
        (CHARGE, "data.object.currency"),
    ];
    for event_type in ALL {
        for field in [
            "id",
            "created",
            "type",
            "data",
            "data.object",
            "data.object.id",
        ] {
            required.push((event_type, field));
        }
    }
    for (event_type, field) in required {
        for nothing in [None, Some(json!(null)), Some(json!(""))] {
            let body = with(new(event_type), field, nothing);
            assert_eq!(problem(&body, field), Problem::Missing, "{event_type}");
        }
    }
    let body = with(new(INVOICE), "data.object.amount_paid", None);
    assert!(is_listed(&body, "data.object.amount_paid"));
    let body = with(new(SESSION), "data.object.currency", None);
    assert!(is_listed(&body, "data.object.amount_total"));
}

#[test]
fn ids_and_links_are_visible_ascii_of_255_at_most() {
    let mut decisive = vec![
        ("id", INTENT),
        ("data.object.payment_intent", CHARGE),
        (
            "data.object.parent.subscription_details.subscription",
            INVOICE,
        ),
    ];
    decisive.extend(ALL.map(|event_type| ("data.object.id", event_type)));
    let links = [
        ("data.object.customer", INTENT),
        ("data.object.latest_charge", INTENT),
        ("data.object.last_payment_error.charge", FAILED),
        ("data.object.payment_intent", CHARGE),
        ("data.object.customer", CHARGE),
        ("data.object.payment_intent", SESSION),
        ("data.object.subscription", SESSION),
        ("data.object.invoice", SESSION),
        ("data.object.customer", SESSION),
        ("data.object.customer", INVOICE),
        (
            "data.object.parent.subscription_details.subscription",
            INVOICE,
        ),
    ];
    let longest = "x".repeat(255);
    let read_as = |event_type: &str, field: &str, value: Value| {
        let body = with(new(event_type), field, Some(value));
        let is_decisive = decisive.contains(&(field, event_type));
        let refused = is_decisive.then(|| problem(&body, field));
        assert!(
            is_decisive || is_listed(&body, field),
            "{event_type} {field}"
        );
        refused
    };
    for (field, event_type) in decisive.iter().chain(&links) {
        for wrong in ["pi 1", "pi_1\n", "pi_\u{e9}", "\0", &format!("{longest}x")] {
            let refused = read_as(event_type, field, json!(wrong));
            assert!(
                refused.is_none_or(|it| it == Problem::NotAnId),
                "{event_type}"
            );
        }
        for wrong in [json!(7), json!(true), json!(["pi_1"])] {
            let refused = read_as(event_type, field, wrong);
            assert!(
                refused.is_none_or(|it| it == Problem::WrongShape),
                "{event_type}"
            );
        }
        read(&with(new(event_type), field, Some(json!(longest)))).expect("an id");
    }
    for (field, event_type) in links {
        let with_link = |link: Value| with(new(event_type), field, Some(link));
        let as_text = read(&with_link(json!("x_1"))).expect("a link");
        for expanded in [
            json!({"id": "x_1", "object": "anything", "email": "ada@example.com"}),
            json!({"id": "x_1", "object": "anything", "deleted": true}),
        ] {
            assert_eq!(read(&with_link(expanded)).as_ref(), Ok(&as_text), "{field}");
        }
        assert_ne!(read(&with_link(json!(null))), Ok(as_text), "{field}");
        let refused = read_as(event_type, field, json!({"deleted": true}));
        assert!(
            refused.is_none_or(|it| it == Problem::Missing),
            "{event_type}"
        );
    }
}

#[test]
fn amounts_times_and_currencies_are_right_or_refused() {
    let amounts = [
        ("data.object.amount", INTENT),
        ("data.object.amount_received", INTENT),
        ("data.object.amount", CHARGE),
        ("data.object.amount_captured", CHARGE),
        ("data.object.amount_refunded", CHARGE),
    ];
    for (field, event_type) in [
        ("data.object.amount_total", SESSION),
        ("data.object.amount_paid", INVOICE),
        ("data.object.total", INVOICE),
    ] {
        for wrong in [
            json!(9_223_372_036_854_775_808_u64),
            json!(5.5),
            json!("49.95"),
        ] {
            assert!(is_listed(&with(new(event_type), field, Some(wrong)), field));
        }
    }
    for (field, event_type) in amounts {
        let with_amount = |amount: Value| with(new(event_type), field, Some(amount));
        let problem = |amount: Value| problem(&with_amount(amount), field);
        assert_eq!(problem(json!(-1)), Problem::OutOfRange);
        assert_eq!(
            problem(json!(9_223_372_036_854_775_808_u64)),
            Problem::OutOfRange
        );
        assert_eq!(problem(json!(5.0)), Problem::NotAnInteger);
        assert_eq!(problem(json!("49.95")), Problem::NotAnInteger);
        assert_eq!(problem(json!(true)), Problem::WrongShape);
        for right in [0, 1, i64::MAX] {
            read(&with_amount(json!(right))).expect("an amount");
        }
    }
    for event_type in ALL {
        let with_code =
            |code: &str| with(new(event_type), "data.object.currency", Some(json!(code)));
        for wrong in ["us", "usdd", "u$d", "€"] {
            let body = with_code(wrong);
            if [INTENT, CHARGE].contains(&event_type) {
                assert_eq!(
                    problem(&body, "data.object.currency"),
                    Problem::NotACurrency
                );
            } else {
                let listed = read(&body).expect("an event").unread;
                assert_eq!(listed[0], "data.object.currency", "{event_type}");
            }
        }
        assert_eq!(read(&with_code("USD")), read(&with_code("usd")));
        for wrong in [json!(-1), json!(1_793_448_000_000_i64)] {
            let body = with(new(event_type), "created", Some(wrong));
            assert_eq!(problem(&body, "created"), Problem::OutOfRange);
        }
    }
    let end = "data.object.lines.data[].period.end";
    let body = with(new(INVOICE), end, Some(json!(1_793_448_000_000_i64)));
    assert_eq!(problem(&body, end), Problem::OutOfRange, "milliseconds");
    let body = with(new(CHARGE), "data.object.captured", Some(json!("no")));
    assert_eq!(problem(&body, "data.object.captured"), Problem::WrongShape);
}

#[test]
fn another_kind_of_body_is_refused() {
    for event_type in ALL {
        let foreign = |field: &str, value: &str| {
            let body = with(new(event_type), field, Some(json!(value)));
            assert_eq!(problem(&body, field), Problem::Foreign, "{event_type}");
        };
        foreign("object", "v2.core.event");
        foreign("type", "payment_intent.created");
        foreign("data.object.object", "refund");
        for field in ["object", "data.object.object"] {
            read(&with(new(event_type), field, None)).expect("an event");
        }
    }
}

#[test]
fn nothing_hangs_on_the_rest() {
    let rest = [
        (
            INTENT,
            "metadata receipt_email status last_payment_error cancellation_reason",
        ),
        (CHARGE, "metadata refunded"),
        (
            SESSION,
            "metadata mode payment_status client_reference_id customer_details customer_email",
        ),
        (INVOICE, "metadata total billing_reason"),
    ];
    for (event_type, fields) in rest {
        for field in fields.split(' ') {
            for garbage in [json!(null), json!([]), json!(7), json!([[{}]])] {
                let body = with(
                    new(event_type),
                    &format!("data.object.{field}"),
                    Some(garbage),
                );
                read(&body).expect("an event");
            }
        }
        read(&with(new(event_type), "api_version", Some(json!(7)))).expect("an event");
    }
}

#[test]
fn an_agreement_is_named_by_a_text_of_255_characters_at_most() {
    let agreement = |metadata: Value| {
        let body = with(new(INTENT), "data.object.metadata", Some(metadata));
        match read(&body).expect("an event").object {
            Object::Intent(intent) => intent.metadata.pact_id,
            other => panic!("{other:?}"),
        }
    };
    let longest = "ü".repeat(255);
    assert_eq!(
        agreement(json!({"pact_id": longest})),
        Some(longest.clone())
    );
    for nothing in [
        json!(null),
        json!({}),
        json!([]),
        json!({"pact_id": null}),
        json!({"pact_id": ""}),
        json!({"pact_id": 7}),
        json!({"pact_id": format!("{longest}x")}),
    ] {
        assert_eq!(agreement(nothing), None);
    }
}

#[test]
fn unknown_statuses_are_kept() {
    for (event_type, field) in [
        (INTENT, "status"),
        (SESSION, "payment_status"),
        (SESSION, "mode"),
    ] {
        let body = with(
            new(event_type),
            &format!("data.object.{field}"),
            Some(json!("in_orbit")),
        );
        let kept = match read(&body).expect("an event").object {
            Object::Intent(intent) => intent.status.map(|it| it.as_str().to_owned()),
            Object::Session(session) if field == "mode" => {
                session.mode.map(|it| it.as_str().to_owned())
            }
            Object::Session(session) => session.payment_status.map(|it| it.as_str().to_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(kept.as_deref(), Some("in_orbit"));
    }
}

#[test]
fn the_older_generation_is_read_by_its_own_fields() {
    let old = |event_type: &str| parsed(&format!("{event_type}.{OLD}"));
    for (event_type, field) in [
        (INTENT, "data.object.invoice"),
        (INVOICE, "data.object.charge"),
        (INVOICE, "data.object.payment_intent"),
    ] {
        let body = with(old(event_type), field, Some(json!("not an id")));
        assert!(is_listed(&body, field), "{event_type}");
    }
    let field = "data.object.subscription";
    let body = with(old(INVOICE), field, Some(json!("not an id")));
    assert_eq!(problem(&body, field), Problem::NotAnId);
    let charges = |charges: Value| with(old(INTENT), "data.object.charges", Some(charges));
    let charge = |body: &Value| match read(body).expect("an event").object {
        Object::Intent(intent) => intent.charge,
        other => panic!("{other:?}"),
    };
    for nothing in [
        json!(null),
        json!({}),
        json!({"data": null}),
        json!({"data": []}),
    ] {
        assert_eq!(charge(&charges(nothing)), None);
    }
    let ids = json!({"data": ["ch_2", "ch_1"]});
    assert_eq!(charge(&charges(ids)).as_deref(), Some("ch_2"));
    let both = with(
        old(INTENT),
        "data.object.latest_charge",
        Some(json!("ch_9")),
    );
    assert_eq!(charge(&both).as_deref(), Some("ch_9"));
}

#[test]
fn an_invoice_of_a_quote_is_of_no_subscription() {
    let mut body = new("invoice.payment_succeeded");
    let of = |body: &Value| match read(body).unwrap().object {
        Object::Invoice(invoice) => invoice.subscription,
        other => panic!("{other:?}"),
    };
    assert!(of(&body).is_some());
    body["data"]["object"]["parent"]["type"] = json!("quote_details");
    assert_eq!(of(&body), None);
}
