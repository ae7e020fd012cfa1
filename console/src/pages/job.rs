//! One job: a delivery or a call, its attempts, what followed from the same delivery, its headers and its body. And what an operator does to it.

use axum::response::Response;
use domain::api_key::Role;
use domain::job::{JobId, State};
use domain::time::Timestamp;
use domain::trace::TraceId;
use operators::jobs::{self as flow, as_ended};
use process::Parts;
use store::jobs::operate::{self, Action};
use store::story;
use store::{events, jobs, traces};

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Look, Question, said};
use crate::deed;
use crate::error::Error;
use crate::listing::Table;
use crate::pages::body::Body;
use crate::pages::object::{self, Object};
use lists::deeds::jobs::RunNow;
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

/// When the job ended or is due, as the page shows it: what is done to it is done to this state alone.
fn seen(job: &jobs::Summary) -> Timestamp {
    job.finished_at.unwrap_or(job.run_at)
}

fn acts(visit: &Visit<Reader>, job: &jobs::Summary) -> Vec<Act> {
    let id = job.id;
    let does = |what, label, path: &str, command: String| {
        let fields = vec![("seen", seen(job).0.to_string())];
        let button = Button::does(label, format!("/jobs/{id}/{path}"), fields);
        Act::of(visit, Role::Operator, what, button, command)
    };
    match job.state.as_str() {
        _ if job.discarded_at.is_some() => Vec::new(),
        "dead" => vec![
            does(
                "Requeue it, once what it died of is mended. It has as many tries as a new one.",
                "Requeue",
                "requeue",
                format!("waybill dead requeue {id}"),
            ),
            Act::of(
                visit,
                Role::Operator,
                "Give it up for good, if it can never succeed.",
                Button::asks("Discard ..", format!("/jobs/{id}/discard")).danger(),
                format!("waybill dead discard {id}"),
            ),
        ],
        "ready" => vec![deed::act::<RunNow, _>(
            visit,
            &id.to_string(),
            Some(seen(job).0),
        )],
        _ if is_requeued(job) => vec![does(
            "Requeue it. What is known already is not done twice.",
            "Requeue",
            "requeue",
            format!("waybill jobs requeue {id}"),
        )],
        _ => Vec::new(),
    }
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

pub async fn requeue(write: Write<Operator>) -> Result<Response, Error> {
    to_one(&write, Action::Requeue, said::REQUEUED).await
}

pub async fn discard(write: Write<Operator>) -> Result<Response, Error> {
    to_one(&write, Action::Discard, said::DISCARDED).await
}

async fn to_one(
    write: &Write<Operator>,
    action: Action,
    done: said::Sentence,
) -> Result<Response, Error> {
    let (id, seen) = (write.id()?, Timestamp(write.fields.read("seen")?));
    let is_done = operate(write, id, seen, action).await?;
    let done = if is_done { done } else { said::CHANGED };
    Ok(act::see(&shown::job(id), done))
}

/// Does it to one job. False when the job is not any more as the page showed it.
async fn operate(
    write: &Write<Operator>,
    id: JobId,
    seen: Timestamp,
    action: Action,
) -> Result<bool, Error> {
    let Parts { db, bus, clock, .. } = write.parts();
    let job = jobs::show(db, id).await?.ok_or(Error::Unknown("job"))?;
    if job.state == State::Ready.into_str()
        || job.finished_at != Some(seen)
        || job.discarded_at.is_some()
    {
        return Ok(false);
    }
    let wanted = match action {
        Action::Requeue if job.state == State::Done.into_str() => State::Done,
        _ => State::Dead,
    };
    let refused = |why: String| Error::Refused(format!("This job stays as it is: {why}."));
    let ended = as_ended(&job, wanted).map_err(|why| refused(format!("it {why}")))?;
    let (admitted, kept) = flow::admitted(db, action, vec![ended]).await?;
    if let Some((_, refusal)) = kept.first() {
        return Err(refused(refusal.why().to_owned()));
    }
    let taken =
        operate::carry_out(db, write.by(), action, clock.id(), &admitted, bus.is_up()).await?;
    if action == Action::Requeue {
        flow::notify(db, bus, &taken).await?;
    }
    Ok(!taken.is_empty())
}

/// Asks whether a job is to be discarded, because that is for good.
pub async fn ask_discard(visit: Visit<Operator>) -> Result<Response, Error> {
    let id = visit.id()?;
    let job = jobs::show(visit.db(), id).await?;
    let job = job.ok_or(Error::Unknown("job"))?;
    let is_dead = job.state == State::Dead.into_str();
    let mut about = vec![
        "The job is then done: it is never run again, and its body is removed for good. Its row stays, and \
         the audit says who discarded it."
            .to_owned(),
    ];
    if !is_dead {
        about.push("This job is not dead, so there is nothing to discard.".to_owned());
    }
    let question = Question {
        here: "/dead".to_owned(),
        title: format!("Discard this {} for good?", job.kind),
        about,
        facts: vec![
            ("Job", Cell::code(id.to_string())),
            ("Shop", Cell::maybe(job.shop.as_deref())),
            ("Died", Cell::maybe_time(job.finished_at)),
            ("Last error", Cell::maybe(job.last_error.as_deref())),
        ],
        to: is_dead.then(|| format!("/jobs/{id}/discard")),
        label: "Discard it for good",
        look: Look::Danger,
        fields: vec![("seen", seen(&job).0.to_string())],
        back: shown::job(id),
        command: format!("waybill dead discard {id}"),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}
