//! Webhook signatures, tested with vectors that were checked with the providers' own libraries,
//! with every single flipped bit, repeated headers, clocks that differ, and rotated secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::signature::{
    MAX_V1, PaymentSignature, Secrets, Signature, SignatureError, StorefrontSignature, payment,
    sign_payment, sign_storefront, storefront,
};
use proptest::prelude::*;
use serde_json::Value;

const NOW: i64 = 1_700_000_000;
const SECRET: &str = "whsec_test_secret";
const BODY: &[u8] = br#"{"id":"evt_1"}"#;

/// Our decisions for vectors whose recommendation is open or is not followed, with the reason.
const PAYMENT_DECISIONS: &[(&str, &str)] = &[
    (
        "uppercase_hex",
        "either: accepted, the digest is the same 32 bytes",
    ),
    (
        "trailing_comma",
        "either: the stricter, an empty element is malformed",
    ),
    (
        "leading_comma",
        "either: the stricter, an empty element is malformed",
    ),
    (
        "unknown_flag_without_equals",
        "either: the stricter, an element is key=value",
    ),
    (
        "pair_with_two_equals",
        "either: the stricter, an element has one `=`",
    ),
    (
        "t_leading_zero_signed_normalised",
        "either: the stricter, one number has one text",
    ),
    (
        "t_milliseconds",
        "decide: the tolerance holds both ways, this is far in the future",
    ),
    ("future_301", "decide: the tolerance holds both ways"),
    ("future_1_day", "decide: the tolerance holds both ways"),
];

const STOREFRONT_DECISIONS: &[(&str, &str)] = &[
    (
        "trailing_newline",
        "no HTTP parser lets it through; here it is not base64",
    ),
    (
        "leading_space",
        "HTTP parsers strip it; here it is not base64",
    ),
    (
        "empty_body",
        "decide: rightly signed; refused later, as it is not JSON",
    ),
    (
        "invalid_utf8_body",
        "accept signature: rightly signed; refused later, as it is not JSON",
    ),
];

fn secrets(secrets: &[&str]) -> Secrets {
    Secrets::new(secrets.iter().map(ToString::to_string))
}

fn storefront_once(secret: &str, header: &[u8], body: &[u8]) -> Result<usize, SignatureError> {
    storefront(&secrets(&[secret]), [header], body)
}

fn payment_once(header: impl AsRef<[u8]>, body: &[u8]) -> Result<usize, SignatureError> {
    payment(&secrets(&[SECRET]), [header.as_ref()], body, NOW, 300)
}

fn v1_of(secret: &str, timestamp: i64, body: &[u8]) -> String {
    let header = sign_payment(secret, timestamp, body);
    header.split_once("v1=").expect("a v1").1.to_owned()
}

/// Runs each vector of a fixture. Names those that end otherwise than expected, and those that
/// differ from the recommendation without a decision above.
fn check_vectors(
    fixture: &str,
    count: usize,
    decisions: &[(&str, &str)],
    verify: impl Fn(&Value, &[u8]) -> Result<usize, SignatureError>,
) {
    let fixture: Value = serde_json::from_str(fixture).expect("the fixture is JSON");
    let vectors = fixture["vectors"].as_array().expect("an array");
    assert_eq!(vectors.len(), count);
    let mut wrong = Vec::new();
    let mut decided = Vec::new();
    for vector in vectors {
        let text = |key: &str| vector[key].as_str().expect("a string");
        let body = STANDARD.decode(text("body_b64")).expect("base64");
        let verdict = verify(vector, &body);
        let verdict_text = if verdict.is_ok() { "accept" } else { "reject" };
        if verdict_text != text("expected") {
            wrong.push(format!("{}: {verdict:?}", text("name")));
        }
        if text("expected") != text("suggested") {
            decided.push(text("name"));
        }
    }
    assert!(wrong.is_empty(), "not as expected: {wrong:#?}");
    decided.sort_unstable();
    let mut recorded: Vec<_> = decisions.iter().map(|(name, _)| *name).collect();
    recorded.sort_unstable();
    assert_eq!(decided, recorded);
}

#[test]
fn every_payment_vector_ends_as_expected() {
    check_vectors(
        include_str!("../fixtures/signature/payment.json"),
        68,
        PAYMENT_DECISIONS,
        |vector, body| {
            payment(
                &secrets(&[vector["secret"].as_str().expect("a string")]),
                [vector["header"].as_str().expect("a string").as_bytes()],
                body,
                vector["now"].as_i64().expect("a number"),
                vector["tolerance"].as_u64().expect("a number"),
            )
        },
    );
}

#[test]
fn every_storefront_vector_ends_as_expected() {
    check_vectors(
        include_str!("../fixtures/signature/storefront.json"),
        27,
        STOREFRONT_DECISIONS,
        |vector, body| {
            storefront(
                &secrets(&[vector["secret"].as_str().expect("a string")]),
                vector["header"].as_str().map(str::as_bytes),
                body,
            )
        },
    );
}

