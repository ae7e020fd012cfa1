//! Tokens and the client secret are sent only to the API of the provider where people log in.

use config::{Config, Mode, Settings};
use providers::identity::IdentityProvider;

use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET};

/// The identity provider by these settings, or what is wrong with them.
fn identity(given: &[(&'static str, &str)]) -> Result<IdentityProvider, Vec<String>> {
    let mut settings = Settings::defaults();
    settings.set("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
    settings.set("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
    settings.set("GITHUB_CLIENT_ID", "client");
    for &(name, value) in given {
        settings.set(name, value);
    }
    let config = Config::load(&settings, Mode::Production);
    config
        .map(|config| config.identity.unwrap())
        .map_err(|mistakes| mistakes.0)
}

#[test]
fn the_api_is_that_of_the_provider_where_people_log_in() {
    for (url, api_url) in [
        (None, "https://api.github.com"),
        (Some("https://github.com"), "https://api.github.com"),
        (Some("https://GitHub.com/"), "https://api.github.com"),
        (Some("https://acme.ghe.com"), "https://api.acme.ghe.com"),
        (
            Some("https://github.example"),
            "https://github.example/api/v3",
        ),
        (
            Some("https://github.example:8443/"),
            "https://github.example:8443/api/v3",
        ),
        (
            Some("https://notgithub.com"),
            "https://notgithub.com/api/v3",
        ),
    ] {
        let given: Vec<_> = url.map(|url| ("GITHUB_URL", url)).into_iter().collect();
        assert_eq!(identity(&given).unwrap().api_url, api_url, "{url:?}");
    }
    let given = [
        ("GITHUB_URL", "https://github.example"),
        ("GITHUB_API_URL", "https://api.github.example"),
    ];
    assert_eq!(
        identity(&given).unwrap().api_url,
        "https://api.github.example"
    );
}

#[test]
fn one_providers_tokens_are_never_sent_to_anothers_api() {
    let given = [
        ("GITHUB_URL", "https://github.example"),
        ("GITHUB_API_URL", "https://api.github.com"),
    ];
    let mistakes = identity(&given).unwrap_err();
    assert!(mistakes[0].starts_with("GITHUB_API_URL "), "{mistakes:?}");
    let given = [("GITHUB_API_URL", "https://github.example/api/v3")];
    let mistakes = identity(&given).unwrap_err();
    assert!(mistakes[0].starts_with("GITHUB_URL "), "{mistakes:?}");
    let through_a_proxy = [
        ("GITHUB_URL", "https://github.com"),
        ("GITHUB_API_URL", "https://proxy.example/github"),
    ];
    assert!(identity(&through_a_proxy).is_ok());
    let unverified = [
        ("GITHUB_URL", "https://github.com"),
        ("GITHUB_UNVERIFIED_EMAILS", "true"),
    ];
    let mistakes = identity(&unverified).unwrap_err();
    assert!(
        mistakes[0].starts_with("GITHUB_UNVERIFIED_EMAILS "),
        "{mistakes:?}"
    );
}

#[test]
fn only_githubs_own_tokens_are_judged_by_their_checksum_unless_it_is_said() {
    for (url, has_checksums) in [
        ("https://github.com", true),
        ("https://acme.ghe.com", true),
        ("https://github.example", false),
    ] {
        assert_eq!(
            identity(&[("GITHUB_URL", url)]).unwrap().has_checksums,
            has_checksums,
            "{url}"
        );
        let other = (!has_checksums).to_string();
        let reported = [("GITHUB_URL", url), ("GITHUB_TOKEN_CHECKSUMS", &other)];
        assert_eq!(
            identity(&reported).unwrap().has_checksums,
            !has_checksums,
            "{url}"
        );
    }
}
