//! Jobs that failed within the last hour and are tried again, deliveries and calls to providers alike: why,
//! and when they run again.

use axum::response::Response;
use store::jobs::{LOOKED_THROUGH, retried};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::pages::deliveries::field;
use crate::pages::now::FAILED;
use crate::pages::{PAGE, cursor};
use crate::shown::{Cell, bounded, quoted};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let kind = visit.query.get("kind");
    let after = match visit.query.get("before") {
        "" => None,
        text => Some(cursor(text).ok_or(Error::Fields)?),
    };
    let since = visit.now().minus(FAILED);
    let page = retried::page(visit.db(), since, kind, after, PAGE).await?;
    let mut table = Table::new(&[
        "Failed",
        "Kind",
        "Last error",
        "Answer",
        "Attempts",
        "Runs again",
        "About",
        "Shop",
        "Job",
    ]);
    for job in &page.rows {
        table.row(vec![
            Cell::time(job.failed_at),
            Cell::text(job.kind.as_str()),
            Cell::text(job.error.as_str()),
            job.status.map_or(Cell::None, Cell::Number),
            Cell::Number(job.attempts),
            Cell::time(job.run_at),
            Cell::maybe(job.object_id.as_deref()),
            Cell::maybe(job.shop.as_deref()),
            Cell::job(job.job),
        ]);
    }
    let note = page.is_cut.then(|| {
        let most = bounded(LOOKED_THROUGH, i64::MAX);
        format!(
            "At most {most} attempts are looked through for one page; older ones are on the next page."
        )
    });
    let mut command = "waybill jobs list --state ready".to_owned();
    if !kind.is_empty() {
        command = format!("{command} --kind {}", quoted(kind));
    }
    let listing = Listing {
        here: "/failing",
        title: "Failing jobs",
        about: "Jobs that failed within the last hour and are tried again, those that failed last first. They are \
                deliveries and calls to providers.",
        command,
        filters: vec![field("kind", "Kind, with * for any text", kind, &[])],
        table,
        acts: Vec::new(),
        empty: "No job that failed within the last hour is tried again.",
        note,
        next: page
            .next
            .map(|(at, job)| ("before", format!("{}.{job}", at.0))),
    };
    Ok(listing.answer(&visit))
}