#[test]
fn known_answers_are_reproduced() {
    assert_eq!(
        sign_storefront("Convoy", b"Test Payload Body"),
        "16FUVH58NeMcTIIOICN2UJOcPTTa4TbjCndXymGrtM8="
    );
    assert_eq!(
        sign_storefront("test_secret_key", br#"{"foo": "bar"}"#),
        "B23tXN681gZ0qIWNRrgtzBE9XSDo5yaUu6wfmhu3a7g="
    );
    assert_eq!(
        sign_payment(
            SECRET,
            NOW,
            b"{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}"
        ),
        "t=1700000000,v1=4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150"
    );
}

#[test]
fn a_flipped_bit_of_the_body_is_refused() {
    let storefront_header = sign_storefront(SECRET, BODY);
    let payment_header = sign_payment(SECRET, NOW, BODY);
    for body in each_flipped_bit(BODY) {
        assert_eq!(
            storefront_once(SECRET, storefront_header.as_bytes(), &body),
            Err(SignatureError::Mismatch)
        );
        assert_eq!(
            payment_once(&payment_header, &body),
            Err(SignatureError::Mismatch)
        );
    }
}

#[test]
fn a_flipped_bit_of_the_digest_is_refused() {
    let base64 = sign_storefront(SECRET, BODY);
    for digest in each_flipped_bit(&STANDARD.decode(base64).expect("base64")) {
        assert_eq!(
            storefront_once(SECRET, STANDARD.encode(digest).as_bytes(), BODY),
            Err(SignatureError::Mismatch)
        );
    }
    let hex = hex::decode(v1_of(SECRET, NOW, BODY)).expect("hex");
    for digest in each_flipped_bit(&hex) {
        let header = format!("t={NOW},v1={}", hex::encode(digest));
        assert_eq!(payment_once(header, BODY), Err(SignatureError::Mismatch));
    }
}

#[test]
fn a_flipped_bit_of_the_header_text_is_refused() {
    let header = sign_storefront(SECRET, BODY);
    for flipped in each_flipped_bit(header.as_bytes()) {
        assert!(
            storefront_once(SECRET, &flipped, BODY).is_err(),
            "{flipped:?}"
        );
    }
    let header = sign_payment(SECRET, NOW, BODY);
    let v1_at = header.find("v1=").expect("a v1") + 3;
    for flipped in each_flipped_bit(header.as_bytes()) {
        let same_digest = flipped[..v1_at] == header.as_bytes()[..v1_at]
            && flipped[v1_at..].eq_ignore_ascii_case(&header.as_bytes()[v1_at..]);
        assert_eq!(
            payment_once(&flipped, BODY).is_ok(),
            same_digest,
            "{:?}",
            String::from_utf8_lossy(&flipped)
        );
    }
}

#[test]
fn truncated_and_lengthened_signatures_are_refused() {
    let storefront_header = sign_storefront(SECRET, BODY);
    let payment_header = sign_payment(SECRET, NOW, BODY);
    for length in 0..storefront_header.len() {
        let cut = &storefront_header.as_bytes()[..length];
        assert_eq!(
            storefront_once(SECRET, cut, BODY),
            Err(SignatureError::Malformed)
        );
    }
    for length in 0..payment_header.len() {
        let cut = &payment_header.as_bytes()[..length];
        assert_eq!(payment_once(cut, BODY), Err(SignatureError::Malformed));
    }
    for more in ["=", "A", "A=", "AAAA", " ", "00"] {
        let longer = format!("{storefront_header}{more}");
        assert_eq!(
            storefront_once(SECRET, longer.as_bytes(), BODY),
            Err(SignatureError::Malformed)
        );
        let longer = format!("{payment_header}{more}");
        assert_eq!(payment_once(longer, BODY), Err(SignatureError::Malformed));
    }
}

#[test]
fn the_tolerance_holds_both_ways_and_to_the_second() {
    let verify = |timestamp: i64, tolerance: u64| {
        let header = sign_payment(SECRET, timestamp, BODY);
        payment(
            &secrets(&[SECRET]),
            [header.as_bytes()],
            BODY,
            NOW,
            tolerance,
        )
    };
    assert_eq!(verify(NOW - 301, 300), Err(SignatureError::Stale));
    assert_eq!(verify(NOW - 300, 300), Ok(0));
    assert_eq!(verify(NOW, 300), Ok(0));
    assert_eq!(verify(NOW + 300, 300), Ok(0));
    assert_eq!(verify(NOW + 301, 300), Err(SignatureError::Early));
    assert_eq!(verify(0, 0), Ok(0));
    assert_eq!(verify(i64::MAX, 0), Ok(0));
    assert_eq!(verify(i64::MAX, 300), Err(SignatureError::Early));
    assert_eq!(verify(i64::MAX, u64::MAX), Ok(0));
}

#[test]
fn a_wrong_signature_is_called_wrong_before_it_is_called_stale() {
    let header = sign_payment("another", NOW - 301, BODY);
    assert_eq!(payment_once(header, BODY), Err(SignatureError::Mismatch));
}

#[test]
fn a_second_timestamp_that_differs_is_refused_whichever_was_signed() {
    let v1 = v1_of(SECRET, NOW, BODY);
    let other = NOW + 1;
    for header in [
        format!("t={NOW},t={other},v1={v1}"),
        format!("t={other},t={NOW},v1={v1}"),
        format!("t={NOW},v1={v1},t={other}"),
    ] {
        assert_eq!(payment_once(header, BODY), Err(SignatureError::Conflicting));
    }
    assert_eq!(
        payment_once(format!("t={NOW},v1={v1},t={NOW}"), BODY),
        Ok(0)
    );
}

#[test]
fn a_v0_alone_is_refused_even_when_it_is_right() {
    let v1 = v1_of(SECRET, NOW, BODY);
    assert_eq!(
        payment_once(format!("t={NOW},v0={v1}"), BODY),
        Err(SignatureError::Malformed)
    );
}

#[test]
fn a_thousand_v1_values_count_for_no_more_than_the_first_few() {
    let right = v1_of(SECRET, NOW, BODY);
    let wrong = v1_of("another", NOW, BODY);
    let header_with_right_at = |place: usize| {
        let values: Vec<_> = (0..1000)
            .map(|index| format!("v1={}", if index == place { &right } else { &wrong }))
            .collect();
        format!("t={NOW},{}", values.join(","))
    };
    assert_eq!(payment_once(header_with_right_at(0), BODY), Ok(0));
    assert_eq!(payment_once(header_with_right_at(MAX_V1 - 1), BODY), Ok(0));
    assert_eq!(
        payment_once(header_with_right_at(MAX_V1), BODY),
        Err(SignatureError::Mismatch)
    );
    assert_eq!(
        payment_once(header_with_right_at(999), BODY),
        Err(SignatureError::Mismatch)
    );
}

#[test]
fn junk_v1_values_do_not_use_up_the_bound() {
    let right = v1_of(SECRET, NOW, BODY);
    let header = format!("t={NOW},{}v1={right}", "v1=potato,".repeat(100));
    assert_eq!(payment_once(header, BODY), Ok(0));
}

#[test]
fn a_repeated_header_counts_only_when_its_values_agree() {
    let right = sign_storefront(SECRET, BODY);
    let wrong = sign_storefront("another", BODY);
    let verify = |values: &[&String]| {
        let values = values.iter().map(|value| value.as_bytes());
        storefront(&secrets(&[SECRET]), values, BODY)
    };
    assert_eq!(verify(&[]), Err(SignatureError::Missing));
    assert_eq!(verify(&[&right, &right]), Ok(0));
    assert_eq!(verify(&[&right, &wrong]), Err(SignatureError::Conflicting));
    assert_eq!(verify(&[&wrong, &right]), Err(SignatureError::Conflicting));
    assert_eq!(
        verify(&[&right, &right, &wrong]),
        Err(SignatureError::Conflicting)
    );

    let right = sign_payment(SECRET, NOW, BODY);
    let later = sign_payment(SECRET, NOW + 1, BODY);
    let verify = |values: &[&String]| {
        let values = values.iter().map(|value| value.as_bytes());
        payment(&secrets(&[SECRET]), values, BODY, NOW, 300)
    };
    assert_eq!(verify(&[]), Err(SignatureError::Missing));
    assert_eq!(verify(&[&right, &right]), Ok(0));
    assert_eq!(verify(&[&right, &later]), Err(SignatureError::Conflicting));
}

#[test]
fn any_secret_of_a_rotation_verifies_and_is_named() {
    let rotation = secrets(&["new", "old"]);
    for (index, secret) in ["new", "old"].into_iter().enumerate() {
        let header = sign_storefront(secret, BODY);
        assert_eq!(storefront(&rotation, [header.as_bytes()], BODY), Ok(index));
        let header = sign_payment(secret, NOW, BODY);
        assert_eq!(
            payment(&rotation, [header.as_bytes()], BODY, NOW, 300),
            Ok(index)
        );
    }
    let header = sign_storefront("older", BODY);
    assert_eq!(
        storefront(&rotation, [header.as_bytes()], BODY),
        Err(SignatureError::Mismatch)
    );
}

#[test]
fn a_sender_that_rolls_its_secret_signs_with_both() {
    let (new, old) = (v1_of("new", NOW, BODY), v1_of("old", NOW, BODY));
    let header = format!("t={NOW},v1={new},v1={old}");
    for ours in ["new", "old"] {
        let verified = payment(&secrets(&[ours]), [header.as_bytes()], BODY, NOW, 300);
        assert_eq!(verified, Ok(0));
    }
}

#[test]
fn the_same_signature_twice_in_one_header_is_accepted_as_once() {
    let v1 = v1_of(SECRET, NOW, BODY);
    let header = format!("t={NOW},v1={v1},v1={v1}");
    assert_eq!(payment_once(&header, BODY), Ok(0));
    let header = format!("t={NOW},v1={v1},=");
    assert_eq!(payment_once(&header, BODY), Err(SignatureError::Malformed));
}

#[test]
fn a_signature_verifies_by_the_rules_of_its_scheme_and_names_its_secret() {
    let secrets = secrets(&["newer", SECRET]);
    let verified = |signature: &Signature<'_>, body: &[u8], now: i64| {
        signature.verify(&secrets, body, now, 300)
    };
    let body = sign_storefront(SECRET, BODY);
    let body = StorefrontSignature::read([body.as_bytes()]).unwrap();
    assert_eq!(
        STANDARD.encode(body.digest()),
        sign_storefront(SECRET, BODY)
    );
    let body = Signature::Body(body);
    let timed = sign_payment(SECRET, NOW, BODY);
    let timed = Signature::Timed(PaymentSignature::read([timed.as_bytes()]).unwrap());
    for signature in [&body, &timed] {
        assert_eq!(verified(signature, BODY, NOW), Ok(1));
        let other = verified(signature, b"{}", NOW);
        assert_eq!(other, Err(SignatureError::Mismatch));
    }
    assert_eq!(verified(&body, BODY, NOW + 301), Ok(1));
    let late = verified(&timed, BODY, NOW + 301);
    assert_eq!(late, Err(SignatureError::Stale));
}

