//! Tests of what is private in `src/subjects.rs`.

use super::*;

#[test]
fn an_address_is_found_as_a_body_writes_it() {
    let body = br#"{"email":"Ann@Example.com","note":"ANN@example.com or bob@example.com"}"#;
    let found = spellings(body, "ann@example.com");
    assert_eq!(
        found,
        ["ANN@example.com".to_owned(), "Ann@Example.com".to_owned()].into()
    );
}

#[test]
fn a_body_names_customers_addresses_numbers_and_payments() {
    let body = Bytes::from_static(
        br#"{"id":1,"customer":{"id":77,"phone":"+1 555 123 4567"},"email":"Ann@Example.com",
            "payment":"pi_1","session":"cs_1"}"#,
    );
    let mut keys = BTreeSet::new();
    mentioned(&Mentions::of(&body), &body, &mut |subject| {
        keys.insert(format!("{subject:?}"));
    });
    for key in [
        "Customer(77)",
        "Email(\"Ann@Example.com\")",
        "Email(\"ann@example.com\")",
        "Phone(\"15551234567\")",
        "Payment(\"pi_1\")",
        "Session(\"cs_1\")",
    ] {
        assert!(keys.contains(key), "{key}: {keys:?}");
    }
}
