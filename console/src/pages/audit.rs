//! The audit: who did what, the newest first. It has no personal data.

use axum::response::Response;
use store::audit;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Rows as _};
use crate::pages::PAGE_ROWS;
use crate::shown::Cell;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let before = visit.query.maybe("before")?.unwrap_or(i64::MAX);
    let entries = audit::before(visit.db(), before, PAGE_ROWS).await?;
    let table = entries
        .table(&[
            ("Number", &|it| Cell::Number(it.number)),
            ("At", &|it| Cell::time(it.at)),
            ("Who", &|it| Cell::text(it.actor.as_str())),
            ("What", &|it| Cell::text(it.action.as_str())),
            ("About", &|it| Cell::code(it.object_id.as_str())),
            ("Shop", &|it| Cell::maybe(it.shop.as_deref())),
            ("Details", &|it| Cell::text(it.details.to_string())),
        ])
        .lesser(&["Number"]);
    let is_full = entries.len() >= super::PAGE;
    let last = entries.last().map(|it| ("before", it.number.to_string()));
    let listing = Listing {
        here: "/audit",
        title: "Audit",
        about: "What was done to people's data, and what operators have changed, the newest first. Whether \
                somebody has altered it says: waybill audit verify",
        command: "waybill audit list".to_owned(),
        table,
        empty: "Nothing was done yet.",
        next: last.filter(|_| is_full),
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}
