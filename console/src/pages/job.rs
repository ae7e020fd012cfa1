//! One job: a delivery or a call, its attempts, what followed from the same delivery, its headers and its body. And what an operator does to it.

use axum::response::Response;
use domain::job::State;
use domain::trace::TraceId;
use operators::jobs::as_ended;
use store::jobs::operate::{self, Action};
use store::story;
use store::{events, jobs, traces};

use crate::access::{Reader, Visit};
use crate::act::Act;
use crate::deed;
use crate::error::Error;
use crate::listing::Table;
use crate::pages::body::Body;
use crate::pages::dead;
use crate::pages::object::{self, Object};
use lists::deeds::jobs::{Discard, ProcessAgain, Requeue, RunNow, ToEnded};
use lists::shown::{self, Cell};

/// How many jobs and events of one trace are shown.
const MOST: i64 = 100;

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let id = visit.id()?;
    let db = visit.db();
    let Some(job) = jobs::show(db, id).await? else {
        return Err(Error::Unknown("job"));
    };
    let of_trace = traces::of_indexed(db, &id.to_string()).await?;
    let mut found = traces::jobs(db, &of_trace, MOST).await?;
    if found.iter().all(|it| it.id != id) {
        found.push(job.clone());
    }
    let all: Vec<TraceId> = of_trace.into_iter().collect();
    let events = events::of_traces(db, &all, MOST).await?;
    let jobs = story::with_histories(db, found).await?;
    let (class, outcome) = object::outcome(&job);
    let is_ready = job.state == "ready";
    let shop = job.shop.as_deref().unwrap_or_default();
    let about = match &job.object_id {
        None => Cell::None,
        Some(id) if id.parse::<i64>().is_ok() => Cell::link(id.as_str(), shown::order(shop, id)),
        Some(id) if job.source == "payment" || id.starts_with("pi_") => {
            Cell::link(id.as_str(), shown::payment(id))
        }
        Some(id) => Cell::text(id.as_str()),
    };
    let is_delivery = job.source != "internal";
    let object = Object {
        here: if is_delivery { "/deliveries" } else { "" },
        kind: if is_delivery {
            "Delivery"
        } else {
            "Job of our own"
        },
        title: job.kind.clone(),
        facts: vec![
            ("State", Cell::State(class, outcome.to_owned())),
            ("About", about),
            ("Shop", Cell::maybe(job.shop.as_deref())),
            ("Provider", Cell::text(job.source.as_str())),
            ("Delivery", Cell::maybe_code(job.external_id.as_deref())),
            ("Arrived", Cell::time(job.created_at)),
            ("Ended", Cell::maybe_time(job.finished_at)),
            (
                "From arrival to end",
                object::lasted(job.created_at, job.finished_at),
            ),
            ("Next run", Cell::maybe_time(is_ready.then_some(job.run_at))),
            ("Failed runs", Cell::Number(job.attempts)),
            ("Last error", Cell::maybe(job.last_error.as_deref())),
            ("Queue", Cell::text(job.queue.as_str())),
            (
                "Bytes of the body",
                job.body_bytes.map_or(Cell::None, Cell::Number),
            ),
            ("Request", Cell::maybe_code(job.trace.as_deref())),
            ("Job", Cell::code(id.to_string())),
        ],
        chains: object::chains(&visit, &jobs, &events).await?,
        tables: if is_delivery {
            let of_job = jobs.iter().find(|it| it.job.id == id);
            let is_reconciled = of_job.is_some_and(|it| it.reconciled.is_some());
            vec![("Headers", headers(&job, is_reconciled))]
        } else {
            Vec::new()
        },
        body: match visit.query.get("format") {
            "" => Some(Body::of(&visit, &job).await?),
            _ => None,
        },
        acts: acts(&visit, &job),
        commands: commands(&job),
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

/// What a delivery's headers said, by what they say. The others are not kept.
fn headers(job: &jobs::Summary, is_reconciled: bool) -> Table {
    let mut table = Table::new(&["Header", "Value"]);
    let (signature, id) = if is_reconciled {
        let none = "none: it was found at the provider, and did not come by itself";
        (none, None)
    } else {
        (
            "right; the signature itself is not kept",
            job.external_id.as_deref(),
        )
    };
    for (name, value) in [
        ("Topic or type", Some(job.kind.as_str())),
        ("Shop", job.shop.as_deref()),
        ("Id of the delivery", id),
        ("API version", job.api_version.as_deref()),
        ("Request id", job.trace.as_deref()),
        ("Signature", Some(signature)),
    ] {
        table.row(vec![Cell::text(name), Cell::maybe(value)]);
    }
    table
}

fn acts(visit: &Visit<Reader>, job: &jobs::Summary) -> Vec<Act> {
    match job.state.as_str() {
        _ if job.discarded_at.is_some() => Vec::new(),
        "dead" => vec![
            to_ended::<Requeue>(visit, job),
            to_ended::<Discard>(visit, job),
        ],
        "ready" => {
            let due = Some(job.run_at.0);
            vec![deed::act::<RunNow, _>(visit, &job.id.to_string(), due)]
        }
        _ if is_requeued(job) => vec![to_ended::<ProcessAgain>(visit, job)],
        _ => Vec::new(),
    }
}

/// The button that does it to this job as it is shown.
fn to_ended<D: ToEnded>(visit: &Visit<Reader>, job: &jobs::Summary) -> Act {
    let (name, seen) = dead::choice(job);
    let mut act = deed::act::<D, _>(visit, &job.id.to_string(), None);
    if let Some(button) = &mut act.button {
        button.asks = false;
        button.fields.push((name.into(), seen));
        button.fields.push((dead::FROM.into(), "job".to_owned()));
    }
    act
}

/// Whether a finished job may be processed again.
fn is_requeued(job: &jobs::Summary) -> bool {
    let ended = as_ended(job, State::Done);
    ended.is_ok_and(|job| operate::refusal(&job, Action::Requeue).is_none())
}

fn commands(job: &jobs::Summary) -> Vec<(&'static str, String)> {
    let id = job.id;
    match job.state.as_str() {
        "dead" => vec![(
            "Show it with its body, without personal data",
            format!("waybill dead show {id}"),
        )],
        _ => vec![("Show it", format!("waybill jobs show {id}"))],
    }
}
