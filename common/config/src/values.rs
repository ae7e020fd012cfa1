//! The values of all settings as codes, by which two processes of one installation see whether they
//! run with the same. Nobody without the installation's key learns a value from its code, not even by
//! trying all values, so the service may give the codes to everybody.

use std::collections::BTreeMap;
use std::fmt;

use domain::privacy::Keys;

use crate::{Origin, SETTINGS, Settings};

/// Settings that may differ between a service and a command that looks at it: where each listens,
/// what it logs, as what a collector knows it, and the names by which both find the same database and key.
const NOT_COMPARED: [&str; 10] = [
    "CONSOLE_ADDR",
    "CONSOLE_URL",
    "DATABASE_URL",
    "LISTEN_ADDR",
    "LOG_FORMAT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SERVICE_NAME",
    "PRIVACY_KEY",
    "RUST_LOG",
    "WORKER_LISTEN_ADDR",
];

/// The purpose of the codes, so that they are no codes of anything else.
const PURPOSE: &str = "setting";

/// What was given for each setting. Debug does not show it, because there are secrets in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, String>);

impl Values {
    pub fn of(settings: &Settings) -> Self {
        let compared = SETTINGS
            .iter()
            .filter(|setting| !NOT_COMPARED.contains(&setting.name));
        let values = compared.map(|setting| {
            let value = match settings.origin(setting.name) {
                Origin::Sandbox => setting.default,
                _ => settings.get(setting.name),
            };
            (setting.name, value.unwrap_or_default().to_owned())
        });
        Values(values.collect())
    }

    /// A code for each setting.
    pub fn codes(&self, keys: &Keys) -> BTreeMap<&'static str, String> {
        let code = |name: &str, value: &str| {
            let code = keys.code(PURPOSE, &[name.as_bytes(), value.as_bytes()]);
            hex::encode(&code[..8])
        };
        let codes = self.0.iter();
        codes
            .map(|(name, value)| (*name, code(name, value)))
            .collect()
    }
}

/// A code of the installation itself: two processes that have the same one use the same key, and so
/// the same database.
pub fn installation(keys: &Keys) -> String {
    hex::encode(&keys.code(PURPOSE, &[])[..8])
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values")
    }
}
