//! `waybill jobs` shows jobs and their states, and processes finished deliveries again.

use anyhow::{Result, bail};
use config::Settings;
use domain::job::{JobId, Queue, State};
use domain::time::{NotATime, Timestamp};
use platform::clock::Clock;
use store::jobs::ended;
use store::jobs::operate::Action;
use store::jobs::{self, Filter, Summary};
use store::sql::Db;
use store::traces;

use crate::age;
use crate::commands::operation::{FoundJobs, How, Operation, nothing_named};
use crate::commands::{database, dead};
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest jobs
    List {
        /// Only jobs of this queue: orders, payments, privacy
        #[arg(long)]
        queue: Option<Queue>,
        /// Only jobs in this state: ready, done, dead
        #[arg(long)]
        state: Option<State>,
        /// Only jobs of this topic or event type, `orders/create` for example
        #[arg(long)]
        kind: Option<String>,
        /// Only the job of one delivery and all jobs that followed from it, the oldest first. Give
        /// its request id (`X-Request-Id`), trace id (`traceparent`), delivery id or job id
        #[arg(long, value_name = "ID", conflicts_with_all = ["queue", "state", "kind"])]
        trace: Option<String>,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a job without its body, which holds personal data
    ///
    /// For a dead job `waybill dead show` also shows the body, without personal data.
    Show {
        id: JobId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Process finished deliveries again, as long as their bodies are kept
    ///
    /// Use this if orders or payments are lost or wrong in the database: after a backup was
    /// restored, or after a handler was fixed. The deliveries are merged with the data that is
    /// known, so nothing is done twice. Calls that were made, such as refunds and mails, are not
    /// made again, and privacy requests that are done are not carried out again. The data of
    /// people who were erased meanwhile does not come back. For dead jobs use
    /// `waybill dead replay`.
    Replay(Replay),
    /// Run a dead job again. This is the old name of `waybill dead replay`
    #[command(hide = true)]
    Retry {
        id: JobId,
        #[command(flatten)]
        how: How,
    },
}

#[derive(clap::Args)]
pub struct Replay {
    /// The job ids of the deliveries. Without any, all deliveries that the filters select
    ids: Vec<JobId>,
    /// Only deliveries of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN")]
    kind: Option<String>,
    /// Only deliveries of this shop domain
    #[arg(long)]
    shop: Option<String>,
    /// Only deliveries that arrived then or later: an age like 2h, a time like
    /// 2027-01-31T12:00:00Z, or a day, which means its beginning in UTC
    #[arg(long, value_name = "AGE|TIME", value_parser = since)]
    since: Option<Moment>,
    /// Only deliveries that arrived before then; a day means its end in UTC
    #[arg(long, value_name = "AGE|TIME", value_parser = until)]
    until: Option<Moment>,
    /// All deliveries whose bodies are still kept
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug)]
pub enum Moment {
    Ago(std::time::Duration),
    At(Timestamp),
}

impl Moment {
    fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::Ago(age) => now.minus(age),
            Moment::At(at) => at,
        }
    }
}

fn since(text: &str) -> Result<Moment, String> {
    moment(text, text.parse())
}

fn until(text: &str) -> Result<Moment, String> {
    moment(text, Timestamp::end_of(text))
}

