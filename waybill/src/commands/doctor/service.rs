//! Checks of the service itself: whether it is ready, and whether it runs with the settings that
//! this command has. Without a broker the service is asked on `LISTEN_ADDR` of this machine; with one
//! it may be anywhere, so it is asked at `PUBLIC_URL`.

use std::collections::BTreeMap;
use std::time::Duration;

use config::database::sqlite_file;
use config::{Config, installation, on_this_machine};
use domain::privacy::Keys;
use serde::Deserialize;
use store::privacy_keys;
use store::sql::Db;

use super::Finding;
use crate::commands::client;

const DEADLINE: Duration = Duration::from_secs(3);

/// Where the service is asked.
fn base(config: &Config) -> String {
    if config.amqp_url.is_some() {
        config.public_url.clone()
    } else {
        format!("http://{}", on_this_machine(config.listen_addr))
    }
}

/// What the service answers to `/doctor`.
#[derive(Deserialize)]
struct RunsWith {
    version: String,
    installation: String,
    settings: BTreeMap<String, String>,
}

/// Compares what the service runs with. A service that does not answer is a finding of [`look`].
pub async fn settings(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "service settings";
    let base = base(config);
    let Some(theirs) = runs_with(&base).await else {
        return Vec::new();
    };
    let Some(keys) = keys(config).await else {
        let found = format!("{base} runs with a key that this command does not have");
        let advice = "Give this command the DATABASE_URL and PRIVACY_KEY of the service; until then \
                      the settings cannot be compared.";
        return vec![Finding::warning(CHECK, found, advice)];
    };
    vec![compare(CHECK, &base, &theirs, config, &keys)]
}

fn compare(
    check: &'static str,
    base: &str,
    theirs: &RunsWith,
    config: &Config,
    keys: &Keys,
) -> Finding {
    if theirs.installation != installation(keys) {
        let found = format!("{base} is of another installation: it has another database");
        let advice = "Which Waybill do you mean? Check DATABASE_URL here, and LISTEN_ADDR or \
                      PUBLIC_URL.";
        return Finding::failed(check, found, advice);
    }
    let ours = config.values.codes(keys);
    let differ: Vec<&str> = ours
        .iter()
        .filter(|(name, code)| theirs.settings.get(**name) != Some(*code))
        .map(|(name, _)| *name)
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    if theirs.version != version {
        let found = format!(
            "{base} is version {}, and this is {version}",
            theirs.version
        );
        let advice = "Run the doctor of the service's own version, or restart the service.";
        return Finding::warning(check, found, advice);
    }
    if differ.is_empty() {
        return Finding::ok(
            check,
            format!("{base} runs with the settings that are set here"),
        );
    }
    let found = format!("{base} runs with another {}", differ.join(", "));
    let advice = "Everything that is said here of settings is about those of this command. Give it \
                  those of the service, as its supervisor or .env has them, or restart the service if \
                  they were changed since its start.";
    Finding::warning(check, found, advice)
}

async fn runs_with(base: &str) -> Option<RunsWith> {
    let url = format!("{base}/doctor");
    let answer = client(&url, DEADLINE).ok()?.get(&url).send().await.ok()?;
    answer.error_for_status().ok()?.json().await.ok()
}

/// The keys of the database that is set here.
async fn keys(config: &Config) -> Option<Keys> {
    if sqlite_file(&config.database_url).is_some_and(|file| !file.exists()) {
        return None;
    }
    let db = Db::open(&config.database_url, 1).await.ok()?;
    let keys = privacy_keys::look(&db, config.privacy.key.as_ref()).await;
    db.close().await;
    keys.ok().flatten()
}

pub async fn look(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "service";
    let base = base(config);
    let url = format!("{base}/readyz");
    let answer = match client(&url, DEADLINE) {
        Ok(client) => client.get(&url).send().await.ok(),
        Err(_) => None,
    };
    let Some(answer) = answer else {
        return vec![Finding::warning(
            CHECK,
            format!("nothing answers on {base}"),
            "Start `waybill`, `waybill serve` or `waybill-ingress`. If it runs, check LISTEN_ADDR \
             and PUBLIC_URL here: they may be set otherwise there.",
        )];
    };
    let status = answer.status();
    let said = answer.text().await.unwrap_or_default();
    vec![if !status.is_success() {
        Finding::failed(
            CHECK,
            format!("{base} answers {} to /readyz", status.as_u16()),
            "It takes no deliveries, and providers send them again later; its log says why.",
        )
    } else if said.contains("degraded") {
        Finding::warning(
            CHECK,
            format!("{base} is ready, without its broker"),
            "Deliveries are accepted and wait in the database; mend the broker.",
        )
    } else {
        Finding::ok(CHECK, format!("{base} is ready"))
    }]
}
