//! Lists of deliveries and of what is done with them: jobs, dead and failing ones, what was refused, operations and
//! pauses.

use std::time::Duration;

use domain::job::{JobId, Queue, Source, State};
use domain::time::Timestamp;
use server::deliveries::{Line, Outcome};
use store::bulk_operations::{self, Operation};
use store::jobs::arrived;
use store::jobs::ended;
use store::jobs::operate::Action;
use store::jobs::retried::{self, Failing};
use store::jobs::{self, LOOKED_THROUGH, Summary};
use store::pauses::{self, Pause};
use store::refused_deliveries::{self, Refused};
use store::sql::Db;
use store::traces;

use crate::age::{self, Moment};
use crate::shown::{self, Cell, bounded};
use crate::{
    Any, Column, Error, Extent, List, Page, Wanted, column, lesser, place, sentence, words,
};

/// What was accepted. A duplicate of a delivery is answered and leaves no row; what was refused has a list of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deliveries;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct DeliveryFilter {
    /// Only deliveries of this provider
    #[arg(long, value_parser = ["storefront", "payment"])]
    pub source: Option<String>,
    /// Only deliveries of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::topic(), hide_possible_values = true)]
    pub topic: Option<String>,
    /// Only deliveries of this shop domain
    #[arg(long, value_parser = words::shop)]
    pub shop: Option<String>,
    /// Only deliveries of this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    pub connection: Option<String>,
    /// Only deliveries whose job is in this state
    #[arg(long, value_parser = words::state())]
    pub state: Option<State>,
    /// Only deliveries that arrived then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
    /// day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub since: Option<Moment>,
    /// Only deliveries that arrived before then
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub before: Option<Moment>,
}

impl DeliveryFilter {
    pub fn at(&self, now: Timestamp) -> arrived::Filter {
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        arrived::Filter {
            source: text(&self.source),
            kind: text(&self.topic),
            shop: text(&self.shop),
            connection: text(&self.connection),
            state: self.state.map_or("", |it| it.into_str()).to_owned(),
            from: self.since.map(|it| it.at(now)),
            until: self.before.map(|it| it.at(now)),
        }
    }
}

impl List for Deliveries {
    type Filter = DeliveryFilter;
    type Row = Line;

    const PAGE: &'static str = "/deliveries";
    const COMMAND: &'static str = "deliveries list";
    const TITLE: &'static str = "Deliveries";
    const ABOUT: &'static str =
        "What was accepted, the newest first. A duplicate is answered and leaves no row.";
    const EMPTY: &'static str = "No deliveries.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<Line>] = &[
        column("Arrived", |it| Cell::age(it.received_at)),
        column("Topic", |it| Cell::maybe(it.topic.as_deref())),
        column("Outcome", outcome),
        lesser("Took", |it| {
            let took = it.milliseconds;
            took.map_or(Cell::None, |took| Cell::text(shown::took(took)))
        }),
        column("About", about),
        column("Shop", |it| Cell::maybe(it.shop.as_deref())),
        lesser("Delivery", |it| Cell::maybe(it.delivery_id.as_deref())),
        column("Job", |it| it.job.map_or(Cell::None, Cell::job)),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &DeliveryFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Line>, Error> {
        let before = wanted.cursor(|text| text.parse().ok())?;
        let before = before.unwrap_or(JobId::max());
        let page = arrived::page(db, &filter.at(wanted.now), before, wanted.limit).await?;
        let most = bounded(LOOKED_THROUGH - 1, i64::MAX);
        Ok(Page {
            items: page.rows.iter().map(Line::now).collect(),
            next: page.next.map(|id| id.to_string()),
            note: page.is_cut.then(|| {
                format!(
                    "More than {most} jobs were looked through; older ones are on the next page."
                )
            }),
        })
    }
}

fn outcome(line: &Line) -> Cell {
    let (class, outcome) = match line.outcome {
        Outcome::Discarded => ("plain", "discarded"),
        Outcome::NotUnderstood => ("plain", "not understood"),
        Outcome::Kept => ("plain", "kept"),
        Outcome::Done => ("good", "done"),
        Outcome::Dead => ("bad", "dead"),
        Outcome::Retrying => ("open", "is tried again"),
        Outcome::Waiting => ("open", "waits"),
        Outcome::Refused => ("bad", "refused"),
    };
    let outcome = match line.deliveries {
        2.. => format!("{outcome} {} times", line.deliveries),
        _ => outcome.to_owned(),
    };
    Cell::State(class, outcome)
}

