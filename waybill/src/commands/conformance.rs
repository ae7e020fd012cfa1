//! `waybill conformance` tries a receiver of webhooks, Waybill or any other, with what senders and
//! strangers send, and says what it does with each.

mod cases;
mod connection;
mod delivery;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{Config, Settings};
use platform::clock::Clock;
use platform::terminal;
use reqwest::Url;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::commands::misused;
use crate::table::{self, Table};
use cases::{CASES, Case, Level};
use delivery::{Sender, Signer};

/// How many cases run at a time. Those that measure run alone.
const AT_ONCE: usize = 8;

#[derive(clap::Args)]
#[command(
    after_help = "Signs as:  storefront, payment (Waybill's own form), shopify, stripe, github,\n\
    \x20          standard-webhooks\n\
    Result:    ok; WRONG, which a receiver must not do; weak, which it should not do; skipped\n\
    Exit code: 0 nothing is wrong, 1 something is, 2 the arguments are"
)]
pub struct Arguments {
    /// Where the receiver takes webhooks. It gets about 400 made-up deliveries, so let it be one for tests
    #[arg(value_parser = address)]
    url: Url,
    /// As which provider the deliveries are signed
    #[arg(long = "as", value_name = "PROVIDER", default_value = "storefront")]
    sender: Sender,
    /// The file with the signing secret. Without it, `STOREFRONT_WEBHOOK_SECRET` or `PAYMENT_WEBHOOK_SECRET`
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The name of the header with the signature, if it is another than the provider's
    #[arg(long, value_name = "NAME")]
    signature_header: Option<String>,
    /// Only these cases, by name; can be given several times
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// Also the cases that take a minute: senders that never finish
    #[arg(long)]
    slow: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err("an address like http://127.0.0.1:8080/api/webhooks/storefront".to_owned());
    }
    Ok(url)
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    /// A receiver must not do that.
    Wrong,
    /// A receiver should not do that.
    Weak,
    Skipped,
}

impl Verdict {
    fn shown(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Wrong => "WRONG",
            Verdict::Weak => "weak",
            Verdict::Skipped => "skipped",
        }
    }
}

#[derive(Serialize)]
struct Report {
    case: &'static str,
    group: &'static str,
    result: Verdict,
    /// What was sent and is expected.
    about: &'static str,
    /// What the receiver did.
    answer: String,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    let chosen = chosen(&arguments)?;
    let signer = Signer::new(
        arguments.sender,
        secret(settings, &arguments)?,
        arguments.signature_header.clone(),
        arguments.url.clone(),
        Clock::system(),
    )?;
    reachable(&signer).await?;
    let signer = Arc::new(signer);
    let progress = Progress::new(&arguments, chosen.len());
    let (alone, together): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|case| case.alone);
    let mut reports = Vec::new();
    let mut running = JoinSet::new();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    for case in together {
        let (signer, room) = (signer.clone(), room.clone());
        running.spawn(async move {
            let _place = room.acquire().await;
            judge(&signer, case).await
        });
    }
    while let Some(report) = running.join_next().await {
        reports.push(report?);
        progress.show(reports.len());
    }
    for case in alone {
        reports.push(judge(&signer, case).await);
        progress.show(reports.len());
    }
    progress.end();
    let place = |report: &Report| CASES.iter().position(|case| case.name == report.case);
    reports.sort_by_key(place);
    if arguments.json {
        table::print_json(&reports)?;
    } else {
        table::print(&rendered(&reports))?;
    }
    match count(&reports, Verdict::Wrong) {
        0 => Ok(()),
        1 => bail!("the receiver does one thing that it must not do"),
        wrong => bail!("the receiver does {wrong} things that it must not do"),
    }
}

fn chosen(arguments: &Arguments) -> Result<Vec<&'static Case>> {
    for name in &arguments.only {
        if !CASES.iter().any(|case| case.name == name) {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            return Err(misused(format!(
                "--only: there is no case {name:?}; there are {}",
                names.join(", ")
            )));
        }
    }
    let is_chosen = |case: &&Case| {
        let is_named = arguments.only.iter().any(|name| name == case.name);
        let is_meant = arguments.only.is_empty() && (arguments.slow || !case.slow);
        case.schemes.contains(&arguments.sender.scheme()) && (is_named || is_meant)
    };
    let chosen: Vec<&Case> = CASES.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(misused(
            "--only: this provider signs in another way; no case is left",
        ));
    }
    Ok(chosen)
}

fn secret(settings: &Settings, arguments: &Arguments) -> Result<String> {
    let Some(file) = &arguments.secret_file else {
        let mut secrets = match arguments.sender {
            Sender::Payment | Sender::Stripe => Config::payment_secrets(settings)?,
            Sender::Github => {
                return Err(misused("--as github needs --secret-file"));
            }
            Sender::Storefront | Sender::Shopify | Sender::StandardWebhooks => {
                Config::storefront_secrets(settings)?
            }
        };
        return Ok(secrets.swap_remove(0));
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--secret-file: cannot read {}", file.display()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(misused(format!(
            "--secret-file: {} is empty",
            file.display()
        )));
    }
    Ok(secret.to_owned())
}

/// Without a receiver every case would fail in the same way.
async fn reachable(signer: &Signer) -> Result<()> {
    let url = signer.url().clone();
    let answer = signer.client().get(url.clone()).send().await;
    answer.map(|_| ()).with_context(|| {
        format!("nobody answers at {url}; is the receiver running, and is this its address?")
    })
}

async fn judge(signer: &Arc<Signer>, case: &'static Case) -> Report {
    let found = cases::run(signer, case).await;
    let result = match (found.is_as_expected, case.level) {
        (None, _) => Verdict::Skipped,
        (Some(true), _) => Verdict::Ok,
        (Some(false), Level::Must) => Verdict::Wrong,
        (Some(false), Level::Should) => Verdict::Weak,
    };
    Report {
        case: case.name,
        group: case.group,
        result,
        about: case.about,
        answer: found.answer,
    }
}

fn count(reports: &[Report], verdict: Verdict) -> usize {
    let of_it = reports.iter().filter(|report| report.result == verdict);
    of_it.count()
}

fn rendered(reports: &[Report]) -> String {
    let mut table = Table::new(["RESULT", "CASE", "ANSWER", "WHAT IS SENT AND EXPECTED"]);
    for report in reports {
        table.row([
            report.result.shown().to_owned(),
            report.case.to_owned(),
            report.answer.clone(),
            report.about.to_owned(),
        ]);
    }
    let mut text = table.render();
    let _ = writeln!(
        text,
        "\n{} ok, {} wrong, {} weak, {} skipped",
        count(reports, Verdict::Ok),
        count(reports, Verdict::Wrong),
        count(reports, Verdict::Weak),
        count(reports, Verdict::Skipped),
    );
    text
}

/// A line that says how far it has come, for whoever watches.
struct Progress {
    is_shown: bool,
    all: usize,
}

impl Progress {
    fn new(arguments: &Arguments, all: usize) -> Self {
        Progress {
            is_shown: !arguments.json && terminal::err_is_one(),
            all,
        }
    }

    fn show(&self, done: usize) {
        if self.is_shown {
            terminal::over(&format!("{done} of {} cases", self.all));
        }
    }

    fn end(&self) {
        if self.is_shown {
            terminal::over("");
        }
    }
}

/// How long a receiver may take for an answer, with room to spare: the storefronts give up after five
/// seconds, and payment providers after ten to thirty.
const PATIENCE: Duration = Duration::from_secs(15);
