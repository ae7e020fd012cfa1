//! Whom a body mentions.

use std::collections::BTreeSet;

use domain::privacy::{Keys, Mentions, SubjectKey, created_at};

#[test]
fn addresses_numbers_and_ids_are_found_wherever_they_stand() {
    let body = r#"{"id":7,"customer":{"id":"9"},"a":[{"b":" Ann@X.example "}],
        "c":{"phone":"+1 (555) 123-4567","pi":"pi_1","note":"two words"},"f":1.5,"n":-3}"#;
    let mentions = Mentions::of(body.as_bytes());
    assert_eq!((mentions.order, mentions.customer), (Some(7), Some(9)));
    assert_eq!(
        mentions.emails,
        BTreeSet::from(["ann@x.example".to_owned()])
    );
    assert!(mentions.phones.contains("15551234567"));
    assert_eq!(mentions.ids, BTreeSet::from(["pi_1".to_owned()]));
    let event = br#"{"data":{"object":{"id":"cs_1","metadata":{"pact_id":"p1"}}}}"#;
    let mentions = Mentions::of(event);
    assert!(mentions.agreements.contains("p1"));
    assert!(mentions.ids.contains("cs_1"));
}

#[test]
fn a_number_is_a_telephone_number_only_where_one_stands() {
    let body = r#"{"id":44012345678901,"amount":"129900","line_items":[{"variant_id":"44012345678902"}],
        "note":"+49 30 1234567","shipping_address":{"Phone":"0170 7654321"},"billing":{"customer_phone":5551234567}}"#;
    let mentions = Mentions::of(body.as_bytes());
    let phones = ["01707654321", "49301234567", "5551234567"];
    assert_eq!(mentions.phones, phones.map(ToOwned::to_owned).into());
}

#[test]
fn an_order_mentions_its_maker_and_others() {
    let body = br#"{"id":1,"email":"Ann@X.example","contact_email":"ann2@x.example","phone":"+1 555 123 4567",
        "customer":{"id":7,"email":"ann3@x.example","phone":"+1 555 123 4568"},
        "shipping_address":{"phone":"+49 30 1234567"},"gift":{"email":"bob@x.example"}}"#;
    let mentions = Mentions::of(body);
    let own = ["ann2@x.example", "ann3@x.example", "ann@x.example"];
    assert_eq!(mentions.own_emails, own.map(ToOwned::to_owned).into());
    let own = ["15551234567", "15551234568"];
    assert_eq!(mentions.own_phones, own.map(ToOwned::to_owned).into());
    let (emails, phones) = mentions.of_others();
    assert_eq!(emails, ["bob@x.example".to_owned()].into());
    assert_eq!(phones, ["49301234567".to_owned()].into());
}

#[test]
fn an_order_of_woocommerce_names_its_maker_in_other_fields() {
    let body =
        br#"{"id":1,"date_created_gmt":"2027-01-01T00:00:00","customer_id":7,"customer":{"id":8},
        "billing":{"email":"ann@x.example","phone":"+1 555 123 4567"}}"#;
    let mentions = Mentions::of(body);
    assert_eq!(mentions.customer, Some(7));
    assert_eq!(mentions.own_emails, ["ann@x.example".to_owned()].into());
    assert_eq!(mentions.own_phones, ["15551234567".to_owned()].into());
}

#[test]
fn the_keys_of_payments_are_of_objects_and_agreements() {
    let keys = Keys::new(vec![1; 32]);
    let event =
        br#"{"data":{"object":{"id":"pi_1","metadata":{"pact_id":"p1"},"customer":"cus_1"}}}"#;
    let found = Mentions::of(event).payment_keys(&keys, "a.example");
    let expected = [SubjectKey::Payment("pi_1"), SubjectKey::Agreement("p1")];
    let expected = expected.map(|key| keys.subject("a.example", key).unwrap());
    assert_eq!(found, expected);
}

#[test]
fn what_is_far_too_long_or_too_deep_is_no_address() {
    let long = |length: usize| format!("{}@x.example", "a".repeat(length - "@x.example".len()));
    let in_body = |text: &str| Mentions::of(format!("{{\"a\":\"{text}\"}}").as_bytes());
    assert_eq!(in_body(&long(320)).emails.len(), 1);
    assert_eq!(in_body(&long(321)).emails.len(), 0);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let emails = |depth: usize| {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            let body = format!("{open}\"ann@x.example\"{close}");
            Mentions::of(body.as_bytes()).emails.len()
        };
        assert_eq!((emails(32), emails(33)), (1, 0), "{open}");
    }
    assert!(in_body("cus_1").payers.is_empty());
    let named = Mentions::of(br#"{"customer":"7","phone":-5,"fax":"+","id":5551234567}"#);
    assert_eq!(
        named,
        Mentions {
            order: Some(5_551_234_567),
            ..Mentions::default()
        }
    );
}

#[test]
fn a_list_of_numbers_is_one_of_telephone_numbers() {
    let mentions =
        Mentions::of(br#"{"phones":["0170 7654321",5551234567],"ids":["0170 7654322"]}"#);
    let phones = ["01707654321", "5551234567"];
    assert_eq!(mentions.phones, phones.map(ToOwned::to_owned).into());
    for name in ["tel", "Telephone", "mobile", "fax", "phone_number"] {
        let body = format!("{{\"{name}\":5551234567}}");
        let mentions = Mentions::of(body.as_bytes());
        assert_eq!(mentions.phones, ["5551234567".to_owned()].into(), "{name}");
    }
}

#[test]
fn a_payer_stands_in_the_field_of_that_name() {
    let plain = br#"{"data":{"object":{"customer":"cus_1","client_reference_id":"cus_2"}}}"#;
    let expanded = br#"{"data":{"object":{"customer":{"id":"cus_1","name":"Ann"}}}}"#;
    for body in [&plain[..], &expanded[..]] {
        let mentions = Mentions::of(body);
        assert_eq!(mentions.payers, BTreeSet::from(["cus_1".to_owned()]));
    }
    let elsewhere = Mentions::of(br#"{"data":{"object":{"id":"cus_1"}}}"#);
    assert!(elsewhere.payers.is_empty());
}

#[test]
fn a_payment_is_as_old_as_itself_and_not_as_its_event() {
    let late = br#"{"created":2000,"data":{"object":{"created":1000}}}"#;
    assert_eq!(created_at(late), Some(1_000_000));
    assert_eq!(
        created_at(br#"{"created":2000,"data":{"object":{}}}"#),
        Some(2_000_000)
    );
}

#[test]
fn depth_and_broken_bodies_are_harmless() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(Mentions::of(deep.as_bytes()).emails.len(), 0);
    let lone = Mentions::of(br#"{"note":"\ud800","email":"ann@x.example"}"#);
    assert_eq!(lone.emails.len(), 1);
}