fn about(line: &Line) -> Cell {
    if line.outcome == Outcome::Refused {
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        return Cell::text(refused_deliveries::why(
            &given(&line.reason),
            &given(&line.signature),
        ));
    }
    let Some(id) = &line.object_id else {
        return Cell::None;
    };
    if line.source == Source::Payment.into_str() {
        return Cell::link(id.as_str(), shown::of_provider(id));
    }
    if id.parse::<i64>().is_ok() {
        let shop = line.shop.as_deref().unwrap_or_default();
        return Cell::link(id.as_str(), shown::order(shop, id));
    }
    Cell::text(id.as_str())
}

/// Deliveries and what followed from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jobs;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct JobFilter {
    /// Only jobs of this queue
    #[arg(long, value_parser = words::queue())]
    pub queue: Option<Queue>,
    /// Only jobs in this state; those that are scheduled or tried again are ready
    #[arg(long, value_parser = words::state())]
    pub state: Option<State>,
    /// Only jobs of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::kind(), hide_possible_values = true)]
    pub kind: Option<String>,
    /// Only jobs that are about the order, payment or other object with this id
    #[arg(long, value_name = "ID")]
    pub object: Option<String>,
    /// Only jobs of this shop domain
    #[arg(long, value_parser = words::shop)]
    pub shop: Option<String>,
    /// Only jobs of this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    pub connection: Option<String>,
    /// Only jobs that arrived then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
    /// day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub since: Option<Moment>,
    /// Only jobs that arrived before then; a day means its beginning, too
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub before: Option<Moment>,
    /// Only the job of one delivery and all jobs that followed from it, the oldest first. Give its
    /// request id (`X-Request-Id`), trace id (`traceparent`), delivery id or job id
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["queue", "state", "kind", "object", "shop", "connection", "since", "before", "after"]
    )]
    pub trace: Option<String>,
}

impl List for Jobs {
    type Filter = JobFilter;
    type Row = Summary;

