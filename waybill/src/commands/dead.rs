//! `waybill dead` shows dead-lettered jobs and ends them. An operator sees which jobs died of
//! which error, fixes the cause, and requeues them. Jobs that can never succeed are discarded. The
//! audit has an entry for both.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use config::Settings;
use domain::job::{JobId, Queue, State};
use domain::privacy::operator_view;
use domain::time::Timestamp;
use operators::jobs::as_ended;
use platform::clock::Clock;
use platform::terminal;
use store::deliveries;
use store::job_attempts;
use store::jobs::ended::{self, Filter, Group};
use store::jobs::operate::{self, Action};
use store::jobs::{self, Summary};
use store::sql::Db;

use crate::age::{self, Moment};
use crate::commands::operation::{self, FoundJobs, How, missing, nothing_named, to_json};
use crate::commands::{jobs as jobs_command, with_database};
use crate::table::{self, Newest, One, Rows as _, or_dash, or_none};
use crate::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show how many jobs died of which error, by kind
    Summary {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List dead jobs, those that died last first
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        newest: Newest,
    },
    /// Show a dead job and its body without personal data, and what to do about the job
    ///
    /// The name of every field of the body is shown, but only those values that an erasure would
    /// keep: ids, amounts, times and states.
    Show(One),
    /// Run dead jobs again, after you have fixed the cause
    ///
    /// Each job has as many tries as a new one. Running a job twice is harmless, because effects
    /// that an earlier run had are not repeated. Workers may run meanwhile. If you stop the
    /// command with Ctrl-C and give it again, it goes on with the rest.
    Requeue(Targets),
    /// Give dead jobs up for good, if they can never succeed
    ///
    /// The jobs are then done, and their bodies are removed. The row of the job with its last
    /// error stays, and the audit says who discarded it. The delivery's id is still remembered, so
    /// if the provider sends it again, it is a duplicate. The job of an open privacy request
    /// cannot be discarded.
    Discard(Targets),
}

#[derive(clap::Args)]
pub struct Which {
    /// Only jobs of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::kind(), hide_possible_values = true)]
    kind: Option<String>,
    /// Only jobs of this queue
    #[arg(long, value_parser = words::queue())]
    queue: Option<Queue>,
    /// Only jobs of this shop domain
    #[arg(long)]
    shop: Option<String>,
    /// Only jobs of this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// Only jobs whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only jobs that died then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
    /// day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    since: Option<Moment>,
    /// Only jobs that died before then
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    before: Option<Moment>,
}

#[derive(clap::Args)]
pub struct Targets {
    /// The ids of the jobs. Without any, all jobs that the filters select
    #[arg(value_parser = words::id)]
    ids: Vec<JobId>,
    #[command(flatten)]
    which: Which,
    /// All dead jobs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    how: How,
}

impl Which {
    fn is_any(&self) -> bool {
        self.kind.is_none()
            && self.queue.is_none()
            && self.shop.is_none()
            && self.connection.is_none()
            && self.error.is_none()
            && self.since.is_none()
            && self.before.is_none()
    }

    fn filter(&self, now: Timestamp) -> Filter {
        let any = Filter::default();
        Filter {
            queue: self.queue,
            kind: self.kind.clone().unwrap_or_default(),
            shop: self.shop.clone().unwrap_or_default().to_ascii_lowercase(),
            connection: self.connection.clone().unwrap_or_default(),
            error: self.error.clone().unwrap_or_default(),
            from: self.since.map_or(any.from, |it| it.at(now)),
            until: self.before.map_or(any.until, |it| it.at(now)),
            ..any
        }
    }
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let now = Clock::system().now();
    with_database(settings, async |db| match command {
        Command::Summary { which, json } => {
            let groups = ended::groups(db, &which.filter(now)).await?;
            table::show(json, &groups, || summary(&groups, now))
        }
        Command::List {
            which,
            newest: Newest { limit, json },
        } => {
            let limit = usize::try_from(limit).unwrap_or_default();
            let jobs = ended::newest_dead(db, &which.filter(now), limit).await?;
            table::show(json, &jobs, || list(&jobs, now))
        }
        Command::Show(One { id, json }) => show(db, id, json).await,
        Command::Requeue(targets) => act(settings, db, Action::Requeue, &targets).await,
        Command::Discard(targets) => act(settings, db, Action::Discard, &targets).await,
    })
    .await
}

