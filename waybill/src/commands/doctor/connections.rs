//! Checks of the connections in the database: whether their secrets can be read with the keys that are set, and whether
//! their APIs accept their tokens.

use std::time::Duration;

use config::Config;
use config::database::sqlite_file;
use domain::time::Timestamp;
use futures_util::future::join_all;
use operators::connections::accepts_token;
use platform::clock::Clock;
use process::clients::Clients;
use process::registry;
use store::sql::{self, Db};
use store::{connections, reconciliations};
use tokio::time::timeout;

use super::Finding;

const CHECK: &str = "connections";
/// At most so many APIs are asked.
const ASKED: usize = 20;
/// How long one of them may take, within the time of the whole check.
const PATIENCE: Duration = Duration::from_secs(3);
const DAY: Duration = Duration::from_hours(24);

/// Looks at all connections. It finds nothing where there is no database, or none that answers: the check of the database
/// says so.
pub async fn look(config: &Config) -> Vec<Finding> {
    let url = &config.database_url;
    if sqlite_file(url).is_some_and(|file| !file.exists()) {
        return Vec::new();
    }
    let Ok(db) = Db::open(url, 1).await else {
        return Vec::new();
    };
    let findings = with(&db, config).await;
    db.close().await;
    findings.unwrap_or_default()
}

async fn with(db: &Db, config: &Config) -> sql::Result<Vec<Finding>> {
    let clock = Clock::system();
    let all = connections::all(db).await?;
    let loaded = connections::registry(config, &all, clock.now());
    let mut findings: Vec<Finding> = loaded
        .unreadable
        .iter()
        .map(|(name, why)| {
            let advice = "Set SECRETS_KEY to the key of the service, the same in every process.";
            Finding::failed(CHECK, format!("{name}: {why}"), advice)
        })
        .collect();
    let standing: Vec<&str> = all
        .iter()
        .filter(|it| it.removed_at.is_none())
        .map(|it| it.name.as_str())
        .collect();
    let clients = Clients::new(&registry::read(config, db, &clock).await?, &clock);
    let with_api = all
        .iter()
        .filter(|it| it.api_url.is_some() && it.removed_at.is_none());
    let asked = with_api.take(ASKED).map(async |it| {
        let answer = timeout(PATIENCE, clients.probe(&it.name)).await;
        let late = |_| Some(Err("does not answer in time".to_owned()));
        let answer = answer.map(|it| it.map(accepts_token));
        Some((&it.name, answer.unwrap_or_else(late)?))
    });
    let answers: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    for (name, answer) in &answers {
        if let Err(why) = answer {
            let advice = format!(
                "Is its token revoked, or without the permission for this? `waybill connections rotate {name}` gives \
                 it another; `waybill connections test {name}` asks again."
            );
            let found = format!("the API of {name} {why}");
            findings.push(Finding::failed(CHECK, found, &advice));
        }
    }
    if findings.is_empty() {
        let found = match standing.len() {
            0 => "none beside those of the settings".to_owned(),
            all => format!(
                "{all} with secrets that can be read; {} of their APIs were asked and accept the token",
                answers.len()
            ),
        };
        findings.push(Finding::ok(CHECK, found));
    }
    findings.push(reconciled(db, clock.now()).await?);
    Ok(findings)
}

/// Whether the providers say what changed, and how much never came.
async fn reconciled(db: &Db, now: Timestamp) -> sql::Result<Finding> {
    const CHECK: &str = "reconciliation";
    let all = reconciliations::all(db).await?;
    if let Some(it) = all.iter().find(|it| it.failing_since.is_some()) {
        let why = it.last_error.as_deref().unwrap_or_default();
        let found = format!("{} {} is not compared: {why}", it.connection, it.shop);
        let advice = "Mend the token, its rights or the address; `waybill reconcile` asks again.";
        return Ok(Finding::failed(CHECK, found, advice));
    }
    if let Some(it) = all.iter().find(|it| it.subscriptions_error.is_some()) {
        let wrong = it.subscriptions_error.as_deref().unwrap_or_default();
        let found = format!("{} {}: {wrong}", it.connection, it.shop);
        let advice =
            "`waybill connect PROVIDER --repair` mends what the API lets it, after asking.";
        return Ok(Finding::failed(CHECK, found, advice));
    }
    let counted = reconciliations::count(db, now.minus(DAY)).await?;
    let missed = counted.iter().filter(|it| it.cause.is_missed());
    let missed: i64 = missed.map(|it| it.deliveries).sum();
    if missed > 0 {
        let found = format!(
            "{missed} deliveries never came in the last day and were found at the provider"
        );
        let advice = "`waybill reconcile --status` has the likely cause.";
        return Ok(Finding::warning(CHECK, found, advice));
    }
    Ok(Finding::ok(
        CHECK,
        match all.len() {
            0 => "nothing is compared, because no connection has an API".to_owned(),
            all => format!("{all} shops and accounts are compared, and nothing is missing"),
        },
    ))
}
