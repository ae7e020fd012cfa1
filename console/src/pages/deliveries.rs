//! The deliveries that were accepted, with what became of each. A duplicate of one is answered and leaves
//! no row; what was refused has a page of its own.

use axum::response::Response;
use domain::job::{JobId, Source, State};
use store::jobs::arrived::{self, Arrived, LOOKED_THROUGH};
use uuid::Uuid;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Filter, Listing, Table};
use crate::pages::PAGE;
use crate::shown::{self, Cell};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let given = |name| visit.query.get(name).to_owned();
    let filter = arrived::Filter {
        source: given("source"),
        kind: given("topic"),
        shop: given("shop").to_ascii_lowercase(),
        state: given("state"),
    };
    let before = match visit.query.get("before") {
        "" => JobId::max(),
        text => Uuid::parse_str(text).map_err(|_| Error::Fields)?,
    };
    let page = arrived::page(visit.db(), &filter, before, PAGE).await?;
    let mut table = Table::new(&[
        "Arrived", "Topic", "Outcome", "Took", "About", "Shop", "Delivery", "Job",
    ]);
    for delivery in &page.deliveries {
        let (class, outcome) = outcome(delivery);
        let took = delivery.finished_at.map(|at| at.0 - delivery.created_at.0);
        table.row(vec![
            Cell::time(delivery.created_at),
            Cell::text(delivery.kind.as_str()),
            Cell::State(class, outcome.to_owned()),
            took.map_or(Cell::None, |took| Cell::text(shown::took(took))),
            about(delivery),
            Cell::maybe(delivery.shop.as_deref()),
            Cell::maybe(delivery.external_id.as_deref()),
            Cell::job(delivery.id),
        ]);
    }
    let note = page.is_cut.then(|| {
        let most = shown::bounded(LOOKED_THROUGH - 1, i64::MAX);
        format!("More than {most} jobs were looked through; older ones are on the next page.")
    });
    let mut command = "waybill jobs list".to_owned();
    for (option, value) in [
        ("--kind", &filter.kind),
        ("--shop", &filter.shop),
        ("--state", &filter.state),
    ] {
        if !value.is_empty() {
            command = format!("{command} {option} '{}'", value.replace('\'', ""));
        }
    }
    let listing = Listing {
        here: "/deliveries",
        title: "Deliveries",
        about: "What was accepted, the newest first. A duplicate is answered and leaves no row.",
        command,
        filters: vec![
            field(
                "source",
                "Provider",
                &filter.source,
                &["storefront", "payment"],
            ),
            field("topic", "Topic, with * for any text", &filter.kind, &[]),
            field("shop", "Shop", &filter.shop, &[]),
            field(
                "state",
                "State of the job",
                &filter.state,
                &["ready", "done", "dead"],
            ),
        ],
        table,
        empty: "No delivery matches.",
        note,
        next: page.next.map(|id| ("before", id.to_string())),
    };
    Ok(listing.answer(&visit))
}

pub fn field(
    name: &'static str,
    label: &'static str,
    value: &str,
    choices: &'static [&'static str],
) -> Filter {
    Filter {
        name,
        label,
        value: value.to_owned(),
        choices,
    }
}

fn about(delivery: &Arrived) -> Cell {
    let Some(id) = &delivery.object_id else {
        return Cell::None;
    };
    match delivery.source {
        Source::Payment => Cell::link(id.as_str(), shown::payment(id)),
        _ if id.parse::<i64>().is_ok() => {
            let shop = delivery.shop.as_deref().unwrap_or_default();
            Cell::link(id.as_str(), shown::order(shop, id))
        }
        _ => Cell::text(id.as_str()),
    }
}

fn outcome(delivery: &Arrived) -> (&'static str, &'static str) {
    let is_handled = delivery.source.queue(&delivery.kind).is_some();
    match delivery.state {
        State::Done if delivery.is_discarded => ("plain", "discarded"),
        State::Done if delivery.is_noted => ("plain", "not understood"),
        State::Done if !is_handled => ("plain", "kept"),
        State::Done => ("good", "done"),
        State::Dead => ("bad", "dead"),
        State::Ready if delivery.attempts > 0 => ("open", "is tried again"),
        State::Ready => ("open", "waits"),
    }
}
