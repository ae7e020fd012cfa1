//! One job: a delivery or a call, its attempts, and what followed from the same delivery. Its body is not
//! read.

use axum::response::Response;
use domain::trace::TraceId;
use store::story;
use store::{events, jobs, traces};
use uuid::Uuid;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::pages::object::{self, Object};
use crate::shown::{self, Cell};

/// How many jobs and events of one trace are shown.
const MOST: i64 = 100;

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let id = Uuid::parse_str(visit.path("id")).map_err(|_| Error::NotFound)?;
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
            (
                "Delivery",
                job.external_id
                    .as_ref()
                    .map_or(Cell::None, |id| Cell::code(id.as_str())),
            ),
            ("Arrived", Cell::time(job.created_at)),
            ("Ended", Cell::maybe_time(job.finished_at)),
            (
                "From arrival to end",
                object::lasted(job.created_at, job.finished_at),
            ),
            (
                "Next run",
                if is_ready {
                    Cell::time(job.run_at)
                } else {
                    Cell::None
                },
            ),
            ("Failed runs", Cell::Number(job.attempts)),
            ("Last error", Cell::maybe(job.last_error.as_deref())),
            ("Queue", Cell::text(job.queue.as_str())),
            (
                "Bytes of the body",
                job.body_bytes.map_or(Cell::None, Cell::Number),
            ),
            (
                "Request",
                job.trace
                    .as_ref()
                    .map_or(Cell::None, |id| Cell::code(id.as_str())),
            ),
            ("Job", Cell::code(id.to_string())),
        ],
        chains: object::chains(&jobs, &events),
        tables: Vec::new(),
        note: None,
        commands: commands(&job),
    };
    Ok(object.answer(&visit))
}

fn commands(job: &jobs::Summary) -> Vec<(&'static str, String)> {
    let id = job.id;
    match job.state.as_str() {
        "dead" => vec![
            (
                "Show it with its body, without personal data",
                format!("waybill dead show {id}"),
            ),
            (
                "Run it again, once it is mended",
                format!("waybill dead replay {id}"),
            ),
            ("Give it up for good", format!("waybill dead discard {id}")),
        ],
        "ready" => vec![
            ("Show it", format!("waybill jobs show {id}")),
            ("Run it now", format!("waybill jobs run-now {id}")),
        ],
        _ => vec![
            ("Show it", format!("waybill jobs show {id}")),
            ("Process it again", format!("waybill jobs replay {id}")),
        ],
    }
}
