//! Orders that wait for somebody's decision. They have a page of their own, because finding them reads many
//! orders.

use axum::response::Response;
use store::held::{self};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Rows as _};
use crate::shown::{self, Cell};

/// How many of each reason.
const MOST: i64 = 100;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let table = held::list(visit.db(), MOST).await?.table(&[
        ("Changed", &|it| Cell::time(it.updated_at)),
        ("Order", &|it| {
            Cell::link(it.order_id.as_str(), shown::order(&it.shop, &it.order_id))
        }),
        ("Shop", &|it| Cell::text(it.shop.as_str())),
        ("Amount", &|it| {
            shown::amount(it.amount.as_deref(), it.currency.as_deref())
        }),
        ("About", &|it| Cell::maybe(it.about.as_deref())),
        ("Why", &|it| Cell::text(it.reason.into_str())),
        ("What to do", &|it| Cell::text(it.reason.mend())),
    ]);
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