    const PAGE: &'static str = "/jobs";
    const COMMAND: &'static str = "jobs list";
    const TITLE: &'static str = "Jobs";
    const ABOUT: &'static str =
        "Deliveries, and the calls and other work that followed from them, the newest first.";
    const EMPTY: &'static str = "No jobs.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<Summary>] = &[
        column("Arrived", |it| Cell::age(it.created_at)),
        lesser("Queue", |it| Cell::text(it.queue.as_str())),
        column("Kind", |it| Cell::text(it.kind.as_str())),
        column("State", |it| match it.discarded_at {
            Some(_) => shown::state("discarded"),
            None => shown::state(it.state.as_str()),
        }),
        column("Next run", |it| {
            let waits = it.state == State::Ready.into_str();
            waits.then_some(it.run_at).map_or(Cell::None, Cell::due)
        }),
        column("Attempts", |it| Cell::Number(it.attempts)),
        column("Shop", |it| Cell::maybe(it.shop.as_deref())),
        column("Job", |it| Cell::job(it.id)),
        sentence("Last error", |it| Cell::maybe(it.last_error.as_deref())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &JobFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Summary>, Error> {
        if let Some(id) = &filter.trace {
            let traces = traces::of(db, id.trim()).await?;
            let jobs = traces::jobs(db, &traces, wanted.rows()).await?;
            let mut page = Page::first(jobs, wanted);
            let first = "Those of one trace: the oldest first.".to_owned();
            page.note = Some(
                page.note
                    .map_or_else(|| first.clone(), |it| format!("{first} {it}")),
            );
            return Ok(page);
        }
        let any = jobs::Filter::default();
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let filter = jobs::Filter {
            queue: filter.queue.map_or("", |it| it.into_str()).to_owned(),
            state: filter.state.map_or("", |it| it.into_str()).to_owned(),
            kind: text(&filter.kind),
            shop: text(&filter.shop),
            connection: text(&filter.connection),
            object_id: text(&filter.object),
            since: filter.since.map_or(any.since, |it| it.at(wanted.now)),
            before: filter.before.map_or(any.before, |it| it.at(wanted.now)),
            after: wanted
                .cursor(|text| text.parse().ok())?
                .unwrap_or(any.after),
        };
        let jobs = jobs::list(db, &filter, wanted.rows()).await?;
        Ok(Page::full(jobs, wanted, |it| it.id.to_string()))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DeadJobs;

// Which dead jobs are meant. Their list and what is done to them have the same filters. (A comment for the documentation
// would become the help of the commands.)
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DeadFilter {
    /// Only jobs of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::kind(), hide_possible_values = true)]
    pub kind: Option<String>,
    /// Only jobs of this queue
    #[arg(long, value_parser = words::queue())]
    pub queue: Option<Queue>,
    /// Only jobs of this shop domain
    #[arg(long, value_parser = words::shop)]
    pub shop: Option<String>,
    /// Only jobs of this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    pub connection: Option<String>,
    /// Only jobs whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Only jobs that died then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
    /// day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub since: Option<Moment>,
    /// Only jobs that died before then
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub before: Option<Moment>,
}

impl DeadFilter {
    /// Whether all dead jobs are meant.
    pub fn is_any(&self) -> bool {
        let texts = [&self.kind, &self.shop, &self.connection, &self.error];
        self.queue.is_none() && !self.is_of_time() && texts.iter().all(|it| it.is_none())
    }

    /// Whether it says when the jobs died.
    pub fn is_of_time(&self) -> bool {
        self.since.is_some() || self.before.is_some()
    }

    pub fn at(&self, now: Timestamp) -> ended::Filter {
        let any = ended::Filter::default();
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        ended::Filter {
            queue: self.queue,
            kind: text(&self.kind),
            shop: text(&self.shop),
            connection: text(&self.connection),
            error: text(&self.error),
            from: self.since.map_or(any.from, |it| it.at(now)),
            until: self.before.map_or(any.until, |it| it.at(now)),
            ..any
        }
    }
}

impl List for DeadJobs {
    type Filter = DeadFilter;
    type Row = Summary;

    const PAGE: &'static str = "/dead";
    const COMMAND: &'static str = "dead list";
    const TITLE: &'static str = "Dead jobs";
    const ABOUT: &'static str = "Jobs that were given up, those that died last first. Mend what they died of, then \
                                 requeue them.";
    const EMPTY: &'static str = "No dead jobs.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<Summary>] = &[
        column("Died", |it| Cell::maybe_age(it.finished_at)),
        column("Kind", |it| Cell::text(it.kind.as_str())),
        column("Attempts", |it| Cell::Number(it.attempts)),
        column("About", |it| Cell::maybe(it.object_id.as_deref())),
        column("Shop", |it| Cell::maybe(it.shop.as_deref())),
        column("Job", |it| Cell::job(it.id)),
        sentence("Last error", |it| Cell::maybe(it.last_error.as_deref())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &DeadFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Summary>, Error> {
        let filter = filter.at(wanted.now);
        let page = ended::page(db, &filter, wanted.place()?, wanted.limit).await?;
        Ok(looked_through(page, "dead jobs"))
    }
}

/// A page of what sorts by a time.
fn looked_through<Row>(page: jobs::Page<Row, (Timestamp, JobId)>, what: &str) -> Page<Row> {
    let most = bounded(LOOKED_THROUGH, i64::MAX);
    Page {
        items: page.rows,
        next: page.next.map(place),
        note: page.is_cut.then(|| {
            format!("At most {most} {what} are looked through for one page; older ones are on the next page.")
        }),
    }
}

/// Deliveries and calls to providers that are tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailingJobs;

/// How long ago a job may have failed to be in the list of those that are tried again.
pub const FAILED: Duration = Duration::from_hours(1);

#[derive(Clone, Debug, Default, clap::Args)]
pub struct FailingFilter {
    /// Only jobs of this topic or event type; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::kind(), hide_possible_values = true)]
    pub kind: Option<String>,
}

impl List for FailingJobs {
    type Filter = FailingFilter;
    type Row = Failing;

    const PAGE: &'static str = "/failing";
    const COMMAND: &'static str = "jobs failing";
    const TITLE: &'static str = "Failing jobs";
    const ABOUT: &'static str = "Jobs that failed within the last hour and are tried again, those that failed last \
                                 first. They are deliveries and calls to providers.";
    const EMPTY: &'static str = "No job that failed within the last hour is tried again.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<Failing>] = &[
        column("Failed", |it| Cell::age(it.failed_at)),
        column("Kind", |it| Cell::text(it.kind.as_str())),
        lesser("Answer", |it| it.status.map_or(Cell::None, Cell::Number)),
        lesser("Attempts", |it| Cell::Number(it.attempts)),
        column("Runs again", |it| Cell::due(it.run_at)),
        column("About", |it| Cell::maybe(it.object_id.as_deref())),
        column("Shop", |it| Cell::maybe(it.shop.as_deref())),
        column("Job", |it| Cell::job(it.job)),
        sentence("Last error", |it| Cell::text(it.error.as_str())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &FailingFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Failing>, Error> {
        let since = wanted.now.minus(FAILED);
        let kind = filter.kind.as_deref().unwrap_or_default();
        let page = retried::page(db, since, kind, wanted.place()?, wanted.limit).await?;
        Ok(looked_through(page, "attempts"))
    }
}

/// What was refused in the last month, hour by hour. Nobody signed it, so it may all be made up.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusedDeliveries;

#[derive(Clone, Debug, clap::Args)]
pub struct RefusedFilter {
    /// What was refused then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
    /// day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", default_value = "24h", value_parser = age::moment)]
    pub since: Moment,
    /// Only what came by this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    pub connection: Option<String>,
}

impl List for RefusedDeliveries {
    type Filter = RefusedFilter;
    type Row = Refused;

    const PAGE: &'static str = "/refused";
    const COMMAND: &'static str = "refused list";
    const TITLE: &'static str = "Refused deliveries";
    const ABOUT: &'static str = "By hour and reason, the latest first. Topic and shop are those of the latest one; \
                                 nobody signed them.";
    const EMPTY: &'static str = "Nothing was refused.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<Refused>] = &[
        column("Last", |it| Cell::age(it.last_at)),
        column("Count", |it| Cell::Number(it.deliveries)),
        column("Provider", |it| Cell::text(it.source.as_str())),
        column("Connection", |it| Cell::text(it.connection.as_str())),
        column("Why", |it| {
            Cell::text(refused_deliveries::why(&it.reason, &it.signature))
        }),
        lesser("Answer", |it| Cell::Number(it.status)),
        column("Topic", |it| Cell::maybe(it.topic.as_deref())),
        column("Shop", |it| Cell::maybe(it.shop.as_deref())),
        sentence("It came with", |it| Cell::text(came(it))),
        sentence("What to do", |it| match it.advice.as_str() {
            "" => Cell::None,
            advice => Cell::code(refused_deliveries::set(advice)),
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &RefusedFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Refused>, Error> {
        let since = filter.since.at(wanted.now);
        let connection = filter.connection.as_deref().unwrap_or_default();
        let refused = refused_deliveries::list(db, connection, since, wanted.rows()).await?;
        Ok(Page::first(refused, wanted))
    }
}

/// What is known of the latest one.
fn came(it: &Refused) -> String {
    let mut parts = vec![format!("profile {}", it.profile)];
    if !it.headers.is_empty() {
        parts.push(it.headers.clone());
    }
    if let Some(age) = it.age_seconds {
        parts.push(format!("{age} s old"));
    }
    if let Some(key) = it.body_key {
        parts.push(format!("body {}", &key.simple().to_string()[..8]));
    }
    parts.join(", ")
}

/// What operators have many dead jobs go through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operations;

impl List for Operations {
    type Filter = Any;
    type Row = Operation;

    const PAGE: &'static str = "/operations";
    const COMMAND: &'static str = "operations list";
    const TITLE: &'static str = "Operations";
    const ABOUT: &'static str = "Dead jobs that are requeued or discarded together, the newest first. To begin one, \
                                 choose the dead jobs by the filters of their list.";
    const EMPTY: &'static str = "There was no operation yet.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<Operation>] = &[
        column("Confirmed", |it| Cell::age(it.created_at)),
        column("What", |it| Cell::text(what(it.action))),
        column("State", |it| operation_state(it.state)),
        column("Found", |it| it.found.map_or(Cell::None, Cell::Number)),
        column("Done", |it| Cell::Number(it.done)),
        lesser("Passed over", |it| Cell::Number(it.passed_over)),
        lesser("Refused", |it| Cell::Number(it.refused)),
        column("By", |it| Cell::text(it.actor.as_str())),
        column("Operation", |it| {
            Cell::link(it.id.to_string(), format!("/operations/{}", it.id))
        }),
    ];

    async fn page(&self, db: &Db, _: &Any, wanted: Wanted<'_>) -> Result<Page<Operation>, Error> {
        Ok(Page::first(
            bulk_operations::list(db, wanted.rows()).await?,
            wanted,
        ))
    }
}

pub fn what(action: Action) -> &'static str {
    match action {
        Action::Requeue => "Requeue",
        Action::Discard => "Discard",
    }
}

pub fn operation_state(state: bulk_operations::State) -> Cell {
    use bulk_operations::State;
    let class = match state {
        State::Waiting | State::Running => "open",
        State::Done => "good",
        State::Stopped | State::Undone => "plain",
    };
    Cell::State(class, state.to_string())
}

/// What operators have paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses;

impl List for Pauses {
    type Filter = Any;
    type Row = Pause;

    const PAGE: &'static str = "/pauses";
    const COMMAND: &'static str = "pauses list";
    const TITLE: &'static str = "Pauses";
    const ABOUT: &'static str = "What operators have paused. Deliveries are accepted all the same. Their jobs wait, \
                                 and go on by themselves when the pause ends.";
    const EMPTY: &'static str = "Nothing is paused.";
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<Pause>] = &[
        column("What", |it| Cell::text(it.target.scope().into_str())),
        column("Name", |it| Cell::text(it.target.name())),
        column("Until", |it| Cell::time(it.until)),
        column("Begun", |it| Cell::age(it.begun_at)),
        column("By", |it| Cell::text(it.actor.as_str())),
        lesser("Pause", |it| {
            Cell::link(it.id.to_string(), format!("/pauses/{}", it.id))
        }),
    ];

    async fn page(&self, db: &Db, _: &Any, wanted: Wanted<'_>) -> Result<Page<Pause>, Error> {
        Ok(Page::whole(pauses::in_force(db, wanted.now).await?))
    }
}