#[test]
fn a_secret_is_never_shown() {
    let shown = format!("{:?}", secrets(&["hunter2-hunter2", "old-hunter2"]));
    assert_eq!(shown, "Secrets(2 hidden)");
}

#[test]
#[should_panic(expected = "at least one signing secret")]
fn no_secret_at_all_is_not_accepted() {
    Secrets::new([]);
}

#[test]
#[should_panic(expected = "a signing secret is empty")]
fn an_empty_secret_is_not_accepted() {
    secrets(&["new", ""]);
}

#[test]
fn each_reason_has_a_label_of_its_own() {
    let reasons = [
        SignatureError::Missing,
        SignatureError::Malformed,
        SignatureError::Conflicting,
        SignatureError::Mismatch,
        SignatureError::Stale,
        SignatureError::Early,
    ];
    let labels: std::collections::BTreeSet<_> =
        reasons.iter().map(SignatureError::into_str).collect();
    assert_eq!(labels.len(), reasons.len());
}

proptest! {
    #[test]
    fn what_is_signed_verifies(
        secret in "[ -~]{1,100}",
        body in prop::collection::vec(any::<u8>(), 0..300),
        timestamp in 0..i64::MAX,
    ) {
        let header = sign_storefront(&secret, &body);
        prop_assert_eq!(storefront_once(&secret, header.as_bytes(), &body), Ok(0));
        let header = sign_payment(&secret, timestamp, &body);
        let verified = payment(&secrets(&[&secret]), [header.as_bytes()], &body, timestamp, 1);
        prop_assert_eq!(verified, Ok(0));
    }

    #[test]
    fn no_header_bytes_are_accepted_by_chance_or_panic(
        header in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert!(storefront_once(SECRET, &header, BODY).is_err());
        prop_assert!(payment_once(&header, BODY).is_err());
    }

    #[test]
    fn no_header_of_the_right_letters_is_accepted_by_chance_or_panics(
        header in "([tv][01]?=?[0-9a-fA-F+/=, ]{0,70},?){0,5}",
    ) {
        prop_assert!(storefront_once(SECRET, header.as_bytes(), BODY).is_err());
        prop_assert!(payment_once(&header, BODY).is_err());
    }
}

fn each_flipped_bit(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

/// How long a comparison takes cannot be measured reliably, so this reads the function that every HMAC
/// of a delivery passes through.
#[test]
fn digests_are_compared_in_constant_time() {
    let source = include_str!("../../src/signature.rs");
    let (_, body) = source.split_once("fn matching(").unwrap();
    let (body, _) = body.split_once("\n    }\n").unwrap();
    let code: Vec<&str> = body
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    assert!(code.contains(".ct_eq("), "{code}");
    for other in [" == ", " != ", ".contains(", ".eq(", "starts_with"] {
        assert!(!code.contains(other), "{other}: {code}");
    }
}
