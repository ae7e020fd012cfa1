//! Orders that wait for somebody's decision. They have a page of their own, because finding them reads many
//! orders.

use axum::response::Response;
use store::held::{self, Held};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::shown::{self, Cell};

/// How many of each reason.
const MOST: i64 = 100;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut table = Table::new(&[
        "Changed",
        "Order",
        "Shop",
        "Amount",
        "About",
        "Why",
        "What to do",
    ]);
    for it in held::list(visit.db(), MOST).await? {
        let href = shown::order(&it.shop, &it.order_id);
        table.row(vec![
            Cell::time(it.updated_at),
            Cell::link(it.order_id.as_str(), href),
            Cell::text(it.shop.as_str()),
            amount(&it),
            Cell::maybe(it.about.as_deref()),
            Cell::text(it.reason.into_str()),
            Cell::text(it.reason.mend()),
        ]);
    }
    let listing = Listing {
        here: "/held",
        title: "Orders to decide",
        about: "What Waybill leaves to people, at most 100 orders for each reason.",
        command: "waybill orders held".to_owned(),
        table,
        empty: "Nothing waits for a decision.",
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}

fn amount(held: &Held) -> Cell {
    let amount = held.amount.as_deref().zip(held.currency.as_deref());
    amount.map_or(Cell::None, |(amount, code)| {
        Cell::text(format!("{amount} {code}"))
    })
}
