//! `waybill dead` shows dead-lettered jobs and ends them. An operator sees which jobs died of
//! which error, fixes the cause, and requeues them. Jobs that can never succeed are discarded. The
//! audit has an entry for both.

use anyhow::{Result, bail};
use config::Settings;
use domain::job::{JobId, State};
use domain::privacy::operator_view;
use domain::time::Timestamp;
use operators::jobs::as_ended;
use platform::clock::Clock;
use platform::terminal;
use store::deliveries;
use store::job_attempts;
use store::jobs::ended::{self, Group};
use store::jobs::operate;
use store::jobs::{self};
use store::sql::Db;

use crate::commands::deed::Do;
use crate::commands::operation::{self, How, to_json};
use crate::commands::{jobs as jobs_command, with_database};
use crate::table::{self, Listed, One, Rows as _, or_dash};
use lists::age::{self};
use lists::deeds::Deed;
use lists::deeds::jobs::{Discard, Requeue, ToEnded, unknown};
use lists::jobs::{DeadFilter, DeadJobs};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show how many jobs died of which error, by kind
    Summary {
        #[command(flatten)]
        which: DeadFilter,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List dead jobs, those that died last first
    List(Listed<DeadJobs>),
    /// Show a dead job and its body without personal data, and what to do about the job
    ///
    /// The name of every field of the body is shown, but only those values that an erasure would
    /// keep: ids, amounts, times and states.
    Show(One),
    Requeue(Targets<Requeue>),
    Discard(Targets<Discard>),
}

// Its help is that of the deed.
#[derive(clap::Args)]
pub struct Targets<D: Deed> {
    #[command(flatten)]
    deed: Do<D>,
    #[command(flatten)]
    which: DeadFilter,
    /// All dead jobs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    how: How,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let now = Clock::system().now();
    with_database(settings, async |db| match command {
        Command::Summary { which, json } => {
            let groups = ended::groups(db, &which.at(now)).await?;
            table::show(json, &groups, || summary(&groups, now))
        }
        Command::List(listed) => listed.print(db, &DeadJobs).await,
        Command::Show(One { id, json }) => show(db, id, json).await,
        Command::Requeue(targets) => act(settings, db, targets, now).await,
        Command::Discard(targets) => act(settings, db, targets, now).await,
    })
    .await
}

async fn act<D: ToEnded>(
    settings: &Settings,
    db: &Db,
    targets: Targets<D>,
    now: Timestamp,
) -> Result<()> {
    let Targets {
        deed,
        which,
        all,
        how,
    } = targets;
    if operation::is_named(&deed.deed, all || !which.is_any(), &how)? {
        return deed.run(settings, db).await;
    }
    let found = ended::dead(db, &which.at(now)).await?;
    operation::run(settings, db, &deed, &how, found).await
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
