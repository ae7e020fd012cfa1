//! Handlers read the same from an erased body as from the whole body, except for the person.

mod erased_body;
mod journal;
mod keys;
mod link;
mod mentions;
mod operator_view;
mod person;
mod transparency;

use std::time::Duration;

use domain::json::{Problem, Unreadable};
use domain::order::Order;
use domain::payment::{Event, Object};
use domain::privacy::{
    ALARM, Mentions, PERIOD, Person, Request, State, Topic, WARNING, email, email_key, erased_body,
    phone, phone_key,
};
use serde_json::{Value, json};
use strum::VariantArray;

use crate::payment;

fn storefront() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/storefront");
    let files = std::fs::read_dir(folder).expect("the folder of fixtures");
    let files = files.map(|file| file.expect("a file").path());
    let bodies = files.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), std::fs::read(&path).expect("a fixture"))
    };
    bodies.map(read).collect()
}

#[test]
fn an_order_without_its_person_is_the_same_order() {
    let mut orders = 0;
    for (name, body) in storefront() {
        let Ok(mut whole) = Order::read(&body) else {
            continue;
        };
        orders += 1;
        let rest = erased_body("orders/create", &body).expect("something stays");
        let rest_of = Order::read(&rest).expect("still an order");
        whole.email = None;
        whole.phone = None;
        whole.shipping_address = None;
        whole.billing_address = None;
        let customer = whole.customer.take().and_then(|customer| customer.id);
        assert_eq!(
            rest_of.customer.as_ref().and_then(|it| it.id),
            customer,
            "{name}"
        );
        whole.customer = rest_of.customer.clone();
        whole.present_fields = rest_of.present_fields;
        assert!(whole == rest_of, "{name}");
        let mentions = Mentions::of(&rest);
        assert!(mentions.emails.is_empty(), "{name}: {:?}", mentions.emails);
        assert_eq!(erased_body("orders/create", &rest), Some(rest), "{name}");
    }
    assert!(orders >= 5, "{orders}");
}

#[test]
fn an_event_without_its_person_is_the_same_event() {
    for name in payment::fixtures() {
        let body = payment::body(&name);
        let mut whole = Event::read(body.as_bytes()).expect("an event");
        let rest = erased_body(whole.kind.into_str(), body.as_bytes()).expect("something stays");
        match &mut whole.object {
            Object::Intent(intent) => intent.receipt_email = None,
            Object::Session(session) => {
                session.email = None;
                session.client_reference_id = None;
            }
            Object::Charge(_)
            | Object::Refund(_)
            | Object::Dispute(_)
            | Object::Invoice(_)
            | Object::InvoicePayment(_)
            | Object::Subscription(_) => {}
        }
        assert_eq!(Event::read(&rest).expect("still an event"), whole, "{name}");
        let mentions = Mentions::of(&rest);
        assert!(mentions.emails.is_empty(), "{name}: {:?}", mentions.emails);
    }
}

#[test]
fn an_open_request_without_its_person_keeps_its_ids() {
    for (name, body) in storefront() {
        let topic = match name.split('.').next() {
            Some("customers_data_request") => "customers/data_request",
            Some("customers_redact") => "customers/redact",
            _ => continue,
        };
        let rest = erased_body(topic, &body).expect("something stays");
        let (whole, rest_of) = (Mentions::of(&body), Mentions::of(&rest));
        assert_eq!(rest_of.customer, whole.customer, "{name}");
        assert!(!whole.emails.is_empty() && rest_of.emails.is_empty());
    }
}

#[test]
fn an_open_request_without_its_person_names_the_same_orders() {
    for (topic, key) in [
        (Topic::DataRequest, "orders_requested"),
        (Topic::Redact, "orders_to_redact"),
    ] {
        for orders in [json!([1, "2", 3]), json!([])] {
            let body = json!({"shop_domain": "a.example", "customer": {"id": 7, "email": "a@x.example"}, key: orders});
            let body = body.to_string();
            let rest = erased_body(topic.into_str(), body.as_bytes()).expect("something stays");
            let whole = Request::read(topic, body.as_bytes()).expect("a request");
            let rest = Request::read(topic, &rest).expect("still a request");
            assert_eq!(rest.orders, whole.orders, "{key}");
            assert_eq!((rest.person.id, rest.person.email), (Some(7), None));
        }
    }
    let body = json!({"shop_domain": "a.example", "orders_to_redact": 5}).to_string();
    let rest = erased_body("customers/redact", body.as_bytes()).unwrap();
    let rest: Value = serde_json::from_slice(&rest).unwrap();
    assert_eq!(rest["orders_to_redact"], 5);
}

#[test]
fn a_request_has_thirty_days_and_is_warned_of_before() {
    const DAY: u64 = 24 * 60 * 60;
    let days = [PERIOD, WARNING, ALARM].map(|time: Duration| time.as_secs() / DAY);
    assert_eq!(days, [30, 7, 2]);
}

