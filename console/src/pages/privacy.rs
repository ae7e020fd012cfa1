//! Privacy requests, those with the nearest deadline first. Ids, states and times alone.

use askama::Template;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::Role;
use domain::privacy::{Held, State};
use domain::time::{Timestamp, age};
use lists::deeds::privacy::{Cancel, Confirm, Decide, Request, Retry};
use lists::people::{PrivacyRequests, customer};
use lists::shown::{self, Cell};
use operators::advice;
use providers::exports::Exports;
use store::privacy_requests::{self, ActionRefused, Export, History, RequestEntry};
use store::sql::Db;
use uuid::Uuid;

use crate::access::{Privacy, Reader, Visit, Write};
use crate::act::{Act, Button};
use crate::deed::{self, Doer};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing::{self, Rows as _};
use crate::pages::object::Object;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &PrivacyRequests).await?.listing;
    listing.acts = vec![deed::act::<Request, _>(&visit, "", None)];
    Ok(listing.answer(&visit))
}

fn page(id: Uuid) -> String {
    format!("/privacy/{id}")
}

async fn named(db: &Db, id: Uuid) -> Result<RequestEntry, Error> {
    let found = privacy_requests::find(db, id).await?;
    found.ok_or(Error::Unknown("privacy request"))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let history = privacy_requests::history(visit.db(), visit.id()?).await?;
    let History { entry: it, audit } = history.ok_or(Error::Unknown("privacy request"))?;
    let now = visit.now();
    let entries = audit.table(&[
        ("Number", &|entry| Cell::Number(entry.number)),
        ("At", &|entry| Cell::time(entry.at)),
        ("Who", &|entry| Cell::text(entry.actor.as_str())),
        ("What", &|entry| Cell::text(entry.action.as_str())),
        ("Details", &|entry| Cell::text(entry.details.to_string())),
    ]);
    let counts = if it.progress.is_null() {
        Cell::None
    } else {
        Cell::text(it.progress.to_string())
    };
    let receipt = match it.receipt {
        Some(_) => Cell::link("Fetch it; it is signed", format!("{}/receipt", page(it.id))),
        None => Cell::None,
    };
    let repeats = it.repeats.map(|id| Cell::link(id.to_string(), page(id)));
    let object = Object {
        here: "/privacy",
        kind: "Privacy request",
        title: it.topic.clone(),
        facts: vec![
            ("State", shown::state(it.state.as_str())),
            ("Left", Cell::text(left(&it, now))),
            ("Due", Cell::time(it.due_at)),
            ("Received", Cell::time(it.received_at)),
            ("Held until", Cell::maybe_time(it.held_until)),
            ("In use, as seen", Cell::maybe_time(it.living_at)),
            ("Ended", Cell::maybe_time(it.finished_at)),
            ("Shop", Cell::text(it.shop.as_str())),
            ("Customer", customer(&it)),
            ("Failed runs", Cell::Number(it.attempts)),
            ("Next try", Cell::maybe_time(it.next_run_at)),
            ("Last error", Cell::maybe(it.last_error.as_deref())),
            ("Counts", counts),
            ("Export", Cell::text(it.export.as_ref().map_or_else(String::new, |it| export(it, now)))),
            ("Receipt", receipt),
            ("Has the body of", repeats.unwrap_or(Cell::None)),
            ("Job", Cell::job(it.id)),
            ("Request", Cell::code(it.id.to_string())),
        ],
        chains: Vec::new(),
        tables: vec![("In the audit", entries)],
        note: it.held.as_ref().map(|_| {
            "It is held because others have the same address or number, and somebody is to decide whom it means."
                .to_owned()
        }),
        acts: acts(&visit, &it),
        commands: vec![
            ("Show it", format!("waybill privacy show {}", it.id)),
            ("Fetch its export", format!("waybill privacy export {}", it.id)),
            (
                "Decide whom it means, while it is held for that",
                format!("waybill privacy decide {}", it.id),
            ),
        ],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

/// How long there is until the deadline.
fn left(it: &RequestEntry, now: Timestamp) -> String {
    match it.finished_at {
        Some(_) => String::new(),
        None if it.due_at <= now => format!("nothing; it is late by {}", age(now, it.due_at)),
        None => age(it.due_at, now),
    }
}

fn export(it: &Export, now: Timestamp) -> String {
    let when = match it.removed_at {
        Some(_) => "removed",
        None if it.expires_at <= now => "expired",
        None => "kept",
    };
    format!("{} bytes, {when}", it.bytes)
}

fn acts(visit: &Visit<Reader>, it: &RequestEntry) -> Vec<Act> {
    let id = it.id.to_string();
    let is_kept = |it: &Export| it.removed_at.is_none() && it.expires_at > visit.now();
    let mut acts = Vec::new();
    if it.export.as_ref().is_some_and(is_kept) {
        let button = Button::does("Fetch the export", format!("/privacy/{id}/export"));
        acts.push(Act::of(
            visit,
            Role::Privacy,
            "Fetch the export, to send it to the customer. The audit has who fetched it.",
            button,
            format!("waybill privacy export {id}"),
        ));
    }
    acts.extend(match it.state.parse() {
        Ok(State::Failed) => vec![deed::act::<Retry, _>(visit, &id, None)],
        Ok(State::Held) if it.held.is_some() => vec![deed::act::<Decide, _>(visit, &id, None)],
        Ok(State::Held) => {
            let confirm = deed::act::<Confirm, _>(visit, &id, None);
            let confirm = it.may_be_confirmed().then_some(confirm);
            confirm
                .into_iter()
                .chain([deed::act::<Cancel, _>(visit, &id, None)])
                .collect()
        }
        _ => Vec::new(),
    });
    acts
}

#[derive(Template)]
#[template(path = "decide.html")]
struct DecidePage<'a> {
    frame: Frame<'a>,
    id: Uuid,
    candidates: Vec<Candidate>,
    is_cut: bool,
    may: bool,
}

/// A customer or an order that a request may mean.
struct Candidate {
    /// The name of the form's field.
    field: String,
    name: String,
    about: String,
}

fn candidates(held: &Held) -> Vec<Candidate> {
    let customers = held.customers.iter().map(|(id, times)| Candidate {
        field: customer_field(*id),
        name: format!("Customer {id}"),
        about: format!("Has the address or number {times} times."),
    });
    let orders = held.orders.iter().map(|id| Candidate {
        field: order_field(*id),
        name: format!("Order {id}"),
        about: "It has no customer.".to_owned(),
    });
    customers.chain(orders).collect()
}

fn customer_field(id: i64) -> String {
    format!("customer-{id}")
}

fn order_field(id: i64) -> String {
    format!("order-{id}")
}

pub async fn ask_decide(visit: Visit<Doer<Decide>>) -> Result<Response, Error> {
    let it = named(visit.db(), visit.id()?).await?;
    let held = it.held.unwrap_or_default();
    let page = DecidePage {
        frame: Frame::of(&visit, "/privacy"),
        id: it.id,
        candidates: candidates(&held),
        is_cut: held.is_cut,
        may: visit.may(Role::Privacy) && it.state == State::Held.into_str(),
    };
    Ok(Html(page.to_string()).into_response())
}

/// A form has a field for each customer and order that the request may mean.
pub async fn decide(write: Write<Doer<Decide>>) -> Result<Response, Error> {
    let id = write.id()?;
    let it = named(&write.parts().db, id).await?;
    let held = it.held.unwrap_or_default();
    let of_customers = |word: &str| {
        let customers = held.customers.keys().copied();
        let said = |id: &i64| write.fields.get(&customer_field(*id)) == word;
        customers.filter(said).collect()
    };
    let of_orders = |word: &str| {
        let orders = held.orders.iter().copied();
        let said = |id: &i64| write.fields.get(&order_field(*id)) == word;
        orders.filter(said).collect()
    };
    let decide = Decide {
        id,
        include: of_customers("include"),
        exclude: of_customers("exclude"),
        include_order: of_orders("include"),
        exclude_order: of_orders("exclude"),
        exclude_rest: write.fields.get("rest") == "exclude",
    };
    deed::carry_out(write, decide).await
}

/// The export as a file. The audit has who fetched it before it is handed out.
pub async fn fetch_export(mut write: Write<Privacy>) -> Result<Response, Error> {
    let id = write.id()?;
    write.end_turn();
    let parts = write.parts();
    let exports = Exports::new(&parts.config.privacy.exports);
    match operators::exports::fetch(&parts.db, write.by(), &exports, id).await {
        Ok((_, document)) => Ok(file(&format!("export-{id}.json"), document)),
        Err(ActionRefused::Unknown) => Err(Error::Unknown("privacy request")),
        Err(ActionRefused::Database(error)) => Err(error.into()),
        Err(why) => Err(Error::impossible(advice::with(&why))),
    }
}

/// The signed receipt as a file. It has no personal data.
pub async fn receipt(visit: Visit<Reader>) -> Result<Response, Error> {
    let id = visit.id()?;
    let it = named(visit.db(), id).await?;
    let receipt = it.receipt.ok_or(Error::Unknown("receipt"))?;
    let text = receipt.to_string().into_bytes();
    Ok(file(&format!("receipt-{id}.json"), text))
}

/// A file that the browser keeps and does not show.
fn file(name: &str, document: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (CONTENT_TYPE, "application/json".to_owned()),
        (CONTENT_DISPOSITION, disposition),
    ];
    (headers, document).into_response()
}
