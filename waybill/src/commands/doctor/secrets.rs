//! Checks that no more signing secrets are set than a rotation needs.

use config::{Config, Settings};

use super::Finding;

pub fn look(settings: &Settings) -> Vec<Finding> {
    let storefront = Config::storefront_secrets(settings).unwrap_or_default();
    let payment = Config::payment_secrets(settings).unwrap_or_default();
    let storefront = rotation(
        "storefront rotation",
        "STOREFRONT_WEBHOOK_SECRET",
        &storefront,
    );
    let payment = rotation("payment rotation", "PAYMENT_WEBHOOK_SECRET", &payment);
    storefront.into_iter().chain(payment).collect()
}

fn rotation(check: &'static str, setting: &str, secrets: &[String]) -> Option<Finding> {
    let found = format!(
        "{} secrets: a rotation is under way, or was not ended",
        secrets.len()
    );
    let advice = format!(
        "When `waybill secrets list` says that the former one verifies nothing any more, keep only the first of {setting}."
    );
    (secrets.len() > 1).then(|| Finding::warning(check, found, &advice))
}
