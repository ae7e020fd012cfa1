//! Requeues or discards all jobs that filters select. The command first shows how many jobs it has found and which.
//! After the operator has confirmed, it changes them batch by batch at a limited rate, so that a
//! provider that has just recovered is not overloaded. If it is stopped in the middle, no batch is
//! half done, and the same command does the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bus::{Bus, MAX_JOBS_PER_MESSAGE};
use config::database::place;
use config::{Config, Settings};
use domain::job::{JobId, Queue};
use domain::time::Timestamp;
use operators::jobs::{self as flow, admitted};
use operators::operations::usual_rate;
use platform::clock::Clock;
use platform::shutdown;
use platform::terminal;
use serde::Serialize;
use serde_json::json;
use store::jobs;
use store::jobs::ended::Ended;
use store::jobs::operate::{self, Action};
use store::sql::Db;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use crate::commands::deed::Do;
use crate::commands::operator::Operator;
use crate::commands::{confirm, misused};
use crate::table::{self, Rows as _};
use lists::age;
use lists::deeds::jobs::{self as deeds, ToEnded};

/// How long the command tries to reach the broker. If it cannot, the workers' sweep finds the
/// jobs.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many ids are shown to people. JSON has all of them.
const SHOWN: usize = 10;
const NOTHING: &str = "No jobs match.\n";

#[derive(clap::Args)]
pub struct How {
    /// Only with filters: show how many jobs there are and which; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Only with filters: change at most this many jobs a second. Default: 50; for discarding no limit. When it is
    /// stopped with Ctrl-C, the same command does the rest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: Option<u32>,
    /// Do not ask for confirmation. Jobs that are named by their ids are changed without a question
    #[arg(long, short)]
    yes: bool,
    /// Only with filters: change nothing unless exactly this many jobs are found, as a dry run before showed
    #[arg(long, value_name = "N")]
    expect: Option<usize>,
}

#[derive(Serialize)]
struct Refused {
    id: JobId,
    kind: String,
    why: &'static str,
}

/// The result of the command.
#[derive(Serialize)]
struct Report {
    /// A job that stays as it is makes the command fail, and is not only reported.
    #[serde(skip)]
    is_wanted: bool,
    action: &'static str,
    /// The database in which the jobs are.
    database: String,
    dry_run: bool,
    /// The object id of the audit entries, if there was more than one job.
    operation: Uuid,
    matched: usize,
    /// How many jobs of which kind were found, and how old they are.
    kinds: Vec<OfKind>,
    done: usize,
    /// How many jobs were not changed because another command or worker had changed them first.
    passed_over: usize,
    refused: Vec<Refused>,
    /// The command was stopped before all jobs were done.
    stopped: bool,
    /// The jobs that were changed; of a dry run, those that would be changed.
    ids: Vec<JobId>,
}

/// Jobs of one kind.
#[derive(Serialize)]
struct OfKind {
    kind: String,
    jobs: usize,
    /// When the first and the last of them arrived or was made.
    first_arrived: Timestamp,
    last_arrived: Timestamp,
    /// When the first and the last of them ended.
    first_ended: Timestamp,
    last_ended: Timestamp,
}

struct Operation<'a> {
    settings: &'a Settings,
    db: &'a Db,
    action: Action,
    how: &'a How,
    operator: &'a Operator,
    json: bool,
}

/// Changes all jobs that were found and may be changed.
pub async fn run<D: ToEnded>(
    settings: &Settings,
    db: &Db,
    deed: &Do<D>,
    how: &How,
    found: Vec<Ended>,
) -> Result<()> {
    let operation = Operation {
        settings,
        db,
        action: D::ACTION,
        how,
        operator: &deed.operator,
        json: deed.json,
    };
    operation.run(found).await
}

