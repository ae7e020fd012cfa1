//! Tests of what is private in `src/commands/connect.rs`.

use super::*;

fn guided(provider: &str, given: &[(&'static str, &str)]) -> Guide {
    let mut settings = Settings::defaults();
    for (name, value) in given {
        settings.set(name, *value);
    }
    guide(&settings, Asked::read(provider, false).unwrap()).unwrap()
}

fn warns(guide: &Guide, of: &str) -> bool {
    guide.warnings.iter().any(|it| it.warning.contains(of))
}

const WELL: [(&str, &str); 4] = [
    ("PUBLIC_URL", "https://hooks.example"),
    ("STOREFRONT_WEBHOOK_SECRET", "a secret of the shop's own"),
    (
        "PAYMENT_WEBHOOK_SECRET",
        "whsec_a secret of the payments' own",
    ),
    ("STOREFRONT_SHOPS", "shop.example"),
];

fn well(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&WELL, more].concat()
}

#[test]
fn every_provider_has_a_page_a_secret_and_topics() {
    for name in names() {
        let guide = guided(name, &[]);
        assert!(!guide.page.is_empty() && !guide.topics.is_empty(), "{name}");
        for wanted in &guide.settings {
            assert!(
                wanted.value.is_some() != wanted.what.is_some(),
                "{name} {wanted:?}"
            );
        }
    }
    assert!(Asked::read("shopify", true).is_err());
    let payment = Asked::read("generic", true).unwrap();
    assert_eq!(payment.path, "/api/webhooks/payment");
}

#[test]
fn the_topics_are_those_of_the_provider_that_something_is_done_with() {
    let topics = |name| guided(name, &[]).topics;
    assert_eq!(topics("shopify").len(), 9);
    assert!(topics("shopify").contains(&"customers/redact"));
    assert_eq!(
        topics("woocommerce"),
        [
            "order.created",
            "order.updated",
            "order.restored",
            "order.deleted"
        ]
    );
    assert!(topics("standard-webhooks").contains(&"shop.redact"));
    let stripe = topics("stripe");
    assert_eq!(stripe.len(), 21);
    assert!(stripe.contains(&"charge.dispute.created") && stripe.contains(&"refund.failed"));
    assert!(stripe.iter().all(|kind| !kind.starts_with("v1.")));
}

#[test]
fn the_url_has_the_real_port_until_an_address_is_set() {
    let guide = guided("generic", &[("LISTEN_ADDR", "0.0.0.0:9123")]);
    assert_eq!(guide.url, "http://127.0.0.1:9123/api/webhooks/storefront");
    assert!(warns(&guide, "PUBLIC_URL is not set"));
    let local = [
        ("PUBLIC_URL", "http://127.0.0.1:8000"),
        ("LISTEN_ADDR", "127.0.0.1:9123"),
    ];
    let guide = guided("generic", &local);
    assert!(warns(&guide, "which only this machine can reach"));
    assert!(warns(&guide, "another port than LISTEN_ADDR"));
    let guide = guided("stripe", &[("PUBLIC_URL", "https://hooks.example/")]);
    assert_eq!(guide.url, "https://hooks.example/api/webhooks/payment");
    assert!(!warns(&guide, "reach"));
}

#[test]
fn each_thing_that_would_surprise_has_its_warning_and_is_silent_once_it_is_mended() {
    let bare = guided("shopify", &[]);
    assert!(warns(&bare, "STOREFRONT_PROVIDER is generic"), "{bare:?}");
    assert!(warns(&bare, "STOREFRONT_SHOPS: "), "{bare:?}");
    assert!(warns(&bare, "STOREFRONT_WEBHOOK_SECRET: "), "{bare:?}");
    assert!(bare.settings.iter().all(|it| !it.is_set), "{bare:?}");
    let well = guided("shopify", &well(&[("STOREFRONT_PROVIDER", "shopify")]));
    assert!(well.settings.iter().all(|it| it.is_set), "{well:?}");
    let known: Vec<&str> = well.warnings.iter().map(|it| it.warning.as_str()).collect();
    assert_eq!(known, [well_known("shopify")], "{well:?}");
}

fn well_known(name: &str) -> &'static str {
    let profile = StorefrontProfile::named(name).unwrap();
    profile.setup.beware.unwrap()
}

#[test]
fn a_provider_that_is_answered_as_it_likes_is_not_warned_of() {
    let guide = guided(
        "woocommerce",
        &well(&[("STOREFRONT_PROVIDER", "woocommerce")]),
    );
    assert!(!warns(&guide, "409"), "200 is its default: {guide:?}");
    let asked = [
        ("STOREFRONT_PROVIDER", "woocommerce"),
        ("WEBHOOK_DUPLICATE_STATUS", "409"),
    ];
    assert!(warns(&guided("woocommerce", &well(&asked)), "409"));
    let generic = guided("generic", &well(&[]));
    assert!(generic.warnings.is_empty(), "{generic:?}");
}

#[test]
fn what_the_settings_lack_for_the_provider_is_said_although_it_is_not_set_yet() {
    let guide = guided("headers", &well(&[]));
    assert!(warns(&guide, "STOREFRONT_HEADERS is missing"), "{guide:?}");
    let guide = guided("standard-webhooks", &well(&[]));
    assert!(
        warns(&guide, "STOREFRONT_WEBHOOK_SECRET"),
        "no whsec_: {guide:?}"
    );
    let secret = (
        "STOREFRONT_WEBHOOK_SECRET",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    );
    let two = ("STOREFRONT_SHOPS", "a.example,b.example");
    let guide = guided("standard-webhooks", &well(&[secret, two]));
    assert!(warns(&guide, "no header names the shop"), "{guide:?}");
    assert!(warns(&guided("stripe", &well(&[])), "thin events"));
    let development = guided("generic", &[("PUBLIC_URL", "https://hooks.example")]);
    assert!(
        warns(&development, "development secrets are refused"),
        "{development:?}"
    );
}

#[test]
fn no_secret_is_in_what_is_printed() {
    let guide = guided("stripe", &well(&[("PAYMENT_PROVIDER", "stripe")]));
    let printed = format!("{}{}", render(&guide), terminal::json(&guide).unwrap());
    for (name, value) in WELL {
        assert_eq!(printed.contains(value), name == "PUBLIC_URL", "{name}");
    }
}

#[test]
fn it_fits_a_terminal_of_eighty_columns() {
    for name in names() {
        for line in render(&guided(name, &[])).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn every_protection_that_is_looked_at_exists() {
    for name in names() {
        for wanted in Asked::read(name, false).unwrap().protections {
            assert!(PROTECTIONS.iter().any(|it| it.name == wanted), "{wanted}");
        }
    }
}

#[test]
fn a_provider_that_has_connections_needs_no_settings_of_its_own() {
    let given = [
        ("PUBLIC_URL", "https://hooks.example"),
        ("SECRETS_KEY", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
    ];
    let mut guide = guided("shopify", &given);
    assert!(warns(&guide, "STOREFRONT_PROVIDER is") && guide.settings.len() > 1);
    assert!(render(&guide).contains("waybill connections add"));
    guide.connect(vec!["shop-a".to_owned(), "shop-b".to_owned()]);
    assert_eq!(guide.settings.len(), 1);
    assert!(!warns(&guide, "STOREFRONT_"), "{guide:?}");
    let text = render(&guide);
    for name in ["shop-a", "shop-b"] {
        let address = format!("https://hooks.example/api/webhooks/storefront/{name} ({name})");
        assert!(text.contains(&address), "{text}");
    }
}
