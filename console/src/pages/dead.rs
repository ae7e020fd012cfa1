//! Dead jobs, those that died last first.

use axum::response::Response;
use domain::job::{JobId, Queue};
use domain::time::Timestamp;
use store::jobs::ended::{self, Filter};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::pages::PAGE_ROWS;
use crate::pages::deliveries::field;
use crate::shown::Cell;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let given = |name| visit.query.get(name).to_owned();
    let queue: Option<Queue> = match visit.query.get("queue") {
        "" => None,
        text => Some(text.parse().map_err(|_| Error::Fields)?),
    };
    let filter = Filter {
        queue,
        kind: given("kind"),
        shop: given("shop").to_ascii_lowercase(),
        error: given("error"),
        ..Filter::default()
    };
    let after = match visit.query.get("before") {
        "" => None,
        text => Some(cursor(text).ok_or(Error::Fields)?),
    };
    let jobs = ended::newest_dead(visit.db(), &filter, after, PAGE_ROWS).await?;
    let mut table = Table::new(&[
        "Died",
        "Kind",
        "Last error",
        "Attempts",
        "About",
        "Shop",
        "Job",
    ]);
    for job in &jobs {
        table.row(vec![
            Cell::maybe_time(job.finished_at),
            Cell::text(job.kind.as_str()),
            Cell::maybe(job.last_error.as_deref()),
            Cell::Number(job.attempts),
            Cell::maybe(job.object_id.as_deref()),
            Cell::maybe(job.shop.as_deref()),
            Cell::job(job.id),
        ]);
    }
    let is_full = jobs.len() >= super::PAGE;
    let last = jobs.last().and_then(|job| {
        let died = job.finished_at?;
        Some(("before", format!("{}.{}", died.0, job.id)))
    });
    let listing = Listing {
        here: "/dead",
        title: "Dead jobs",
        about: "Jobs that were given up, those that died last first. Mend what they died of, then run them \
                again.",
        command: "waybill dead list".to_owned(),
        filters: vec![
            field(
                "queue",
                "Queue",
                queue.map_or("", Queue::as_str),
                &["orders", "payments", "privacy", "endpoints"],
            ),
            field("kind", "Kind, with * for any text", &filter.kind, &[]),
            field("shop", "Shop", &filter.shop, &[]),
            field("error", "Part of the error", &filter.error, &[]),
        ],
        table,
        empty: "No job is dead.",
        note: None,
        next: last.filter(|_| is_full),
    };
    Ok(listing.answer(&visit))
}

/// When the last job of a page died, and its id.
fn cursor(text: &str) -> Option<(Timestamp, JobId)> {
    let (died, id) = text.split_once('.')?;
    Some((Timestamp(died.parse().ok()?), id.parse().ok()?))
}
