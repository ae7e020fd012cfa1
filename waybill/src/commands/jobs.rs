//! `waybill jobs`: deliveries and other work, with their states.

use anyhow::{Result, bail};
use common::clock::{Clock, Timestamp};
use common::config::Settings;
use common::job::{JobId, Queue, State};
use common::store::jobs::{self, Filter, Summary};
use common::store::traces;

use crate::commands::database;
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest jobs
    List {
        /// Only those of a queue: orders, payments, privacy
        #[arg(long)]
        queue: Option<Queue>,
        /// Only those in a state: ready, done, dead
        #[arg(long)]
        state: Option<State>,
        /// Only those of a topic or event type, `orders/create` for example
        #[arg(long)]
        kind: Option<String>,
        /// Only those of one delivery, and of all that followed from it, oldest first: by its
        /// request id (`X-Request-Id`), trace id (`traceparent`), delivery id or job id
        #[arg(long, value_name = "ID", conflicts_with_all = ["queue", "state", "kind"])]
        trace: Option<String>,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a job: everything but the body, which holds personal data
    Show {
        id: JobId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a dead job again, once what killed it is mended
    ///
    /// It has all its tries before it again. Running a job twice is harmless: what it has done
    /// is not done again.
    Retry { id: JobId },
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
        Command::Retry { id } => {
            let mut tx = db.begin().await?;
            let revived = jobs::revive(&mut tx, id, Clock::system().now()).await?;
            tx.commit().await?;
            let job = jobs::show(&db, id).await?;
            db.close().await;
            match job {
                Some(_) if revived => table::print(&format!(
                    "Job {id} is ready; a worker takes it within seconds.\n\
                     See what becomes of it: waybill jobs show {id}\n"
                )),
                Some(job) => bail!("job {id} is {}; only a dead one is run again", job.state),
                None => bail!("there is no job {id} here"),
            }
        }
        Command::Show { id, json } => {
            let job = jobs::show(&db, id).await?;
            db.close().await;
            match job {
                None => bail!("there is no job {id} here"),
                Some(job) if json => table::print_json(&job),
                Some(job) => table::print(&describe(&job)),
            }
        }
    }
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
            age(now, job.created_at),
            job.queue.clone(),
            job.kind.clone(),
            job.state.clone(),
            job.attempts.to_string(),
            job.shop.clone().unwrap_or_else(|| "-".to_owned()),
            job.last_error.clone().unwrap_or_default(),
        ]);
    }
    rows.render()
}

fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.since(then).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A job in a few lines.
pub fn describe(job: &Summary) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut facts = Table::new(["job", &job.id.to_string()]);
    facts.row(["kind".into(), job.kind.clone()]);
    facts.row(["queue".into(), job.queue.clone()]);
    facts.row(["state".into(), job.state.clone()]);
    facts.row(["source".into(), job.source.clone()]);
    facts.row(["shop".into(), or_none(job.shop.clone())]);
    facts.row(["delivery id".into(), or_none(job.external_id.clone())]);
    facts.row(["about".into(), or_none(job.object_id.clone())]);
    facts.row(["request id".into(), or_none(job.trace.clone())]);
    facts.row(["trace id".into(), job.trace_id.clone()]);
    facts.row(["arrived".into(), job.created_at.to_string()]);
    facts.row([
        "finished".into(),
        or_none(job.finished_at.map(|at| at.to_string())),
    ]);
    facts.row(["failed runs".into(), job.attempts.to_string()]);
    facts.row(["last error".into(), or_none(job.last_error.clone())]);
    facts.row([
        "body".into(),
        or_none(job.body_bytes.map(|bytes| format!("{bytes} bytes"))),
    ]);
    facts.render()
}
