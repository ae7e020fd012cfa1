//! What was refused in the last month, hour by hour. Nobody signed it, so it may all be made up.

use std::time::Duration;

use axum::response::Response;
use store::refused_deliveries::{self, KEPT};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Rows as _};
use crate::pages::deliveries::field;
use crate::shown::Cell;

const MOST: i64 = 500;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let (word, since) = match visit.query.get("since") {
        "hour" => ("hour", Duration::from_hours(1)),
        "week" => ("week", Duration::from_hours(7 * 24)),
        "month" => ("month", KEPT),
        _ => ("day", Duration::from_hours(24)),
    };
    let since = visit.now().minus(since);
    let connection = visit.query.get("connection");
    let refused = refused_deliveries::list(visit.db(), connection, since, MOST).await?;
    let table = refused.table(&[
        ("Last", &|it| Cell::time(it.last_at)),
        ("Count", &|it| Cell::Number(it.deliveries)),
        ("Provider", &|it| Cell::text(it.source.as_str())),
        ("Connection", &|it| {
            Cell::maybe(Some(it.connection.as_str()).filter(|it| !it.is_empty()))
        }),
        ("Why", &|it| {
            Cell::text(refused_deliveries::why(&it.reason, &it.signature))
        }),
        ("What to do", &|it| match it.advice.as_str() {
            "" => Cell::None,
            advice => Cell::code(refused_deliveries::set(advice)),
        }),
        ("Answer", &|it| Cell::Number(it.status)),
        ("Topic", &|it| Cell::maybe(it.topic.as_deref())),
        ("Shop", &|it| Cell::maybe(it.shop.as_deref())),
    ]);
    let is_cut = refused.len() >= usize::try_from(MOST).unwrap_or(usize::MAX);
    let listing = Listing {
        here: "/refused",
        title: "Refused deliveries",
        about: "By hour and reason, the latest first. Topic and shop are those of the latest one; nobody \
                signed them.",
        command: "waybill refused list".to_owned(),
        filters: vec![
            field(
                "since",
                "In the last",
                word,
                &["hour", "day", "week", "month"],
            ),
            field("connection", "Connection", connection, &[]),
        ],
        table,
        empty: "Nothing was refused.",
        note: is_cut
            .then(|| format!("These are the latest {MOST}; choose a shorter time for the others.")),
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}
