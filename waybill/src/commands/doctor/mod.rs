//! `waybill doctor` checks everything that Waybill depends on, all at once, and says for each
//! check what it found and what to do about it. It changes nothing: it applies no migration,
//! declares no queue and makes no folder. It prints no secret.

mod broker;
mod connections;
mod database;
mod machine;
mod providers;
mod secrets;
pub(super) mod service;
mod stores;

use std::time::Duration;

use anyhow::{Result, bail};
use config::{Config, Mode, SETTINGS, Settings};
use futures_util::future::{LocalBoxFuture, join_all};
pub use operators::findings::Level;
use operators::findings::{Finding, disk};
use serde_json::json;
use tokio::time::timeout;

use crate::table::{self, Table};

/// How long one check may take. A service that has not answered by then is too slow for every
/// user.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs all checks. The exit code is 1 if a check failed, and 2, with all mistakes listed, if
/// settings are wrong.
pub async fn run(settings: &Settings, arguments: &Arguments) -> Result<()> {
    let config = Config::load(settings, Mode::Development)?;
    let mut findings = vec![Finding::ok(
        "settings",
        format!("all {} are right", SETTINGS.len()),
    )];
    findings.extend(operators::findings::settings(&config));
    findings.extend(secrets::look(settings));
    let checks = [
        within("service", service::look(&config)),
        within("service settings", service::settings(&config)),
        within("database", database::look(&config)),
        within("broker", broker::look(&config)),
        within("storefront API", providers::storefront(&config)),
        within("payment API", providers::payment(&config)),
        within("connections", connections::look(&config)),
        within("identity provider", providers::identity(&config)),
        within("export store", stores::exports(&config)),
        within("journal of erasures", stores::journal(&config)),
        within("mail server", stores::mail(&config)),
        within("disk", async { disk(&config).await.into_iter().collect() }),
    ];
    findings.extend(join_all(checks).await.into_iter().flatten());
    if arguments.json {
        table::print_json(&json!({
            "failed": count(&findings, Level::Failed),
            "warnings": count(&findings, Level::Warning),
            "findings": findings,
        }))?;
    } else {
        table::print(&render(&findings))?;
    }
    match count(&findings, Level::Failed) {
        0 => Ok(()),
        1 => bail!("one thing failed; what to do stands below it"),
        many => bail!("{many} things failed; what to do stands below each"),
    }
}

/// Runs a check. One that does not end in time has failed.
fn within<'a>(
    check: &'static str,
    look: impl Future<Output = Vec<Finding>> + 'a,
) -> LocalBoxFuture<'a, Vec<Finding>> {
    Box::pin(async move {
        timeout(DEADLINE, look).await.unwrap_or_else(|_| {
            vec![Finding::failed(
                check,
                format!("no answer within {} seconds", DEADLINE.as_secs()),
                "Whatever it waits for is overloaded, or a firewall drops what is sent to it.",
            )]
        })
    })
}

fn count(findings: &[Finding], level: Level) -> usize {
    findings.iter().filter(|it| it.level == level).count()
}

fn render(findings: &[Finding]) -> String {
    let mut rows = Table::new(["CHECK", "STATE", "FOUND"]);
    for finding in findings {
        let state = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Failed => "FAILED",
        };
        rows.row([
            finding.check.to_owned(),
            state.to_owned(),
            finding.found.clone(),
        ]);
        if let Some(advice) = &finding.advice {
            rows.row([String::new(), String::new(), format!("-> {advice}")]);
        }
    }
    let (failed, warnings) = (
        count(findings, Level::Failed),
        count(findings, Level::Warning),
    );
    let well = findings.len() - failed - warnings;
    format!(
        "{}\n{well} ok, {warnings} to look at, {failed} failed\n",
        rows.render()
    )
}