fn moment(text: &str, at: Result<Timestamp, NotATime>) -> Result<Moment, String> {
    if let Ok(at) = at {
        return Ok(Moment::At(at));
    }
    let ago = age::parse(text).map(Moment::Ago);
    ago.map_err(|problem| format!("{problem}, or a time like 2027-01-31T12:00:00Z"))
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    match command {
        Command::List {
            queue,
            state,
            kind,
            trace,
            limit,
            json,
        } => {
            let filter = Filter {
                queue: queue.map(|queue| queue.to_string()).unwrap_or_default(),
                state: state.map(|state| state.to_string()).unwrap_or_default(),
                kind: kind.unwrap_or_default(),
            };
            let jobs = match trace {
                Some(id) => traces::jobs(&db, &traces::of(&db, id.trim()).await?, limit).await?,
                None => jobs::list(&db, &filter, limit).await?,
            };
            db.close().await;
            if json {
                return table::print_json(&jobs);
            }
            table::print(&list(&jobs, Clock::system().now()))
        }
        Command::Replay(replay) => {
            let done = again(settings, &db, &replay).await;
            db.close().await;
            done
        }
        Command::Retry { id, how } => {
            let done = dead::replay_one(settings, &db, id, &how).await;
            db.close().await;
            done
        }
        Command::Show { id, json } => {
            let job = jobs::show(&db, id).await?;
            db.close().await;
            match job {
                None => bail!("{}", dead::unknown(id)),
                Some(job) if json => table::print_json(&job),
                Some(job) => table::print(&describe(&job)),
            }
        }
    }
}

async fn again(settings: &Settings, db: &Db, replay: &Replay) -> Result<()> {
    let Replay {
        ids,
        kind,
        shop,
        since,
        until,
        all,
        how,
    } = replay;
    let is_filtered = kind.is_some() || shop.is_some() || since.is_some() || until.is_some();
    nothing_named(ids, *all || is_filtered)?;
    let found = if ids.is_empty() {
        let now = Clock::system().now();
        let any = ended::Filter::default();
        let filter = ended::Filter {
            kind: kind.clone().unwrap_or_default(),
            shop: shop.clone().unwrap_or_default().to_ascii_lowercase(),
            arrived_from: since.map_or(any.arrived_from, |it| it.before(now)),
            arrived_until: until.map_or(any.arrived_until, |it| it.before(now)),
            ..any
        };
        let jobs = ended::done(db, &filter).await?;
        FoundJobs {
            is_named: false,
            jobs,
            missing: Vec::new(),
        }
    } else {
        dead::named(db, ids, State::Done).await?
    };
    let operation = Operation {
        settings,
        db,
        action: Action::Replay,
        how,
    };
    operation.run(found).await
}

fn list(jobs: &[Summary], now: Timestamp) -> String {
    if jobs.is_empty() {
        return "No jobs.\n".to_owned();
    }
    let mut rows = Table::new([
        "JOB",
        "AGE",
        "QUEUE",
        "KIND",
        "STATE",
        "FAILED",
        "SHOP",
        "LAST ERROR",
    ]);
    for job in jobs {
        rows.row([
            job.id.to_string(),
            age::text(now, job.created_at),
            job.queue.clone(),
            job.kind.clone(),
            state(job),
            job.attempts.to_string(),
            job.shop.clone().unwrap_or_else(|| "-".to_owned()),
            job.last_error.clone().unwrap_or_default(),
        ]);
    }
    rows.render()
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
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut facts = Table::new(["job", &job.id.to_string()]);
    facts.row(["kind".into(), job.kind.clone()]);
    facts.row(["queue".into(), job.queue.clone()]);
    facts.row(["state".into(), state(job)]);
    facts.row(["source".into(), job.source.clone()]);
    facts.row(["shop".into(), or_none(job.shop.clone())]);
    facts.row(["delivery id".into(), or_none(job.external_id.clone())]);
    facts.row(["about".into(), or_none(job.object_id.clone())]);
    facts.row(["API version".into(), or_none(job.api_version.clone())]);
    facts.row(["request id".into(), or_none(job.trace.clone())]);
    facts.row(["trace id".into(), job.trace_id.clone()]);
    facts.row(["arrived".into(), job.created_at.to_string()]);
    facts.row([
        "finished".into(),
        or_none(job.finished_at.map(|at| at.to_string())),
    ]);
    if let Some(at) = job.discarded_at {
        facts.row(["discarded".into(), at.to_string()]);
    }
    facts.row(["failed runs".into(), job.attempts.to_string()]);
    facts.row(["last error".into(), or_none(job.last_error.clone())]);
    facts.row([
        "body".into(),
        or_none(job.body_bytes.map(|bytes| format!("{bytes} bytes"))),
    ]);
    facts.render()
}
