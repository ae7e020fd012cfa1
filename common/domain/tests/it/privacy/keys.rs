//! Keys of persons, and signatures of receipts.

use domain::privacy::{Asked, Keys, Person, SubjectKey, verify};
use uuid::Uuid;

#[test]
fn a_key_is_of_its_secret_shop_and_kind_alone() {
    let keys = Keys::new(vec![1; 32]);
    let one = keys.subject("a", SubjectKey::Customer(7));
    assert_eq!(one, keys.subject("a", SubjectKey::Customer(7)));
    for other in [
        keys.subject("b", SubjectKey::Customer(7)),
        keys.subject("a", SubjectKey::Order(7)),
        keys.subject("a", SubjectKey::Customer(8)),
        Keys::new(vec![2; 32]).subject("a", SubjectKey::Customer(7)),
    ] {
        assert_ne!(one, other);
    }
    let email = |text| keys.subject("a", SubjectKey::Email(text));
    assert_eq!(email("Ann@Example.com "), email("ann@example.com"));
    assert_eq!(keys.subject("a", SubjectKey::Phone("1-2")), None);
    assert_ne!(
        keys.code("x", &[b"ab", b"c"]),
        keys.code("x", &[b"a", b"bc"])
    );
}

/// Hashes that are stored must be found again by every later version. These were computed by a program of
/// another language from the definition: HMAC-SHA256 of the purpose and the parts, each after its length in 8 bytes.
#[test]
fn the_hashes_that_are_stored_are_always_the_same() {
    let keys = Keys::new(vec![1; 32]);
    for (key, hash) in [
        (
            SubjectKey::Customer(7),
            "d98850cf-1478-98c3-950a-b3c2a42f9bfe",
        ),
        (SubjectKey::Order(7), "d3040981-ebda-97cc-05d9-3026a7c3a592"),
        (
            SubjectKey::GuestOrder(7),
            "eeb59a0c-4107-bb8d-449f-b9cb8e7d8365",
        ),
        (
            SubjectKey::Email(" Ann@X.example"),
            "5168920b-d107-c20f-3103-a207ad8b4429",
        ),
        (
            SubjectKey::Phone("+49 (0)30 1234567"),
            "53870471-6328-0849-20ef-6b32457485ba",
        ),
        (
            SubjectKey::Agreement("p1"),
            "762eee24-bd32-9969-dcb3-12adad555634",
        ),
        (
            SubjectKey::Payment("pi_1"),
            "0d3076f5-085a-e8d8-d05c-21e44415808a",
        ),
        (
            SubjectKey::Payer("cus_1"),
            "4db68fef-2f4d-a93e-f63b-d9f24bec9264",
        ),
        (SubjectKey::Shop, "6c4e4ded-90a7-3321-cfd5-b98c816ca439"),
    ] {
        let found = keys.subject("a.example", key).unwrap();
        assert_eq!(found.to_string(), hash, "{key:?}");
    }
    let body = keys.body(b"{}").to_string();
    assert_eq!(body, "25cb4d99-ff8c-85ba-ed26-5e0ddbb5c8df");
    assert_eq!(
        hex::encode(keys.client("192.0.2.0/24")),
        "7275742789d720753ff23f0a3ae2d119a332f7030d28049c3fa7ad029bd940aa"
    );
    assert_eq!(
        hex::encode(keys.fingerprint()),
        "7091d234e7156d4445349108ae923b179372881392b85e1caff4bba908a8d8fb"
    );
    let ann = Person {
        id: Some(7),
        email: Some("Ann@X.example ".to_owned()),
        phone: Some("+49 30 1234567".to_owned()),
    };
    let asked = keys.asked(Uuid::nil(), &ann);
    assert_eq!(
        asked.email.as_deref(),
        Some("7a8f9a68769b88aa625fc71245cc6cdc99501fbdb83522c67f1080a06ca1d684")
    );
    assert_eq!(
        asked.phone.as_deref(),
        Some("c1460c23a6ceff1f5397c55e746a0b8ee05eb743e55969a02331cd8dbddcfb47")
    );
    assert_eq!(
        keys.asked(Uuid::nil(), &Person::default()),
        Asked::default()
    );
}

#[test]
fn a_secret_is_never_shown() {
    assert_eq!(format!("{:?}", Keys::new(b"secret".to_vec())), "Keys");
}

#[test]
fn a_receipt_is_verified_with_the_public_key_alone() {
    let keys = Keys::new(vec![1; 32]);
    let signature = keys.sign(b"done");
    assert!(verify(&keys.public(), b"done", &signature));
    assert!(!verify(&keys.public(), b"gone", &signature));
    let other = Keys::new(vec![2; 32]);
    assert!(!verify(&other.public(), b"done", &signature));
    assert!(!verify(b"no key", b"done", &signature));
}
