//! The rows of the profiles, and signatures of Standard Webhooks.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::job::Source;
use domain::privacy::Keys;
use domain::profile::{
    Bodies, DeliveryId, PAYMENTS, PaymentProfile, STOREFRONTS, Shop, StorefrontApi,
    StorefrontProfile, WrongHeaders, clue, is_shop, names, read_headers, shop_of,
    signature_headers,
};
use domain::signature::{
    Scheme, Secrets, Signature, SignatureError, StandardSignature, sign_standard,
};

/// The secret, id, time, body and signature of the scheme's own documentation.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TIME: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn secrets(secrets: &[&str]) -> Secrets {
    Secrets::standard(secrets.iter().map(ToString::to_string)).unwrap()
}

fn verified(
    secrets: &Secrets,
    signature: &str,
    id: &str,
    time: &str,
    now: i64,
) -> Result<usize, SignatureError> {
    let read = StandardSignature::read([signature.as_bytes()], [id.as_bytes()], [time.as_bytes()])?;
    read.verify(secrets, BODY, now, 300)
}

#[test]
fn the_documented_signature_of_standard_webhooks_is_ours() {
    assert_eq!(
        sign_standard(SECRET, ID, TIME, BODY).as_deref(),
        Some(SIGNATURE)
    );
    let found = verified(&secrets(&[SECRET]), SIGNATURE, ID, "1614265330", TIME);
    assert_eq!(found, Ok(0));
}

#[test]
fn any_of_several_signatures_and_secrets_verifies() {
    let older = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let both = secrets(&[older, SECRET]);
    let list = format!("v1,AAAA v1a,AAAA v2,x {SIGNATURE}");
    assert_eq!(verified(&both, &list, ID, "1614265330", TIME), Ok(1));
    let other = secrets(&[older]);
    let refused = verified(&other, &list, ID, "1614265330", TIME);
    assert_eq!(refused, Err(SignatureError::Mismatch));
}

#[test]
fn id_time_and_body_are_all_signed() {
    let secrets = secrets(&[SECRET]);
    for (id, time) in [("msg_another", "1614265330"), (ID, "1614265331")] {
        let refused = verified(&secrets, SIGNATURE, id, time, TIME);
        assert_eq!(refused, Err(SignatureError::Mismatch), "{id} {time}");
    }
    for (signature, id, time) in [
        ("", ID, "1614265330"),
        ("v1", ID, "1614265330"),
        (
            "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ID,
            "1614265330",
        ),
        (SIGNATURE, "", "1614265330"),
        (SIGNATURE, "two words", "1614265330"),
        (SIGNATURE, ID, "yesterday"),
        (SIGNATURE, ID, "01614265330"),
    ] {
        let refused = verified(&secrets, signature, id, time, TIME);
        assert_eq!(
            refused,
            Err(SignatureError::Malformed),
            "{signature} {id} {time}"
        );
    }
    let missing = StandardSignature::read([SIGNATURE.as_bytes()], [], [b"1".as_slice()]);
    assert_eq!(missing.err(), Some(SignatureError::Missing));
}

#[test]
fn a_standard_signature_is_refused_five_minutes_before_and_after_its_time() {
    let secrets = secrets(&[SECRET]);
    for (age, expected) in [
        (-301, Err(SignatureError::Early)),
        (-300, Ok(0)),
        (300, Ok(0)),
        (301, Err(SignatureError::Stale)),
    ] {
        let found = verified(&secrets, SIGNATURE, ID, "1614265330", TIME + age);
        assert_eq!(found, expected, "{age} s");
    }
}

#[test]
fn a_signature_by_ed25519_is_verified_with_the_public_key() {
    let pair = Keys::new(vec![7; 32]);
    let public = format!("whpk_{}", STANDARD.encode(pair.public()));
    let signed = [format!("{ID}.{TIME}.").as_bytes(), BODY].concat();
    let signature = format!("v1a,{}", STANDARD.encode(pair.sign(&signed)));
    let both = secrets(&[SECRET, &public]);
    assert_eq!(verified(&both, &signature, ID, "1614265330", TIME), Ok(1));
    let forged = format!("v1a,{}", STANDARD.encode(pair.sign(b"another")));
    let refused = verified(&both, &forged, ID, "1614265330", TIME);
    assert_eq!(refused, Err(SignatureError::Mismatch));
    // A public key is public: it never serves as the key of an HMAC.
    let as_hmac = sign_standard(&public.replace("whpk_", ""), ID, TIME, BODY).unwrap();
    let refused = verified(&secrets(&[&public]), &as_hmac, ID, "1614265330", TIME);
    assert_eq!(refused, Err(SignatureError::Mismatch));
}

