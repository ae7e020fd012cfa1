//! The deliveries that were accepted, with what became of each. A duplicate of one is answered and leaves
//! no row; what was refused has a page of its own.

use axum::response::Response;
use domain::job::{JobId, Source};
use domain::time::Timestamp;
use server::deliveries::{Line, Outcome};
use store::jobs::LOOKED_THROUGH;
use store::jobs::arrived::{self, Arrived};
use store::refused_deliveries::why;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Filter, Listing, Table};
use crate::pages::{PAGE, charts};
use crate::shown::{self, Cell};

/// The columns of a list of deliveries.
pub const COLUMNS: [&str; 8] = [
    "Arrived", "Topic", "Outcome", "Took", "About", "Shop", "Delivery", "Job",
];

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let filter = filter(&visit)?;
    let before = visit.query.maybe("before")?.unwrap_or(JobId::max());
    let page = arrived::page(visit.db(), &filter, before, PAGE).await?;
    let note = page.is_cut.then(|| {
        let most = shown::bounded(LOOKED_THROUGH - 1, i64::MAX);
        format!("More than {most} jobs were looked through; older ones are on the next page.")
    });
    let mut command = "waybill jobs list".to_owned();
    for (option, value) in [
        ("--kind", &filter.kind),
        ("--shop", &filter.shop),
        ("--connection", &filter.connection),
        ("--state", &filter.state),
    ] {
        if !value.is_empty() {
            command = format!("{command} {option} '{}'", value.replace('\'', ""));
        }
    }
    for (option, at) in [("--since", filter.from), ("--before", filter.until)] {
        if let Some(at) = at {
            command = format!("{command} {option} {at}");
        }
    }
    let is_page = visit.query.get("format").is_empty();
    let histogram = charts::histogram(&visit, filter.from, filter.until);
    let listing = Listing {
        here: "/deliveries",
        title: "Deliveries",
        about: "What was accepted, the newest first. A duplicate is answered and leaves no row.",
        command,
        filters: filters(&filter)
            .into_iter()
            .chain(times(&filter))
            .chain([field("span", "", visit.query.get("span"), &[])])
            .collect(),
        histogram: if is_page { histogram.await.ok() } else { None },
        table: table(&page.rows),
        empty: "No delivery matches.",
        note,
        next: page.next.map(|id| ("before", id.to_string())),
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}

/// The filter that the query of a page has.
pub fn filter<R>(visit: &Visit<R>) -> Result<arrived::Filter, Error> {
    let given = |name| visit.query.get(name).to_owned();
    let time = |name| {
        let wrong = |_| {
            Error::impossible(format!(
                "{name} must be a time such as 2027-01-15T08:00:00Z"
            ))
        };
        visit.query.maybe::<Timestamp>(name).map_err(wrong)
    };
    Ok(arrived::Filter {
        source: given("source"),
        kind: given("topic"),
        shop: given("shop").to_ascii_lowercase(),
        connection: given("connection"),
        state: given("state"),
        from: time("from")?,
        until: time("until")?,
    })
}

/// The fields of the filter.
pub fn filters(filter: &arrived::Filter) -> Vec<Filter> {
    vec![
        field(
            "source",
            "Provider",
            &filter.source,
            &["storefront", "payment"],
        ),
        field("topic", "Topic, * for any", &filter.kind, &[]),
        field("shop", "Shop", &filter.shop, &[]),
        field("connection", "Connection", &filter.connection, &[]),
        field(
            "state",
            "State of the job",
            &filter.state,
            &["ready", "done", "dead"],
        ),
    ]
}

/// The fields of a time. The live list has none.
fn times(filter: &arrived::Filter) -> [Filter; 2] {
    let text = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.to_string());
    [
        field("from", "From (UTC)", &text(filter.from), &[]),
        field("until", "Until (UTC)", &text(filter.until), &[]),
    ]
}

pub fn table(deliveries: &[Arrived]) -> Table {
    let mut table = Table::new(&COLUMNS).lesser(&["Took", "Delivery"]);
    for delivery in deliveries {
        table.row(row(&Line::now(delivery)));
    }
    table
}

/// The cells of a delivery, or of some that were refused.
pub fn row(line: &Line) -> Vec<Cell> {
    let (class, outcome) = outcome(line.outcome);
    let outcome = match line.deliveries {
        2.. => format!("{outcome} {} times", line.deliveries),
        _ => outcome.to_owned(),
    };
    vec![
        Cell::time(line.received_at),
        Cell::maybe(line.topic.as_deref()),
        Cell::State(class, outcome),
        line.milliseconds
            .map_or(Cell::None, |took| Cell::text(shown::took(took))),
        about(line),
        Cell::maybe(line.shop.as_deref()),
        Cell::maybe(line.delivery_id.as_deref()),
        line.job.map_or(Cell::None, Cell::job),
    ]
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

fn about(line: &Line) -> Cell {
    if line.outcome == Outcome::Refused {
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        return Cell::text(why(&given(&line.reason), &given(&line.signature)));
    }
    let Some(id) = &line.object_id else {
        return Cell::None;
    };
    if line.source == Source::Payment.into_str() {
        return Cell::link(id.as_str(), shown::of_provider(id));
    }
    if id.parse::<i64>().is_ok() {
        let shop = line.shop.as_deref().unwrap_or_default();
        return Cell::link(id.as_str(), shown::order(shop, id));
    }
    Cell::text(id.as_str())
}

fn outcome(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Discarded => ("plain", "discarded"),
        Outcome::NotUnderstood => ("plain", "not understood"),
        Outcome::Kept => ("plain", "kept"),
        Outcome::Done => ("good", "done"),
        Outcome::Dead => ("bad", "dead"),
        Outcome::Retrying => ("open", "is tried again"),
        Outcome::Waiting => ("open", "waits"),
        Outcome::Refused => ("bad", "refused"),
    }
}