#[test]
fn the_name_of_a_shop_has_at_most_255_characters_that_can_be_seen() {
    let read = |shop: &str| {
        let body =
            json!({"shop_domain": shop, "customer": {"id": 7}, "orders_to_redact": []}).to_string();
        Request::read(Topic::Redact, body.as_bytes())
    };
    let longest = "a".repeat(255);
    assert_eq!(read(&longest).unwrap().shop, longest);
    assert_eq!(read("A.Example").unwrap().shop, "a.example");
    for shop in [&"a".repeat(256), "a b", "\u{e4}.example", "a\n"] {
        let refused = read(shop).unwrap_err();
        let problem = Problem::NotAnId;
        let field = "shop_domain";
        assert_eq!(refused, Unreadable::Field { field, problem }, "{shop}");
    }
}

#[test]
fn a_state_is_written_as_it_is_read() {
    let names = ["received", "held", "done", "cancelled", "failed"];
    assert_eq!(State::ALL.map(|it| it.into_str()), names);
    let read = names.map(|name| name.parse::<State>().unwrap());
    assert_eq!(read, State::ALL);
    assert!("open".parse::<State>().is_err());
}

#[test]
fn a_person_is_shown_by_the_id_alone() {
    let person = Person {
        id: Some(7),
        email: Some("ann@x.example".to_owned()),
        phone: Some("+49 30 1234567".to_owned()),
    };
    assert_eq!(format!("{person:?}"), "Person { id: Some(7), .. }");
}

#[test]
fn addresses_and_numbers_are_kept_in_the_form_in_which_they_are_compared() {
    assert_eq!(email_key(" Ann@X.Example "), "ann@x.example");
    assert_eq!(email_key("ann"), "");
    assert_eq!(phone_key("+49 (0)30 1234567 ext. 9"), "49301234567");
    assert_eq!(phone_key("none"), "");
    assert_eq!(phone("0000000"), None);
    assert_eq!(phone("111 1111").as_deref(), None);
    assert_eq!(phone("111 1112").as_deref(), Some("1111112"));
    assert_eq!(phone("12345"), None);
    assert_eq!(phone("123456").as_deref(), Some("123456"));
}

const REQUEST: &str = r#"{"shop_id":7,"shop_domain":"Acme.example","orders_requested":[1,"2"],
    "customer":{"id":9,"email":"Ann@Example.com","phone":null},"data_request":{"id":3}}"#;
const REDACT: &str = r#"{"shop_id":7,"shop_domain":"acme.example","orders_to_redact":[],
    "customer":{"email":"ann@example.com"}}"#;
const SHOP: &str = r#"{"shop_id":7,"shop_domain":"acme.example"}"#;

#[test]
fn a_request_says_its_shop_whom_it_is_about_and_which_orders() {
    let read = Request::read(Topic::DataRequest, REQUEST.as_bytes()).unwrap();
    assert_eq!(read.shop, "acme.example");
    assert_eq!(read.orders, [1, 2]);
    assert_eq!(read.person.id, Some(9));
    assert_eq!(read.person.email.as_deref(), Some("Ann@Example.com"));
    let read = Request::read(Topic::Redact, REDACT.as_bytes()).unwrap();
    assert_eq!((read.person.id, read.orders.len()), (None, 0));
    let read = Request::read(Topic::ShopRedact, SHOP.as_bytes()).unwrap();
    assert_eq!(read.person, Person::default());
}

#[test]
fn a_body_is_read_under_its_own_topic_alone() {
    let bodies = [REQUEST, REDACT, SHOP];
    for (i, topic) in Topic::VARIANTS.iter().copied().enumerate() {
        for (j, body) in bodies.iter().enumerate() {
            let read = Request::read(topic, body.as_bytes());
            assert_eq!(read.is_ok(), i == j, "{} with body {j}", topic.into_str());
        }
    }
    let order = r#"{"id":1,"shop_domain":"acme.example","line_items":[]}"#;
    for &topic in Topic::VARIANTS {
        assert!(Request::read(topic, order.as_bytes()).is_err());
    }
}

#[test]
fn a_request_about_nobody_is_known_as_such() {
    let nobody = r#"{"shop_domain":"acme.example","orders_to_redact":[],"customer":{}}"#;
    let nobody = Request::read(Topic::Redact, nobody.as_bytes()).unwrap();
    assert!(nobody.is_about_nobody());
    let somebody = Request::read(Topic::Redact, REDACT.as_bytes()).unwrap();
    assert!(!somebody.is_about_nobody());
}

#[test]
fn numbers_and_addresses_are_compared_however_they_are_written() {
    assert_eq!(email(" Ann@Example.COM "), email("ann@example.com"));
    assert_eq!(phone("+1 (555) 123-4567"), phone("15551234567"));
    assert_eq!(phone("12 34"), None);
    assert_eq!(email("ÄNN@Exämple.com"), email("änn@exämple.com"));
    for same in [
        "+49 30/1234567",
        "tel:+49-30-1234567",
        "+49\u{a0}30\u{202f}1234567",
        "+49 (0) 30 1234567",
        "0049 30 1234567 x12",
        "+49.30.1234567 ext. 12",
        "+４９ ３０ １２３４５６７",
    ] {
        assert_eq!(phone(same).as_deref(), Some("49301234567"), "{same}");
    }
    assert_eq!(phone("000000"), None, "a number that nobody has");
    let compared = phone("0000 491 234567").unwrap();
    assert_eq!(
        phone(&compared),
        Some(compared),
        "the form of a form is itself"
    );
    assert_eq!(phone("call Ann"), None);
}
