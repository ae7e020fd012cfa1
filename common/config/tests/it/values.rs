//! How settings are shown, compared between processes, and refused.

use config::{Config, Mode, SETTINGS, Settings, Values};
use domain::job::{Queue, Source};
use domain::privacy::Keys;

#[test]
fn a_code_differs_with_the_value_the_name_and_the_key() {
    let mut settings = Settings::defaults();
    let codes =
        |settings: &Settings, key: u8| Values::of(settings).codes(&Keys::new(vec![key; 32]));
    let before = codes(&settings, 1);
    assert_eq!(before.len(), SETTINGS.len() - 10);
    assert_ne!(before["QR_BORDER"], codes(&settings, 2)["QR_BORDER"]);
    assert_ne!(before["STOREFRONT_SHOPS"], before["TRUSTED_PROXIES"]);
    settings.set("QR_BORDER", "7");
    let after = codes(&settings, 1);
    let differ = before.iter().filter(|(name, code)| after[**name] != **code);
    let differ: Vec<_> = differ.map(|(name, _)| *name).collect();
    assert_eq!(differ, ["QR_BORDER"]);
    settings.stand_in("PAYMENT_API_KEY", "sk_test");
    assert_eq!(codes(&settings, 1), after, "the sandbox's are not given");
    assert!(!format!("{:?}", Values::of(&settings)).contains("sk_test"));
}

/// Whoever asks for help sends what `waybill config` prints.
#[test]
fn an_address_is_shown_without_what_stands_before_its_host_however_it_was_typed() {
    for (given, shown) in [
        (
            "postgres://waybill:canary@db.example/shop",
            "postgres://***@db.example/shop",
        ),
        (
            "postgres:/waybill:canary@db.example/shop",
            "postgres:/***@db.example/shop",
        ),
        (
            "postgres//waybill:canary@db.example/shop",
            "postgres//waybill:***@db.example/shop",
        ),
        (
            "waybill:canary@db.example/shop",
            "waybill:***@db.example/shop",
        ),
        ("canary@db.example", "***@db.example"),
        (
            "postgres://waybill:ca:n/a@ry@db.example",
            "postgres://***@db.example",
        ),
        ("sqlite://waybill.db", "sqlite://waybill.db"),
    ] {
        for name in [
            "DATABASE_URL",
            "AMQP_URL",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "PRIVACY_EXPORT_S3_ENDPOINT",
        ] {
            let mut settings = Settings::defaults();
            settings.set(name, given);
            let setting = SETTINGS.iter().find(|it| it.name == name).unwrap();
            assert_eq!(settings.shown(setting), shown, "{name}");
        }
    }
}

/// Behind such a proxy everybody could say which address they come from, so that no limit would hold.
#[test]
fn a_network_of_everybody_is_no_trusted_proxy() {
    for (proxies, is_taken) in [
        ("10.0.0.0/8, fc00::/7", true),
        ("0.0.0.0/0", false),
        ("::/0", false),
        ("127.0.0.1, 128.0.0.0/1", false),
    ] {
        let mut settings = Settings::defaults();
        settings.set("TRUSTED_PROXIES", proxies);
        settings.set("STOREFRONT_WEBHOOK_SECRET", "a secret of the shop's own");
        settings.set("PAYMENT_WEBHOOK_SECRET", "a secret of the payments' own");
        let config = Config::load(&settings, Mode::Development);
        let mistakes = config.map(|_| ()).map_err(|wrong| wrong.to_string());
        assert_eq!(mistakes.is_ok(), is_taken, "{proxies}: {mistakes:?}");
        if let Err(mistakes) = mistakes {
            assert!(mistakes.contains("strangers"), "{mistakes}");
        }
    }
}

