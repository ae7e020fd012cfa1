//! How far each shop and each account was compared with its provider, and what was found so that never came. And how an
//! operator asks now.

use axum::response::Response;
use domain::api_key::Role;
use operators::reconciliation::{self as flow, Refused};
use store::reconciliations;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done};
use crate::error::Error;
use crate::listing::{Listing, Rows as _};
use crate::shown::{self, Cell};

const HERE: &str = "/reconcile";
const FOUND: &str = "/reconcile/found";
/// The most that the list of what was found has.
const MOST: i64 = 200;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let table = reconciliations::all(visit.db()).await?.table(&[
        ("Connection", &|it| Cell::text(it.connection.as_str())),
        ("Provider", &|it| Cell::text(it.source.as_str())),
        ("Shop", &|it| Cell::text(it.shop.as_str())),
        ("Compared until", &|it| {
            Cell::maybe_time(it.ended_at.map(|_| it.confirmed_until))
        }),
        ("Next", &|it| Cell::time(it.next_at)),
        ("Compared", &|it| Cell::text(it.compared.to_string())),
        ("Never came", &|it| Cell::text(it.found.to_string())),
        ("Failing since", &|it| Cell::maybe_time(it.failing_since)),
        ("Why", &|it| Cell::maybe(it.wrong())),
    ]);
    let listing = Listing {
        here: HERE,
        title: "Reconciliation",
        about: "Each provider with an API is asked what changed. What never came is taken as if it had come. That \
                something is found means that its webhook was lost: see why.",
        command: "waybill reconcile --status".to_owned(),
        table,
        acts: vec![
            Act::of(
                &visit,
                Role::Operator,
                "Ask all providers now, from where they were asked last.",
                Button::does("Ask now", format!("{HERE}/ask"), Vec::new()),
                "waybill reconcile".to_owned(),
            ),
            Act::of(
                &visit,
                Role::Reader,
                "Which deliveries never came, how late they were found, and the likely cause.",
                Button::asks("What was found", FOUND.to_owned()),
                "waybill reconcile --status".to_owned(),
            ),
        ],
        empty: "Nothing is compared: a connection needs an API.",
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}

pub async fn found(visit: Visit<Reader>) -> Result<Response, Error> {
    let table = reconciliations::newest(visit.db(), None, MOST)
        .await?
        .table(&[
            ("Found", &|it| Cell::time(it.found_at)),
            ("Changed", &|it| Cell::time(it.changed_at)),
            ("Late", &|it| {
                Cell::text(shown::took(it.found_at.0 - it.changed_at.0))
            }),
            ("Kind", &|it| {
                Cell::link(it.kind.as_str(), shown::job(it.job_id))
            }),
            ("Connection", &|it| Cell::text(it.connection.as_str())),
            ("Shop", &|it| Cell::text(it.shop.as_str())),
            ("Likely cause", &|it| Cell::text(it.cause.in_words())),
        ]);
    let listing = Listing {
        here: HERE,
        title: "What never came",
        about: "The newest deliveries that never came and were found at the provider.",
        command: "waybill reconcile --status --limit 200".to_owned(),
        table,
        empty: "Everything came by itself.",
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}

/// Sent again it finds that all are due, and asks nobody twice.
pub async fn ask(write: Write<Operator>) -> Result<Response, Error> {
    match flow::ask(&write.parts().db, write.by(), None, None).await {
        Ok(0) => Ok(act::see(HERE, Done::Changed)),
        Ok(_) => Ok(act::see(HERE, Done::Asked)),
        Err(Refused::Database(error)) => Err(error.into()),
        Err(why) => Err(Error::impossible(why)),
    }
}
