//! Says which processes need which of the secrets that are set, and checks that no more signing secrets are set than a
//! rotation needs.

use config::{Config, Readers, Settings};

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
    let rotations = storefront.into_iter().chain(payment);
    readers(settings).chain(rotations).collect()
}

/// The secrets that are set, by the processes that read them.
fn readers(settings: &Settings) -> impl Iterator<Item = Finding> {
    Readers::ALL.into_iter().filter_map(|readers| {
        let secrets = readers.secrets().map(|secret| secret.name);
        let set: Vec<&str> = secrets
            .filter(|name| settings.get(name).is_some())
            .collect();
        let found = format!("read by {}: {}", readers.name(), set.join(", "));
        (!set.is_empty()).then(|| Finding::ok("secrets", found))
    })
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
