//! The deliveries that were accepted, with what became of each, below a histogram of when they arrived.

use axum::response::Response;
use lists::jobs::Deliveries;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing;
use crate::pages::charts;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let read = listing::read(&visit, &Deliveries).await?;
    let mut listing = read.listing;
    if visit.query.get("format").is_empty() {
        let filter = read.filter.at(visit.now());
        let histogram = charts::histogram(&visit, filter.from, filter.until).await;
        listing.histogram = histogram.ok();
    }
    let span = visit.query.get("span");
    listing.kept = Some(("span", span.to_owned())).filter(|_| !span.is_empty());
    Ok(listing.answer(&visit))
}