async fn act(settings: &Settings, db: &Db, action: Action, targets: &Targets) -> Result<()> {
    let (ids, which) = (&targets.ids, &targets.which);
    nothing_named(ids, targets.all || !which.is_any())?;
    let found = if ids.is_empty() {
        FoundJobs::filtered(ended::dead(db, &which.filter(Clock::system().now())).await?)
    } else {
        named(db, ids, State::Dead).await?
    };
    operation::run(settings, db, action, &targets.how, found).await
}

/// Sorts the jobs with these ids into those that have ended in this state and those that have not.
pub async fn named(db: &Db, ids: &[JobId], state: State) -> Result<FoundJobs> {
    let mut found = FoundJobs {
        is_named: true,
        jobs: Vec::new(),
        missing: Vec::new(),
    };
    let ids: BTreeSet<JobId> = ids.iter().copied().collect();
    for id in ids {
        match jobs::show(db, id).await? {
            None => found.missing.push(missing(id, unknown(id))),
            Some(job) => match as_ended(&job, state) {
                Ok(job) => found.jobs.push(job),
                Err(why) => found.missing.push(missing(id, format!("job {id} {why}"))),
            },
        }
    }
    Ok(found)
}

pub fn unknown(id: JobId) -> String {
    format!("there is no job {id} here; `waybill jobs list` and `waybill dead list` show some")
}

async fn show(db: &Db, id: JobId, json: bool) -> Result<()> {
    let Some(job) = jobs::show(db, id).await? else {
        bail!("{}", unknown(id));
    };
    if job.state != State::Dead.into_str() {
        bail!(
            "job {id} is {}, not dead: waybill jobs show {id}",
            job.state
        );
    }
    let body = deliveries::body(db, id).await?.unwrap_or_default();
    let body = operator_view(&job.kind, job.source == "internal", &body);
    if json {
        return table::print_json(&to_json(&job, &body)?);
    }
    let is_duty = match as_ended(&job, State::Dead) {
        Ok(ended) => !operate::duties(db, &[ended]).await?.is_empty(),
        Err(_) => false,
    };
    let next = if is_duty {
        format!(
            "It stands for a privacy request, which must be answered. Mend what is wrong, then:\n\n  \
             waybill privacy show {id}\n  waybill privacy retry {id}\n"
        )
    } else {
        format!(
            "Mend what it died of, then run it again, or give it up for good:\n\n  \
             waybill dead requeue {id}\n  waybill dead discard {id}\n"
        )
    };
    let attempts = job_attempts::list(db, id).await?;
    let history = jobs_command::history(&attempts);
    let history = history.map_or(String::new(), |history| format!("{history}\n"));
    table::print(&format!(
        "{}\n{history}{}\n\n{next}",
        jobs_command::describe(&job),
        terminal::pretty_json(&body)?
    ))
}

fn summary(groups: &[Group], now: Timestamp) -> String {
    if groups.is_empty() {
        return "No dead jobs.\n".to_owned();
    }
    let rows = groups.table(&[
        ("JOBS", &|group| format!("{:>4}", group.jobs)),
        ("KIND", &|group| group.kind.clone()),
        ("FIRST", &|group| age::text(now, group.first)),
        ("LAST", &|group| age::text(now, group.last)),
        ("ERROR", &|group| or_dash(&group.error)),
    ]);
    let jobs: i64 = groups.iter().map(|group| group.jobs).sum();
    let example = groups.first().map_or("", |group| group.kind.as_str());
    format!(
        "{}\n{jobs} dead in all. Which they are, and once it is mended:\n\n  \
         waybill dead list --kind {example}\n  waybill dead requeue --kind {example} --dry-run\n",
        rows.render()
    )
}

fn list(jobs: &[Summary], now: Timestamp) -> String {
    let table = jobs.table(&[
        ("JOB", &|job| job.id.to_string()),
        ("DIED", &|job| {
            age::text(now, job.finished_at.unwrap_or(job.created_at))
        }),
        ("KIND", &|job| job.kind.clone()),
        ("ATTEMPTS", &|job| format!("{:>8}", job.attempts)),
        ("SHOP", &|job| or_none(job.shop.as_ref())),
        ("ABOUT", &|job| or_none(job.object_id.as_ref())),
        ("LAST ERROR", &|job| {
            job.last_error.clone().unwrap_or_default()
        }),
    ]);
    table.or("No dead jobs.\n")
}
