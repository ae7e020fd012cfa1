//! What is left of a body after its erasure.

use domain::payment::Event;
use domain::payment::record::Record;
use domain::privacy::erased_body;

fn erased(kind: &str, body: &str) -> String {
    String::from_utf8(erased_body(kind, body.as_bytes()).unwrap()).unwrap()
}

#[test]
fn ids_amounts_and_states_stay_to_the_last_digit() {
    let body = r#"{"id":9223372036854775807,"total_price":"10.10","email":"ann@x.example",
        "customer":{"id":5,"email":"ann@x.example","note":"VIP"},"note":"ring twice",
        "line_items":[{"id":1,"quantity":2,"properties":[{"name":"for","value":"Ann"}]},7],
        "note_attributes":[{"name":"gift","value":"Ann"},{"name":"pact_id","value":"p1"}]}"#;
    assert_eq!(
        erased("orders/create", body),
        r#"{"id":9223372036854775807,"total_price":"10.10","customer":{"id":5},"line_items":[{"id":1,"quantity":2}],"note_attributes":[{"name":"pact_id","value":"p1"}]}"#
    );
}

#[test]
fn an_expanded_link_is_its_id_alone() {
    let body = r#"{"id":"evt_1","data":{"object":{"id":"pi_1","receipt_email":"a@x.example",
        "customer":{"id":"cus_1","name":"Ann"},"latest_charge":"ch_1"}}}"#;
    assert_eq!(
        erased("payment_intent.succeeded", body),
        r#"{"id":"evt_1","data":{"object":{"id":"pi_1","customer":{"id":"cus_1"},"latest_charge":"ch_1"}}}"#
    );
}

#[test]
fn a_value_of_an_unexpected_shape_goes() {
    let body = r#"{"id":1,"cancel_reason":{"text":"Ann"},"line_items":"Ann","customer":"Ann",
        "total_price":"Ann","updated_at":"ask Ann","financial_status":"Ann Lee"}"#;
    assert_eq!(
        erased("orders/updated", body),
        r#"{"id":1,"cancel_reason":null,"line_items":null,"customer":null,"total_price":null,"updated_at":null,"financial_status":"other"}"#
    );
    assert_eq!(erased_body("customers/update", b"{}"), None);
    assert_eq!(erased_body("orders/create", b"[1]"), None);
}

#[test]
fn a_text_in_the_place_of_an_id_or_a_time_stays_only_if_it_can_be_one() {
    let body = r#"{"id":"ann@x.example","order_number":"Ann Lee","updated_at":"",
        "customer":{"id":"7a"},"fulfillments":[{"tracking_numbers":["1Z 9","2"],"tracking_number":"1Z 9"}]}"#;
    assert_eq!(
        erased("orders/updated", body),
        r#"{"id":null,"order_number":null,"updated_at":"","customer":{"id":"7a"},"fulfillments":[{"tracking_numbers":["1Z 9","2"],"tracking_number":"1Z 9"}]}"#
    );
    let word = |length: usize| {
        let status = "a".repeat(length);
        erased(
            "orders/paid",
            &format!(r#"{{"financial_status":"{status}"}}"#),
        )
    };
    assert_eq!(word(41), r#"{"financial_status":"other"}"#);
    assert_eq!(word(40).len(), word(39).len() + 1);
}

#[test]
fn depth_is_harmless() {
    let deep = format!("{{\"id\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(erased("orders/create", &deep), r#"{"id":null}"#);
}

#[test]
fn what_handlers_read_stays_however_it_is_written() {
    let body = r#"{"id":"\u0037","updated_at":"2027-01-15t12:00:00,5z","cancel_reason":"\u0061\u0040x.example",
        "financial_status":"\u0070aid","note_attributes":[{"name":"pact\u005fid","value":"p1"}]}"#;
    assert_eq!(
        erased("orders/create", body),
        r#"{"id":"\u0037","updated_at":"2027-01-15t12:00:00,5z","cancel_reason":"other","financial_status":"\u0070aid","note_attributes":[{"name":"pact\u005fid","value":"p1"}]}"#
    );
}

#[test]
fn a_status_that_nobody_knows_does_not_become_one_that_is_missing() {
    let body = r#"{"id":"evt_1","object":"event","type":"payment_intent.succeeded","created":1,
        "data":{"object":{"object":"payment_intent","id":"pi_1","amount":5,"currency":"usd",
        "status":"waits for Ann"}}}"#;
    let read = |body: &str| Event::read(body.as_bytes()).unwrap();
    let received = |event: &Event| Record::of(event).unwrap().1.received;
    assert_eq!(received(&read(body)), 0);
    let rest = erased("payment_intent.succeeded", body);
    assert!(!rest.contains("Ann"));
    assert_eq!(received(&read(&rest)), 0);
}