/// Whoever has connections needs no secret in the settings, and a public one never opens a process that others reach.
#[test]
fn where_others_reach_it_a_process_with_connections_has_no_public_secret() {
    let with = |given: &[(&'static str, &str)]| {
        let mut settings = Settings::defaults();
        for (name, value) in given {
            settings.set(name, *value);
        }
        Config::load(&settings, Mode::Development)
    };
    let key = ("SECRETS_KEY", "0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    let proxy = ("TRUSTED_PROXIES", "127.0.0.1");
    let refused = with(&[proxy]).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("public development secrets"), "{refused}");
    let at_home = with(&[key]).unwrap();
    assert!(at_home.has_public_secret(Source::Storefront));
    let reached = with(&[key, proxy]).unwrap();
    for source in [Source::Storefront, Source::Payment] {
        assert!(!reached.has_public_secret(source));
        assert!(reached.fingerprints()[&source].is_empty());
    }
    // One that is set counts, and the other one is not made up.
    let one = with(&[
        key,
        proxy,
        ("PAYMENT_WEBHOOK_SECRET", "a secret of one's own"),
    ])
    .unwrap();
    assert_eq!(one.fingerprints()[&Source::Payment].len(), 1);
    assert!(one.fingerprints()[&Source::Storefront].is_empty());
}

/// Whoever gets into a worker does not get what it does not need.
#[test]
fn a_worker_has_no_secret_that_it_does_not_read_and_starts_without_it() {
    let mut given = Settings::defaults();
    for (name, value) in [
        ("DATABASE_URL", "postgres://127.0.0.1/waybill"),
        (
            "PRIVACY_KEY",
            "a privacy key of the shop's own, long enough",
        ),
        ("STOREFRONT_API_URL", "https://storefront.example"),
        ("PAYMENT_API_URL", "https://payments.example"),
        ("GITHUB_CLIENT_ID", "an-app"),
    ] {
        given.set(name, value);
    }
    let lacking = Config::load(&given, Mode::Worker(Queue::Privacy)).unwrap();
    for (name, value) in [
        ("GITHUB_CLIENT_SECRET", "client-secret"),
        ("STOREFRONT_WEBHOOK_SECRET", "a secret of the shop's own"),
        ("PAYMENT_WEBHOOK_SECRET", "a secret of the payments' own"),
        ("STOREFRONT_API_TOKEN", "storefront-token"),
        ("PAYMENT_API_KEY", "payment-key"),
    ] {
        assert!(Config::load(&given, Mode::Production).is_err(), "{name}");
        given.set(name, value);
    }
    let all = Config::load(&given, Mode::Production).unwrap();
    assert!(all.identity.is_some() && all.storefront.api.is_some() && all.payment.api.is_some());
    let secrets = |config: &Config| config.fingerprints().into_values().flatten().count();
    assert_eq!(secrets(&all), 2);
    let worker = |queue| Config::load(&given, Mode::Worker(queue)).unwrap();
    for (config, asks) in [
        (lacking, false),
        (worker(Queue::Privacy), false),
        (worker(Queue::Endpoints), false),
        (worker(Queue::Orders), true),
        (worker(Queue::Payments), true),
    ] {
        assert_eq!(secrets(&config), 0);
        assert!(config.identity.is_none());
        assert_eq!(config.storefront.api.is_some(), asks);
        assert_eq!(config.payment.api.is_some(), asks);
    }
}

#[test]
fn a_list_has_the_new_secret_and_the_former_one_and_no_other_shops() {
    let mut settings = Settings::defaults();
    settings.set("PAYMENT_WEBHOOK_SECRET", "a payment secret");
    settings.set(
        "STOREFRONT_WEBHOOK_SECRET",
        "the new secret, the former one",
    );
    assert!(Config::load(&settings, Mode::Development).is_ok());
    let three = "the new secret, the former one, another shop's";
    settings.set("STOREFRONT_WEBHOOK_SECRET", three);
    let wrong = Config::load(&settings, Mode::Development)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(wrong.contains("waybill connections add"), "{wrong}");
    assert!(!wrong.contains("former one,"), "{wrong}");
}
