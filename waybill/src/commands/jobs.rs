//! `waybill jobs` shows jobs, their states and their attempts, makes waiting jobs due, and processes
//! finished deliveries again.

use anyhow::{Result, bail};
use config::Settings;
use domain::job::{JobId, State};
use platform::clock::Clock;
use platform::zone;
use store::job_attempts::Attempt;
use store::jobs::ended;
use store::jobs::{self, Summary};
use store::sql::Db;
use store::story;

use crate::commands::deed::Do;
use crate::commands::operation::{self, How};
use crate::commands::with_database;
use crate::table::{self, Listed, One, Table, or_none};
use lists::age::{self, Moment};
use lists::deeds::jobs::{Field, ProcessAgain, RunNow, unknown};
use lists::jobs::{FailingJobs, Jobs};
use lists::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest jobs, page by page
    List(Listed<Jobs>),
    /// List jobs that failed within the last hour and are tried again, those that failed last first
    Failing(Listed<FailingJobs>),
    /// Show a job and its attempts, without its body, which holds personal data
    ///
    /// The attempts are the runs that failed, and the calls that the provider told to come later:
    /// the first of them and the last 20. For a dead job `waybill dead show` also shows the body,
    /// without personal data.
    Show(One),
    RunNow(Do<RunNow>),
    Requeue(Requeue),
    Field(Do<Field>),
}

// Its help is that of the deed.
#[derive(clap::Args)]
pub struct Requeue {
    #[command(flatten)]
    deed: Do<ProcessAgain>,
    /// Only deliveries of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::topic(), hide_possible_values = true)]
    kind: Option<String>,
    /// Only deliveries of this shop domain
    #[arg(long)]
    shop: Option<String>,
    /// Only deliveries of this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// Only deliveries that arrived then or later: an age like 2h, a time like
    /// 2027-01-31T12:00:00Z, or a day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    since: Option<Moment>,
    /// Only deliveries that arrived before then
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    before: Option<Moment>,
    /// All deliveries whose bodies are still kept
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    how: How,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Jobs).await,
        Command::Failing(listed) => listed.print(db, &FailingJobs).await,
        Command::Show(One { id, json }) => show(db, id, json).await,
        Command::RunNow(deed) => deed.run(settings, db).await,
        Command::Requeue(requeue) => again(settings, db, requeue).await,
        Command::Field(deed) => deed.run(settings, db).await,
    })
    .await
}

async fn show(db: &Db, id: JobId, json: bool) -> Result<()> {
    let Some(job) = jobs::show(db, id).await? else {
        bail!("{}", unknown(id));
    };
    let mut attempts = Vec::new();
    for it in story::with_histories(db, vec![job]).await? {
        if json {
            return table::print_json(&it);
        }
        table::print(&describe(&it.job))?;
        if let Some(reconciled) = &it.reconciled {
            table::print(&format!("\nIt never came: {}.\n", reconciled.in_words()))?;
        }
        attempts.extend(it.history);
    }
    match history(&attempts) {
        Some(history) => table::print(&format!("\n{history}")),
        None => Ok(()),
    }
}

async fn again(settings: &Settings, db: &Db, requeue: Requeue) -> Result<()> {
    let (kind, shop) = (requeue.kind, requeue.shop);
    let (since, before) = (requeue.since, requeue.before);
    let connection = requeue.connection;
    let is_of_some = kind.is_some() || shop.is_some() || connection.is_some();
    let is_filtered = requeue.all || is_of_some || since.is_some() || before.is_some();
    let (deed, how) = (requeue.deed, requeue.how);
    if operation::is_named(&deed.deed, is_filtered, &how)? {
        return deed.run(settings, db).await;
    }
    let now = Clock::system().now();
    let any = ended::Filter::default();
    let filter = ended::Filter {
        kind: kind.unwrap_or_default(),
        shop: shop.map_or_else(String::new, |shop| shop.to_ascii_lowercase()),
        connection: connection.unwrap_or_default(),
        arrived_from: since.map_or(any.arrived_from, |it| it.at(now)),
        arrived_until: before.map_or(any.arrived_until, |it| it.at(now)),
        ..any
    };
    let found = ended::done(db, &filter).await?;
    operation::run(settings, db, &deed, &how, found).await
}

/// The attempts of a job in a table, if there are any.
pub fn history(attempts: &[Attempt]) -> Option<String> {
    let mut table = Table::new(["ATTEMPT", "STARTED", "TOOK", "OUTCOME", "STATUS", "ERROR"]);
    let mut expected = 1;
    for attempt in attempts {
        if attempt.number > expected {
            let gone = format!("{expected} to {}", attempt.number - 1);
            table.row([gone.as_str(), "not kept", "", "", "", ""].map(str::to_owned));
        }
        expected = attempt.number + 1;
        table.row(attempt_cells(attempt));
    }
    table.filled()
}

/// Number, beginning, duration, outcome, the provider's status and the error.
pub fn attempt_cells(attempt: &Attempt) -> [String; 6] {
    [
        attempt.number.to_string(),
        zone::time(attempt.started_at),
        took(attempt.duration_ms),
        attempt.outcome.clone(),
        or_none(attempt.status),
        attempt.error.clone(),
    ]
}

fn took(millis: i64) -> String {
    match millis {
        0..1000 => format!("{millis}ms"),
        _ => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
    }
}

/// The state in words for people.
fn state(job: &Summary) -> String {
    match job.discarded_at {
        Some(_) => "discarded".to_owned(),
        None => job.state.clone(),
    }
}

/// Shows a job in a few lines.
pub fn describe(job: &Summary) -> String {
    let mut facts = Table::new(["job", &job.id.to_string()]);
    facts.fact("kind", job.kind.clone());
    facts.fact("queue", job.queue.clone());
    facts.fact("state", state(job));
    facts.fact("source", job.source.clone());
    facts.fact("shop", or_none(job.shop.as_ref()));
    facts.fact("connection", or_none(job.connection.as_ref()));
    facts.fact("delivery id", or_none(job.external_id.as_ref()));
    facts.fact("object id", or_none(job.object_id.as_ref()));
    facts.fact("API version", or_none(job.api_version.as_ref()));
    facts.fact("request id", or_none(job.trace.as_ref()));
    facts.fact("trace id", job.trace_id.clone());
    facts.fact("arrived", zone::time(job.created_at));
    facts.fact("finished", or_none(job.finished_at.map(zone::time)));
    if let Some(at) = job.discarded_at {
        facts.fact("discarded", zone::time(at));
    }
    if job.state == State::Ready.into_str() {
        facts.fact("next run", zone::time(job.run_at));
    }
    facts.fact("attempts", job.attempts.to_string());
    facts.fact("last error", or_none(job.last_error.as_ref()));
    facts.fact(
        "body",
        or_none(job.body_bytes.map(|bytes| format!("{bytes} bytes"))),
    );
    facts.render()
}
