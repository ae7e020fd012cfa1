//! The audit: who did what, the newest first. It has no personal data.

use axum::response::Response;
use store::audit;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::pages::PAGE_ROWS;
use crate::shown::Cell;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let before = match visit.query.get("before") {
        "" => i64::MAX,
        text => text.parse().map_err(|_| Error::Fields)?,
    };
    let entries = audit::before(visit.db(), before, PAGE_ROWS).await?;
    let mut table = Table::new(&["Number", "At", "Who", "What", "About", "Shop", "Details"]);
    for it in &entries {
        table.row(vec![
            Cell::Number(it.number),
            Cell::time(it.at),
            Cell::text(it.actor.as_str()),
            Cell::text(it.action.as_str()),
            Cell::code(it.object_id.as_str()),
            Cell::maybe(it.shop.as_deref()),
            Cell::text(it.details.to_string()),
        ]);
    }
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