#[test]
fn a_secret_of_standard_webhooks_is_base64_and_not_short() {
    for wrong in [
        "development-storefront-secret",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whpk_c2hvcnQ=",
    ] {
        assert!(Secrets::standard([wrong.to_owned()]).is_err(), "{wrong}");
    }
    for right in [
        SECRET,
        &SECRET["whsec_".len()..],
        &format!("{SECRET}==")[..38],
    ] {
        assert!(Secrets::standard([right.to_owned()]).is_ok(), "{right}");
    }
}

#[test]
fn each_profile_has_a_name_a_setting_and_headers_in_lower_case() {
    let mut names = BTreeSet::new();
    for profile in STOREFRONTS {
        assert!(names.insert(profile.name));
        assert_eq!(
            profile.setting,
            format!("STOREFRONT_PROVIDER={}", profile.name)
        );
        let lower = profile.headers.try_map(|name| {
            (name.to_ascii_lowercase() == **name)
                .then_some(())
                .ok_or(*name)
        });
        assert!(lower.is_ok(), "{lower:?}");
        assert!([200, 409].contains(&profile.duplicate_status));
        for (_, ours) in profile.topics {
            assert!(ours.contains('/'), "{ours}");
        }
    }
    let mut names = BTreeSet::new();
    for profile in PAYMENTS {
        assert!(names.insert(profile.name));
        assert_eq!(
            profile.setting,
            format!("PAYMENT_PROVIDER={}", profile.name)
        );
    }
}

#[test]
fn each_profile_is_found_by_its_name_alone() {
    let found = STOREFRONTS.map(|it| StorefrontProfile::named(it.name).map(|found| found.setting));
    assert_eq!(found, STOREFRONTS.map(|it| Some(it.setting)));
    let found = PAYMENTS.map(|it| PaymentProfile::named(it.name).map(|found| found.setting));
    assert_eq!(found, PAYMENTS.map(|it| Some(it.setting)));
    assert!(StorefrontProfile::named("another").is_none());
    assert!(PaymentProfile::named("another").is_none());
}

/// How the bodies are signed and read, what the header of the shop holds, the answer to a duplicate, the
/// header of the access token, how many topics have another name, and whether something is said of failures and
/// beware.
#[test]
fn each_provider_has_the_rules_of_its_documents() {
    use Bodies::{Enveloped, Plain, WooCommerce};
    use Scheme::{Body, Standard, Timed};
    use Shop::{Domain, Url};
    let rest = |token_header, names_shop| StorefrontApi::Rest {
        token_header,
        names_shop,
    };
    let ours = rest("X-Storefront-Access-Token", true);
    let shopify = rest("X-Shopify-Access-Token", false);
    let said = STOREFRONTS.map(|it| {
        let says = (it.setup.on_failures.is_some(), it.setup.beware.is_some());
        let reads = (it.scheme, it.bodies, it.shop);
        let answers = (it.duplicate_status, it.api);
        (it.name, reads, answers, it.topics.len(), says)
    });
    let known = [
        (
            "generic",
            (Body, Plain, Domain),
            (409, ours),
            0,
            (false, false),
        ),
        (
            "shopify",
            (Body, Plain, Domain),
            (200, shopify),
            0,
            (true, true),
        ),
        (
            "woocommerce",
            (Body, WooCommerce, Url),
            (200, StorefrontApi::WooCommerce),
            4,
            (true, true),
        ),
        (
            "headers",
            (Body, Plain, Domain),
            (409, ours),
            0,
            (false, false),
        ),
        (
            "standard-webhooks",
            (Standard, Enveloped, Domain),
            (200, ours),
            9,
            (true, false),
        ),
    ];
    assert_eq!(said, known);
    let beware: BTreeSet<_> = STOREFRONTS
        .iter()
        .filter_map(|it| it.setup.beware)
        .collect();
    assert_eq!(beware.len(), 2, "each is of one profile: {beware:?}");
    let pages: BTreeSet<_> = STOREFRONTS.iter().map(|it| it.setup.page).collect();
    assert_eq!(
        pages.len(),
        4,
        "those of one provider have one page: {pages:?}"
    );

    let said = PAYMENTS.map(|it| {
        let says = (it.setup.on_failures.is_some(), it.setup.beware.is_some());
        (it.name, it.scheme, it.id, it.thin_events, says)
    });
    let id = Some("webhook-id");
    let known = [
        ("generic", Timed, None, false, (false, false)),
        ("stripe", Timed, None, true, (false, true)),
        ("standard-webhooks", Standard, id, false, (true, false)),
    ];
    assert_eq!(said, known);
}

