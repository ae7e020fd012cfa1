//! Handlers read the same from an erased body as from the whole body, except for the person.

use domain::order::Order;
use domain::payment::{Event, Object};
use domain::privacy::{Mentions, erased_body};

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
        let rest = erased_body(whole.kind.as_str(), body.as_bytes()).expect("something stays");
        match &mut whole.object {
            Object::Intent(intent) => intent.receipt_email = None,
            Object::Session(session) => {
                session.email = None;
                session.client_reference_id = None;
            }
            Object::Charge(_) | Object::Invoice(_) => {}
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
