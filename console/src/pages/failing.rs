//! Jobs that failed within the last hour and are tried again, deliveries and calls to providers alike: why,
//! and when they run again.

use axum::response::Response;
use store::jobs::{LOOKED_THROUGH, retried};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Rows as _};
use crate::pages::deliveries::field;
use crate::pages::now::FAILED;
use crate::pages::{PAGE, cursor, from_cursor};
use crate::shown::{Cell, bounded, quoted};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let kind = visit.query.get("kind");
    let after = cursor(&visit.query)?;
    let since = visit.now().minus(FAILED);
    let page = retried::page(visit.db(), since, kind, after, PAGE).await?;
    let table = page
        .rows
        .table(&[
            ("Failed", &|job| Cell::time(job.failed_at)),
            ("Kind", &|job| Cell::text(job.kind.as_str())),
            ("Last error", &|job| Cell::text(job.error.as_str())),
            ("Answer", &|job| job.status.map_or(Cell::None, Cell::Number)),
            ("Attempts", &|job| Cell::Number(job.attempts)),
            ("Runs again", &|job| Cell::time(job.run_at)),
            ("About", &|job| Cell::maybe(job.object_id.as_deref())),
            ("Shop", &|job| Cell::maybe(job.shop.as_deref())),
            ("Job", &|job| Cell::job(job.job)),
        ])
        .lesser(&["Answer", "Attempts"]);
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
        empty: "No job that failed within the last hour is tried again.",
        note,
        next: page.next.map(from_cursor),
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}