#[test]
fn topics_have_our_names_where_we_know_them() {
    let topic = |profile: &str, topic: &str| {
        let profile = StorefrontProfile::named(profile).unwrap();
        profile.topic(topic.to_owned())
    };
    assert_eq!(topic("generic", "order.created"), "order.created");
    assert_eq!(topic("shopify", "orders/create"), "orders/create");
    assert_eq!(topic("woocommerce", "order.created"), "orders/create");
    assert_eq!(topic("woocommerce", "order.restored"), "orders/updated");
    assert_eq!(topic("woocommerce", "order.deleted"), "orders/delete");
    assert_eq!(topic("woocommerce", "product.updated"), "product.updated");
    assert_eq!(topic("standard-webhooks", "orders/paid"), "orders/paid");
    assert_eq!(
        topic("standard-webhooks", "order.canceled"),
        "orders/cancelled"
    );
    let woocommerce = StorefrontProfile::named("woocommerce").unwrap();
    assert_eq!(woocommerce.delivery_id, DeliveryId::HeaderAndBody);
}

#[test]
fn a_header_of_another_profile_names_the_setting_that_would_take_it() {
    let advice = |source, chosen: &str, header: &str| {
        clue(source, chosen, |name| name == header).map(|clue| clue.advice)
    };
    let storefront = |chosen, header| advice(Source::Storefront, chosen, header);
    assert_eq!(
        storefront("generic", "x-shopify-hmac-sha256"),
        Some("STOREFRONT_PROVIDER=shopify")
    );
    assert_eq!(
        storefront("shopify", "x-storefront-hmac-sha256"),
        Some("STOREFRONT_PROVIDER=generic")
    );
    assert_eq!(
        storefront("generic", "webhook-signature"),
        Some("STOREFRONT_PROVIDER=standard-webhooks")
    );
    assert_eq!(
        storefront("generic", "stripe-signature"),
        Some("the payment provider posts to /api/webhooks/payment")
    );
    assert_eq!(storefront("shopify", "x-shopify-hmac-sha256"), None);
    assert_eq!(storefront("generic", "x-shop-hmac"), None);
    let payment = |chosen, header| advice(Source::Payment, chosen, header);
    assert_eq!(
        payment("generic", "stripe-signature"),
        Some("PAYMENT_PROVIDER=stripe")
    );
    assert_eq!(
        payment("stripe", "x-wc-webhook-signature"),
        Some("the storefront posts to /api/webhooks/storefront")
    );
}

#[test]
fn names_of_headers_of_ones_own_are_read_and_checked() {
    let headers = read_headers("signature=X-Shop-Hmac, id=x-shop-id,topic=x-topic,shop=x-shop");
    let headers = headers.unwrap();
    assert_eq!(headers.signature, "x-shop-hmac");
    assert_eq!(headers.topic.as_deref(), Some("x-topic"));
    assert_eq!(headers.shop.as_deref(), Some("x-shop"));
    assert_eq!(headers.api_version, None);
    for (text, wrong) in [
        ("signature=a", WrongHeaders::Missing("topic")),
        ("topic=a", WrongHeaders::Missing("signature")),
        ("signature", WrongHeaders::Entry("signature".to_owned())),
        ("hmac=a,topic=b", WrongHeaders::Entry("hmac=a".to_owned())),
        (
            "topic=two words",
            WrongHeaders::Name("two words".to_owned()),
        ),
        ("topic=", WrongHeaders::Name(String::new())),
        ("topic=a,topic=b", WrongHeaders::Twice("topic")),
    ] {
        assert_eq!(read_headers(text), Err(wrong), "{text}");
    }
}

#[test]
fn the_name_of_a_shop_is_its_domain_with_its_folder() {
    for (url, name) in [
        ("https://shop.example/", "shop.example"),
        ("http://shop.example:8080/en/?x=1", "shop.example:8080/en"),
        ("https://host.example/a", "host.example/a"),
        ("https://host.example/b/c/#top", "host.example/b/c"),
        ("shop.example", "shop.example"),
    ] {
        assert_eq!(shop_of(url), name);
        assert!(is_shop(name), "{name}");
    }
    for wrong in [
        "",
        "/",
        "a//b",
        "shop.example/../x",
        "shop.example/.",
        "a b",
        "a?b",
        "a/",
    ] {
        assert!(!is_shop(wrong), "{wrong}");
    }
}

