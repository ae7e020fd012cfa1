//! Privacy requests, those with the nearest deadline first. Ids, states and times alone.

use axum::response::Response;
use domain::privacy::State;
use store::privacy_requests::{self, Filter, RequestEntry};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::pages::deliveries::field;
use crate::shown::{self, Cell};

const MOST: i64 = 500;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let word = visit.query.get("state").to_owned();
    let state: Option<State> = match word.as_str() {
        "" | "open" | "all" => None,
        text => Some(text.parse().map_err(|_| Error::Fields)?),
    };
    let shop = visit.query.get("shop").to_ascii_lowercase();
    let filter = Filter {
        state,
        shop: Some(shop.clone()).filter(|shop| !shop.is_empty()),
        open: state.is_none() && word != "all",
        ..Filter::default()
    };
    let requests = privacy_requests::list(visit.db(), &filter, MOST).await?;
    let is_cut = requests.len() >= usize::try_from(MOST).unwrap_or(usize::MAX);
    let listing = Listing {
        here: "/privacy",
        title: "Privacy requests",
        about: "The nearest deadline first. A request must be done within 30 days of its delivery.",
        command: "waybill privacy list".to_owned(),
        filters: vec![
            field(
                "state",
                "State",
                &word,
                &[
                    "open",
                    "all",
                    "received",
                    "held",
                    "failed",
                    "done",
                    "cancelled",
                ],
            ),
            field("shop", "Shop", &shop, &[]),
        ],
        table: table(&requests),
        empty: "No request is open.",
        note: is_cut.then(|| format!("These are the first {MOST}.")),
        next: None,
    };
    Ok(listing.answer(&visit))
}

pub fn table(requests: &[RequestEntry]) -> Table {
    let mut table = Table::new(&[
        "Due",
        "State",
        "Topic",
        "Shop",
        "Customer",
        "Received",
        "Next try",
        "Last error",
        "Request",
    ]);
    for it in requests {
        table.row(vec![
            Cell::time(it.due_at),
            shown::state(it.state.as_str()),
            Cell::text(it.topic.as_str()),
            Cell::text(it.shop.as_str()),
            Cell::maybe(it.customer_id_text.as_deref()),
            Cell::time(it.received_at),
            Cell::maybe_time(it.next_run_at),
            Cell::maybe(it.last_error.as_deref()),
            Cell::job(it.id),
        ]);
    }
    table
}