impl Operation<'_> {
    async fn run(&self, found: Vec<Ended>) -> Result<()> {
        let (jobs, refused) = admitted(self.db, self.action, found).await?;
        let refused = refused.into_iter().map(|(job, refusal)| Refused {
            id: job.id,
            kind: job.kind,
            why: refusal.why(),
        });
        // An operator who says `--all` means all jobs that can be requeued, so the others are not
        // reported as failures.
        let is_wanted = self.action == Action::Discard || jobs.is_empty();
        let mut report = Report {
            is_wanted,
            action: self.action.into_str(),
            database: self.place()?,
            dry_run: self.how.dry_run,
            operation: Clock::system().id(),
            matched: jobs.len(),
            kinds: by_kind(&jobs),
            done: 0,
            passed_over: 0,
            refused: refused.collect(),
            stopped: false,
            ids: Vec::new(),
        };
        if let Some(expected) = self.how.expect.filter(|expected| *expected != jobs.len()) {
            bail!(
                "{expected} were expected and {} match in {}; nothing was changed",
                counted(jobs.len()),
                report.database
            );
        }
        if self.how.dry_run {
            report.ids = jobs.iter().map(|job| job.id).collect();
            return self.print_report(&report, || self.preview(&report));
        }
        let mut reach = Reach::Unneeded;
        if !jobs.is_empty() {
            if !self.how.yes {
                self.confirm(&report)?;
            }
            let notifier = Notifier::open(self.settings).await?;
            reach = notifier.reach;
            let worked = self.work(&jobs, &notifier, &mut report).await;
            notifier.close(self.db).await;
            worked.with_context(|| {
                let done = report.done + report.passed_over;
                format!(
                    "after {done} of {}; said again, it goes on with the rest",
                    jobs.len()
                )
            })?;
        }
        self.print_report(&report, || self.summary(&report, reach))
    }

    /// Changes the jobs batch by batch, until all are done or the operator presses Ctrl-C.
    async fn work(&self, jobs: &[Ended], notifier: &Notifier, report: &mut Report) -> Result<()> {
        let clock = Clock::system();
        let author = self.operator.author(self.settings, self.db).await?;
        let stop = shutdown::on_signal()?;
        let rate = self.rate();
        let begun = Instant::now();
        // There are four batches a second, so that Ctrl-C is noticed soon and the rate is even.
        for batch in jobs.chunks(usize::try_from(rate.div_ceil(4))?.clamp(1, MAX_JOBS_PER_MESSAGE))
        {
            if stop.is_cancelled() {
                report.stopped = true;
                break;
            }
            let operation = report.operation;
            let taken = operate::carry_out(
                self.db,
                author.by(clock.now()),
                self.action,
                operation,
                batch,
                notifier.is_reached(),
            );
            let taken = taken.await?;
            report.done += taken.len();
            report.passed_over += batch.len() - taken.len();
            report.ids.extend(taken.iter().map(|job| job.id));
            if self.action == Action::Requeue {
                notifier.notify(self.db, &taken).await?;
            }
            let worked = report.done + report.passed_over;
            self.progress(worked, jobs.len());
            if worked < jobs.len() {
                let worked = u32::try_from(worked)?;
                let due = Duration::from_secs(1) * worked / rate;
                tokio::select! {
                    () = sleep_until(begun + due) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        Ok(())
    }

    fn rate(&self) -> u32 {
        let usual = || u32::try_from(usual_rate(self.action)).unwrap_or(u32::MAX);
        self.how.rate.unwrap_or_else(usual)
    }

    /// The address of the database without its credentials.
    fn place(&self) -> Result<String> {
        Ok(place(&Config::database_url(self.settings)?))
    }

    fn confirm(&self, report: &Report) -> Result<()> {
        let what = format!(
            "{} {} in {}",
            self.action,
            counted(report.matched),
            report.database
        );
        let end = match self.action {
            Action::Requeue => "",
            Action::Discard => " for good",
        };
        let what = format!("{what}{end}");
        confirm(&report.kinds(), &what, "--dry-run says which they are")
    }

    fn progress(&self, worked: usize, all: usize) {
        if terminal::err_is_one() && !self.json && all > MAX_JOBS_PER_MESSAGE {
            terminal::over(&format!("{}: {worked} of {all}", self.action.past()));
            if worked == all {
                terminal::err("\n");
            }
        }
    }

    /// Prints the report, and fails if not everything that the operator asked for was done.
    fn print_report(&self, report: &Report, text: impl Fn() -> String) -> Result<()> {
        if self.json {
            table::print_json(report)?;
        } else {
            table::print(&text())?;
        }
        let refusals = self.refusals(&report.refused);
        let mut problems = Vec::new();
        if report.is_wanted {
            problems.extend(refusals);
        } else if !self.json {
            for refusal in refusals {
                table::print(&format!("{refusal}\n"))?;
            }
        }
        if report.stopped {
            problems.push(format!(
                "stopped after {} of {}; said again, it goes on with the rest",
                report.done + report.passed_over,
                report.matched
            ));
        }
        if !problems.is_empty() {
            bail!("{}", problems.join("\n"));
        }
        Ok(())
    }

    /// Why jobs stay as they are, with a line for each reason.
    fn refusals(&self, refused: &[Refused]) -> Vec<String> {
        let mut reasons: BTreeMap<&str, Vec<&Refused>> = BTreeMap::new();
        for refused in refused {
            reasons.entry(refused.why).or_default().push(refused);
        }
        let reported = reasons.into_iter().map(|(why, refused)| {
            let which = match refused.as_slice() {
                [one] => format!("job {} ({})", one.id, one.kind),
                many => format!("{} jobs ({}, ..)", many.len(), many[0].kind),
            };
            format!("{which} cannot be {}: {why}", self.action.past())
        });
        reported.collect()
    }

    fn preview(&self, report: &Report) -> String {
        let ids = &report.ids;
        if ids.is_empty() {
            return NOTHING.to_owned();
        }
        let mut text = report.kinds();
        text.push('\n');
        for id in ids.iter().take(SHOWN) {
            let _ = writeln!(text, "{id}");
        }
        if ids.len() > SHOWN {
            let more = ids.len() - SHOWN;
            let _ = writeln!(text, ".. and {more} more; --json prints all");
        }
        let (jobs, verb, database) = (counted(ids.len()), self.action, &report.database);
        let _ = writeln!(
            text,
            "\n{jobs} to {verb} in {database}. Nothing was changed."
        );
        text
    }

    fn summary(&self, report: &Report, reach: Reach) -> String {
        if report.matched == 0 {
            return NOTHING.to_owned();
        }
        let (done, passed_over) = (&report.ids, report.passed_over);
        deeds::text(self.action, done, passed_over, reach.description())
    }
}

fn counted(jobs: usize) -> String {
    match jobs {
        1 => "1 job".to_owned(),
        many => format!("{many} jobs"),
    }
}

fn by_kind(jobs: &[Ended]) -> Vec<OfKind> {
    let mut kinds: BTreeMap<&str, OfKind> = BTreeMap::new();
    for job in jobs {
        let of_kind = kinds.entry(&job.kind).or_insert_with(|| OfKind {
            kind: job.kind.clone(),
            jobs: 0,
            first_arrived: job.created_at,
            last_arrived: job.created_at,
            first_ended: job.finished_at,
            last_ended: job.finished_at,
        });
        of_kind.jobs += 1;
        of_kind.first_arrived = of_kind.first_arrived.min(job.created_at);
        of_kind.last_arrived = of_kind.last_arrived.max(job.created_at);
        of_kind.first_ended = of_kind.first_ended.min(job.finished_at);
        of_kind.last_ended = of_kind.last_ended.max(job.finished_at);
    }
    kinds.into_values().collect()
}

impl Report {
    /// A table for people: how many jobs of which kind there are, and how long ago they arrived
    /// and ended.
    fn kinds(&self) -> String {
        let now = Clock::system().now();
        let ages = |first, last| {
            let (oldest, newest) = (age::text(now, first), age::text(now, last));
            if oldest == newest {
                oldest
            } else {
                format!("{oldest} to {newest}")
            }
        };
        let rows = self.kinds.table(&[
            ("JOBS", &|it| format!("{:>4}", it.jobs)),
            ("KIND", &|it| it.kind.clone()),
            ("ARRIVED", &|it| ages(it.first_arrived, it.last_arrived)),
            ("ENDED", &|it| ages(it.first_ended, it.last_ended)),
        ]);
        rows.render()
    }
}

#[derive(Clone, Copy)]
pub enum Reach {
    Unneeded,
    Reached,
    NoBroker,
    Unreached,
}

impl Reach {
    pub fn description(self) -> &'static str {
        match self {
            Reach::Unneeded | Reach::Reached => "workers are notified at once",
            Reach::NoBroker => "workers find out within seconds",
            Reach::Unreached => {
                "the broker cannot be reached, so workers find out seconds after it is back"
            }
        }
    }
}

/// Notifies the workers at once if there is a broker. Without one their sweep finds the jobs.
pub struct Notifier {
    bus: Option<Bus>,
    pub reach: Reach,
}

impl Notifier {
    pub async fn open(settings: &Settings) -> Result<Self> {
        let Some(broker) = Config::broker(settings)? else {
            let reach = Reach::NoBroker;
            return Ok(Notifier { bus: None, reach });
        };
        let bus = Bus::rabbitmq(&broker.url, &broker.prefix)?;
        let until = Instant::now() + PATIENCE;
        while !bus.is_up() && Instant::now() < until {
            sleep(Duration::from_millis(20)).await;
        }
        let reach = if bus.is_up() {
            Reach::Reached
        } else {
            Reach::Unreached
        };
        Ok(Notifier {
            bus: Some(bus),
            reach,
        })
    }

    pub fn is_reached(&self) -> bool {
        matches!(self.reach, Reach::Reached)
    }

    /// Notifies the workers of these jobs.
    async fn notify(&self, db: &Db, jobs: &[&Ended]) -> Result<()> {
        match self.reached() {
            Some(bus) => Ok(flow::notify(db, bus, jobs).await?),
            None => Ok(()),
        }
    }

    /// Notifies the workers of jobs of one kind.
    pub async fn notify_of(&self, db: &Db, queue: Queue, kind: &str, ids: &[JobId]) -> Result<()> {
        match self.reached() {
            Some(bus) => Ok(flow::notify_of(db, bus, queue, kind, ids).await?),
            None => Ok(()),
        }
    }

    /// The broker, where it was reached.
    pub fn reached(&self) -> Option<&Bus> {
        self.bus.as_ref().filter(|_| self.is_reached())
    }

    /// Closes the connection to the broker, after it has removed ids from the dead-letter queue.
    pub async fn close(self, db: &Db) {
        let is_reached = self.is_reached();
        let Some(bus) = self.bus else {
            return;
        };
        if is_reached {
            // If this fails, only old ids stay on the queue, and nothing reads them.
            let _ = flow::forget_dead_letters(db, &bus).await;
        }
        bus.close().await;
    }
}

/// Whether the operator named jobs by their ids, and not by filters.
pub fn is_named<D: ToEnded>(deed: &D, is_filtered: bool, how: &How) -> Result<bool> {
    let of_filters = how.dry_run || how.rate.is_some() || how.expect.is_some();
    match (deed.named().ids.is_empty(), is_filtered) {
        (true, false) => Err(misused(
            "which jobs? Name them by their ids, or by filters such as --kind; --all is all",
        )),
        (false, true) => Err(misused("name jobs by their ids or by filters, not by both")),
        (false, false) if of_filters => Err(misused(
            "leave out --dry-run, --rate and --expect, which are for filters: jobs are named by their ids here",
        )),
        (is_empty, _) => Ok(!is_empty),
    }
}

/// A job and its body as JSON. `waybill dead show` and similar commands print it.
pub fn to_json(job: &jobs::Summary, body: &serde_json::Value) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(job)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("body".to_owned(), json!(body));
    }
    Ok(value)
}
