//! Entries of the journal of erasures name nobody and cannot be changed.

use std::collections::BTreeMap;

use domain::privacy::journal::{DecidedCustomers, Entry, Erased, NO_SHOP, Named, Wrong, begin};
use domain::privacy::{Decided, Keys, Request, SubjectKey};
use domain::time::Timestamp;
use uuid::Uuid;

fn keys(byte: u8) -> Keys {
    Keys::new(vec![byte; 32])
}

fn erased(keys: &Keys) -> Erased {
    let body = br#"{"shop_domain":"a.example","orders_to_redact":[1],
        "customer":{"id":77,"email":"Ann@Example.com","phone":"+15551234567"}}"#;
    let request = Request::read(domain::privacy::Topic::Redact, body).unwrap();
    let mut decided = Decided {
        customers: [78].into(),
        other_customers: [79].into(),
        orders: [2].into(),
        ..Decided::default()
    };
    Erased {
        job: Uuid::from_u128(7),
        kind: "customers/redact".to_owned(),
        shop: request.shop.clone(),
        received_at: Timestamp(0),
        due_at: Timestamp(2),
        erased_at: Timestamp(1),
        named: Named::of(keys, Uuid::from_u128(7), &request, body),
        decided_customers: DecidedCustomers::taken_from(keys, &mut decided),
        decided,
        orders: [1, 2].into(),
        orders_by_id: [1].into(),
        tombstones: BTreeMap::new(),
    }
}

#[test]
fn whom_a_request_named_is_noted_by_hashes() {
    let keys = keys(1);
    let named = erased(&keys).named;
    let key = |key| keys.subject("a.example", key);
    assert_eq!(
        named.customer,
        keys.subject(NO_SHOP, SubjectKey::Customer(77))
    );
    assert_eq!(named.email, key(SubjectKey::Email("ann@example.com")));
    assert_eq!(named.phone, key(SubjectKey::Phone("15551234567")));
    assert_eq!(named.orders, [1]);
    assert!(named.asked.email.is_some() && named.asked.phone.is_some());
    assert!(named.customer.is_some() && !named.body.is_nil());
    // HMAC-SHA256 of "erasures begin" after its length in 8 bytes, by a program of another language.
    assert_eq!(
        hex::encode(begin(&keys)),
        "207be5c42f5841d2f038247c37de7ab1ea14c331f624aa44e857cfa47fa2bb08"
    );
}

#[test]
fn an_entry_names_nobody() {
    let keys = keys(1);
    let entry = Entry::new(&keys, 1, &begin(&keys), erased(&keys));
    let text = String::from_utf8(entry.bytes).unwrap();
    for named in ["77", "78", "79", "nn@", "example.com", "555"] {
        let is_named = text
            .split(|c: char| !c.is_alphanumeric())
            .any(|it| it == named);
        assert!(!is_named, "{named}: {text}");
    }
    assert!(!text.to_lowercase().contains("ann@example.com"), "{text}");
}

#[test]
fn an_entry_that_was_changed_forged_or_moved_is_noticed() {
    let (ours, theirs) = (keys(1), keys(2));
    let one = Entry::new(&ours, 1, &begin(&ours), erased(&ours));
    let two = Entry::new(&ours, 2, &one.hash, erased(&ours));
    let read = |number, bytes: &[u8], before| Entry::read(&ours, number, bytes, before);
    assert_eq!(read(2, &two.bytes, Some(&one.hash)), Ok(two.clone()));
    assert_eq!(read(1, &two.bytes, None), Err(Wrong::Moved));
    assert_eq!(read(2, &two.bytes, Some(&two.hash)), Err(Wrong::Apart));
    let forged = Entry::new(&theirs, 2, &one.hash, erased(&ours));
    assert_eq!(read(2, &forged.bytes, Some(&one.hash)), Err(Wrong::Changed));
    let text = String::from_utf8(two.bytes.clone()).unwrap();
    let changed = text.replace("a.example", "b.example");
    assert_ne!(changed, text);
    assert_eq!(read(2, changed.as_bytes(), None), Err(Wrong::Changed));
    assert_eq!(read(2, &two.bytes[1..], None), Err(Wrong::Changed));
    assert_eq!(read(2, b"", None), Err(Wrong::Changed));
}

#[test]
fn an_erasure_that_is_done_again_is_the_same_at_another_time() {
    let keys = keys(1);
    let one = erased(&keys);
    let later = Erased {
        erased_at: Timestamp(9),
        ..one.clone()
    };
    assert!(one.is_same(&later));
    let more = Erased {
        orders: [1, 2, 3].into(),
        ..later
    };
    assert!(!one.is_same(&more));
}
