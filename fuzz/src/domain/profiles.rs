//! Profiles: the settings that connect a provider. What is accepted can be written down and read again, and a secret
//! that is accepted signs and verifies.

use std::fmt::Write as _;

use domain::endpoint::{Secret, signatures};
use domain::job::Source;
use domain::profile::{
    PAYMENTS, PaymentProfile, STOREFRONTS, StorefrontProfile, clue, is_shop, names, read_headers,
    shop_of,
};
use domain::signature::{Secrets, StandardSignature, sign_standard};
use domain::time::Timestamp;

use super::input::{Input, text};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte() % 4;
    let rest = text(input.rest());
    match choice {
        0 => secret(rest),
        1 => topics(rest),
        _ => headers(rest),
    }
}

fn headers(given: &str) {
    let headers = match read_headers(given) {
        Ok(headers) => headers,
        Err(wrong) => {
            assert!(!wrong.to_string().is_empty());
            return;
        }
    };
    let is_name = |name: &String| {
        let fits =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        (1..=100).contains(&name.len()) && name.bytes().all(fits)
    };
    let optional = [
        ("id", &headers.id),
        ("topic", &headers.topic),
        ("shop", &headers.shop),
        ("version", &headers.api_version),
    ];
    let mut written = format!("signature={}", headers.signature);
    assert!(is_name(&headers.signature) && headers.topic.is_some());
    for (key, name) in optional {
        if let Some(name) = name {
            assert!(is_name(name));
            let _ = write!(written, ", {key} = {name}");
        }
    }
    assert_eq!(read_headers(&written), Ok(headers));
}

fn topics(theirs: &str) {
    for profile in STOREFRONTS {
        let ours = profile.topic(theirs.to_owned());
        assert_eq!(profile.topic(ours.clone()), ours);
        let is_known = profile.topics.iter().any(|(name, _)| *name == theirs);
        assert_eq!(ours != theirs, is_known);
    }
    let shop = shop_of(theirs);
    assert!(theirs.contains(shop) && !shop.contains(['?', '#']));
    assert!(!is_shop(shop) || shop_of(&format!("https://{shop}/?{theirs}")) == shop);
    let named = StorefrontProfile::named(theirs).map(|it| it.name);
    let payment = PaymentProfile::named(theirs).map(|it| it.name);
    assert_eq!(names().contains(&theirs), named.or(payment).is_some());
    for source in [Source::Storefront, Source::Payment, Source::Internal] {
        for chosen in STOREFRONTS
            .iter()
            .map(|it| it.name)
            .chain(PAYMENTS.iter().map(|it| it.name))
        {
            let found = clue(source, chosen, |header| theirs.contains(header));
            assert!(found.is_none_or(|clue| theirs.contains(clue.header)));
            assert!(found.is_none() || source != Source::Internal);
        }
    }
}

fn secret(given: &str) {
    const ID: &str = "msg_1";
    let verify = |secrets: &Secrets, list: &str| {
        let lists = [list.as_bytes()];
        let signature = StandardSignature::read(lists, [ID.as_bytes()], [&b"7"[..]])?;
        signature.verify(secrets, b"{}", 7, 1)
    };
    if let Ok(secrets) = Secrets::standard([given.to_owned()]) {
        let signed = sign_standard(given, ID, 7, b"{}");
        assert_eq!(signed.is_none(), given.starts_with("whpk_"));
        if let Some(signed) = signed {
            assert_eq!(verify(&secrets, &signed), Ok(0));
        }
        let fingerprints = secrets.fingerprints();
        assert!(fingerprints.len() == 1 && fingerprints[0].len() == 8);
    }
    if let Ok(secret) = given.parse::<Secret>() {
        assert_eq!(secret.reveal(), given);
        let secrets = Secrets::standard([given.to_owned()]).expect("ours is one of the standard");
        let signed = signatures(&[secret], ID, Timestamp(7000), b"{}");
        assert_eq!(verify(&secrets, &signed), Ok(0));
    }
}
