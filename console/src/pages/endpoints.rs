//! Where events are sent as webhooks, and whether they are taken there.

use axum::response::Response;
use store::endpoints;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::shown::{self, Cell};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut table = Table::new(&[
        "Address",
        "State",
        "Last accepted",
        "Failing since",
        "Failures",
        "Last error",
        "Endpoint",
    ]);
    for it in endpoints::list(visit.db()).await? {
        table.row(vec![
            Cell::text(it.url.as_str()),
            shown::state(it.state.as_str()),
            Cell::maybe_time(it.delivered_at),
            Cell::maybe_time(it.failing_since),
            Cell::Number(it.failures),
            Cell::maybe(it.last_error.as_deref()),
            Cell::code(it.id.to_string()),
        ]);
    }
    let listing = Listing {
        here: "/endpoints",
        title: "Endpoints",
        about: "The addresses of your own systems to which events are sent.",
        command: "waybill endpoints list".to_owned(),
        filters: Vec::new(),
        table,
        empty: "There is no endpoint. To add one: waybill endpoints add URL",
        note: None,
        next: None,
    };
    Ok(listing.answer(&visit))
}
