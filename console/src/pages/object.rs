//! A page about one thing, such as an order: what is known of it, and what happened, by cause.

use std::collections::BTreeMap;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use domain::envelope::Envelope;
use domain::job::JobId;
use domain::time::Timestamp;
use domain::trace::{TraceContext, TraceId};
use store::sent_events::{self, Sent};
use store::sql;
use store::story::WithHistory;
use uuid::Uuid;

use crate::access::Visit;
use crate::act::Act;
use crate::frame::Frame;
use crate::listing::{self, Table};
use crate::pages::body::Body;
use lists::shown::{self, Cell, Moment};

#[derive(Default)]
pub struct Object {
    /// The list to which it belongs.
    pub here: &'static str,
    /// What kind of thing it is.
    pub kind: &'static str,
    pub title: String,
    pub facts: Vec<(&'static str, Cell)>,
    pub chains: Vec<Chain>,
    pub tables: Vec<(&'static str, Table)>,
    /// The body of a delivery or call.
    pub body: Option<Body>,
    pub note: Option<String>,
    /// What can be done.
    pub acts: Vec<Act>,
    /// What a command does, and the command.
    pub commands: Vec<(&'static str, String)>,
}

/// What followed from one delivery or request.
pub struct Chain {
    pub trace: Option<String>,
    pub steps: Vec<Step>,
}

/// One thing that happened.
pub struct Step {
    pub at: Moment,
    pub class: &'static str,
    /// `Delivery`, `Attempt`, `Call`, `Event`.
    pub sort: &'static str,
    pub what: Cell,
    pub outcome: String,
    pub took: String,
    pub why: String,
    /// By which a link leads to it.
    pub anchor: Option<String>,
}

#[derive(Template)]
#[template(path = "object.html")]
struct ObjectPage<'a> {
    frame: Frame<'a>,
    object: &'a Object,
}

impl Object {
    pub fn answer<R>(&self, visit: &Visit<R>) -> Response {
        match visit.query.get("format") {
            "json" => listing::items(&self.timeline()),
            "csv" => listing::csv(&self.timeline(), &self.kind.to_lowercase()),
            _ => {
                let page = ObjectPage {
                    frame: Frame::of(visit, self.here),
                    object: self,
                };
                Html(page.to_string()).into_response()
            }
        }
    }

    /// All that happened, as rows.
    fn timeline(&self) -> Table {
        let mut table = Table::new(&["At", "Trace", "Sort", "What", "Outcome", "Took", "Why"]);
        for chain in &self.chains {
            for step in &chain.steps {
                table.row(vec![
                    Cell::Time(step.at),
                    Cell::maybe(chain.trace.as_deref()),
                    Cell::text(step.sort),
                    step.what.clone(),
                    Cell::text(step.outcome.as_str()),
                    Cell::text(step.took.as_str()),
                    Cell::text(step.why.as_str()),
                ]);
            }
        }
        table
    }
}

/// The tables that have rows.
pub fn filled<const N: usize>(tables: [(&'static str, Table); N]) -> Vec<(&'static str, Table)> {
    let tables = tables.into_iter();
    tables.filter(|(_, table)| !table.rows.is_empty()).collect()
}

/// What happened, in chains by trace: a delivery, its attempts, the calls that followed from it, and its
/// events with where they went. The chain that began first comes first.
pub async fn chains<R>(
    visit: &Visit<R>,
    jobs: &[WithHistory],
    events: &[Envelope],
) -> sql::Result<Vec<Chain>> {
    let sent = sent_events::of(visit.db(), events).await?;
    let mut chains: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for it in jobs {
        let WithHistory { job, history, .. } = it;
        let steps = chains.entry(job.trace_id.clone()).or_default();
        let is_delivery = job.source != "internal";
        let (class, outcome) = outcome(job);
        let took = job.finished_at.map(|at| at.0 - job.created_at.0);
        steps.push(Step {
            at: Moment(job.created_at),
            class,
            sort: if is_delivery { "Delivery" } else { "Call" },
            what: Cell::link(job.kind.clone(), shown::job(job.id)),
            outcome: outcome.to_owned(),
            took: took.map_or_else(String::new, |took| {
                format!("ended after {}", shown::took(took))
            }),
            why: match &it.reconciled {
                Some(found) if why(job).is_empty() => found.in_words(),
                Some(found) => format!("{}; {}", found.in_words(), why(job)),
                None => why(job),
            },
            anchor: Some(anchor(job.id)),
        });
        for attempt in history {
            let status = attempt.status;
            let status = status.map_or_else(String::new, |status| format!("answer {status}: "));
            steps.push(Step {
                at: Moment(attempt.started_at),
                class: shown::class(&attempt.outcome),
                sort: "Attempt",
                what: Cell::text(format!("{} of {}", attempt.number, job.kind)),
                outcome: attempt.outcome.clone(),
                took: format!("took {}", shown::took(attempt.duration_ms)),
                why: format!("{status}{}", attempt.error),
                anchor: None,
            });
        }
    }
    for event in events {
        let trace = event.traceparent.map(TraceContext::trace_id);
        let trace = trace.unwrap_or(TraceId::of(event.id)).to_string();
        chains.entry(trace).or_default().push(Step {
            at: Moment(event.created_at),
            class: "plain",
            sort: "Event",
            what: Cell::text(event.kind.clone()),
            outcome: String::new(),
            took: String::new(),
            why: whereabouts(event.id, sent.get(&event.id)),
            anchor: Some(anchor(event.id)),
        });
    }
    let mut chains: Vec<Chain> = chains
        .into_iter()
        .map(|(trace, mut steps)| {
            steps.sort_by_key(|step| step.at.0);
            Chain {
                trace: Some(trace),
                steps,
            }
        })
        .collect();
    chains.sort_by_key(|chain| chain.steps.first().map(|step| step.at.0));
    Ok(chains)
}

/// Where an event went.
fn whereabouts(id: Uuid, sent: Option<&Sent>) -> String {
    let mut parts = vec![format!("event {id}")];
    if let Some(sent) = sent {
        parts.extend(sent.went_to.iter().map(|url| format!("went to {url}")));
        parts.extend(sent.waits_for.iter().map(|url| format!("waits for {url}")));
    }
    parts.join(" · ")
}

fn anchor(id: JobId) -> String {
    format!("a{id}")
}

/// What became of a job, and the class of that.
pub fn outcome(job: &store::jobs::Summary) -> (&'static str, &'static str) {
    match job.state.as_str() {
        _ if job.discarded_at.is_some() => ("plain", "discarded"),
        "done" if job.last_error.is_some() => ("plain", "not understood"),
        "done" => ("good", "done"),
        "dead" => ("bad", "dead"),
        _ if job.attempts > 0 => ("open", "is tried again"),
        _ => ("open", "waits"),
    }
}

fn why(job: &store::jobs::Summary) -> String {
    let mut parts = Vec::new();
    parts.extend(job.external_id.as_ref().map(|id| format!("delivery {id}")));
    parts.extend(job.trace.as_ref().map(|id| format!("request {id}")));
    parts.extend(job.last_error.clone());
    if job.state == "ready" {
        parts.push(format!("next run {}", Moment(job.run_at).utc()));
    }
    parts.join(" · ")
}

/// The times between which something happened, for a fact.
pub fn lasted(from: Timestamp, until: Option<Timestamp>) -> Cell {
    until.map_or(Cell::None, |until| {
        Cell::text(shown::took(until.0.saturating_sub(from.0)))
    })
}
