//! Signing secrets: yours, and no more of them than a rotation needs.

use common::config::{Config, DEVELOPMENT_PAYMENT_SECRET, DEVELOPMENT_STOREFRONT_SECRET, Settings};

use super::Finding;

/// A shorter one could be guessed.
const SHORT: usize = 16;

pub fn look(settings: &Settings, config: &Config) -> Vec<Finding> {
    let storefront = Config::storefront_secrets(settings).unwrap_or_default();
    let payment = Config::payment_secrets(settings).unwrap_or_default();
    vec![
        signing(
            "storefront secret",
            "STOREFRONT_WEBHOOK_SECRET",
            &storefront,
        ),
        signing("payment secret", "PAYMENT_WEBHOOK_SECRET", &payment),
        key(config),
    ]
}

fn signing(check: &'static str, setting: &str, secrets: &[String]) -> Finding {
    let is_public = |secret: &String| {
        secret == DEVELOPMENT_STOREFRONT_SECRET || secret == DEVELOPMENT_PAYMENT_SECRET
    };
    if secrets.iter().any(is_public) {
        return Finding::warning(
            check,
            "the public development secret: anyone could sign with it",
            &format!("Right for a try on this machine. Otherwise set {setting} to the provider's."),
        );
    }
    if secrets.iter().any(|secret| secret.len() < SHORT) {
        return Finding::warning(
            check,
            format!("set, and shorter than {SHORT} characters"),
            &format!("Make a longer one at the provider, and rotate {setting}."),
        );
    }
    match secrets.len() {
        0 | 1 => Finding::ok(check, "set"),
        many => Finding::warning(
            check,
            format!("{many} of them: a rotation is under way, or was not ended"),
            &format!(
                "When waybill_old_secret_matches_total no longer grows, keep only the first of \
                 {setting}."
            ),
        ),
    }
}

fn key(config: &Config) -> Finding {
    match config.privacy.key {
        Some(_) => Finding::ok("privacy key", "set"),
        None => Finding::ok("privacy key", "not set: the database's own is used"),
    }
}