#[test]
fn every_profile_is_named_once_and_its_signature_header_is_known() {
    let all = names();
    let each: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(all.len(), each.len(), "{all:?}");
    let storefronts = STOREFRONTS.iter().map(|it| (it.name, it.headers.signature));
    let payments = PAYMENTS.iter().map(|it| (it.name, it.signature));
    let headers = signature_headers();
    for (name, header) in storefronts.chain(payments) {
        assert!(each.contains(name), "{name}");
        assert!(headers.contains(header), "{header}");
    }
}

#[test]
fn a_provider_is_asked_for_its_own_names_of_what_something_is_done_with() {
    let ours = ["orders/create", "orders/updated"];
    let asked = |profile: &str| {
        let profile = StorefrontProfile::named(profile).unwrap();
        profile.subscriptions(&ours)
    };
    assert_eq!(asked("shopify"), ours);
    let of_woocommerce = asked("woocommerce");
    assert!(
        of_woocommerce.contains(&"order.created"),
        "{of_woocommerce:?}"
    );
    assert!(
        !of_woocommerce.contains(&"order.deleted"),
        "{of_woocommerce:?}"
    );
}

#[test]
fn a_header_of_the_chosen_profile_is_no_clue_and_neither_is_any_within() {
    let has_all = |_: &str| true;
    assert_eq!(clue(Source::Internal, "generic", has_all), None);
    let stripe = |name: &str| name == "stripe-signature";
    assert_eq!(clue(Source::Payment, "stripe", stripe), None);
}

#[test]
fn the_name_of_a_header_has_up_to_a_hundred_letters_digits_and_dashes() {
    let named = |name: &str| read_headers(&format!("signature={name},topic=x-topic,version=x_v"));
    let long = "x".repeat(100);
    let headers = named(&long).unwrap();
    assert_eq!(headers.signature, long);
    assert_eq!(headers.api_version.as_deref(), Some("x_v"));
    let longer = format!("{long}x");
    assert_eq!(named(&longer), Err(WrongHeaders::Name(longer)));
}

#[test]
fn a_standard_signature_says_when_it_was_made_and_has_a_digest_of_its_own() {
    let read = |signature: &'static str| {
        let read = StandardSignature::read(
            [signature.as_bytes()],
            [ID.as_bytes()],
            [b"1614265330".as_slice()],
        );
        Signature::Standard(read.unwrap())
    };
    let one = read(SIGNATURE);
    assert_eq!(one.signed_at(), Some(TIME.unsigned_abs()));
    let expected = STANDARD.decode(&SIGNATURE["v1,".len()..]).unwrap();
    assert_eq!(one.digest().as_slice(), expected);
    // Where there is no HMAC it is the first half of the signature.
    let pair = Keys::new(vec![7; 32]);
    let signed = pair.sign(b"something");
    let entry = format!("v1a,{}", STANDARD.encode(&signed));
    let headers = [entry.as_bytes()];
    let other = StandardSignature::read(headers, [ID.as_bytes()], [b"1".as_slice()]).unwrap();
    assert_eq!(Signature::Standard(other).digest(), signed[..32]);
}

#[test]
fn the_id_of_a_standard_signature_has_up_to_255_characters() {
    let reads = |length: usize| {
        let id = "i".repeat(length);
        verified(&secrets(&[SECRET]), SIGNATURE, &id, "1614265330", TIME)
    };
    assert_eq!(reads(255), Err(SignatureError::Mismatch), "it is read");
    assert_eq!(reads(256), Err(SignatureError::Malformed));
}

#[test]
fn a_key_of_standard_webhooks_has_16_bytes_or_more() {
    for (length, is_right) in [(15, false), (16, true)] {
        let secret = format!("whsec_{}", STANDARD.encode(vec![1; length]));
        assert_eq!(Secrets::standard([secret]).is_ok(), is_right, "{length}");
    }
}

#[test]
fn each_secret_has_a_short_fingerprint_of_its_own() {
    let public = format!("whpk_{}", STANDARD.encode([7; 32]));
    let both = secrets(&[SECRET, &public]);
    let both = both.fingerprints();
    assert_eq!(both.len(), 2);
    assert_ne!(both[0], both[1]);
    for fingerprint in both {
        let is_hex = |letter: char| letter.is_ascii_hexdigit();
        assert!(fingerprint.len() == 8 && fingerprint.chars().all(is_hex));
    }
    assert_eq!(secrets(&[SECRET]).fingerprints(), &both[..1]);
}
