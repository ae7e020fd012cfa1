//! Privacy requests, those with the nearest deadline first. Ids, states and times alone. And what is done to
//! one: it is tried again, it is decided whom it means, its export is fetched, and the erasure of a shop is
//! cancelled or confirmed.

use crate::listing;
use askama::Template;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::Role;
use domain::privacy::{Decided, Held, State};
use domain::time::{Timestamp, age};
use lists::deeds::PrivacyRequest;
use lists::form::Empty;
use lists::people::{PrivacyRequests, customer};
use operators::advice;
use operators::privacy_requests::{self as flow, ByHand, NotEntered, Place};
use providers::exports::Exports;
use store::privacy_requests::{self, ActionRefused, Export, History, RequestEntry, Undecided};
use store::sql::Db;
use uuid::Uuid;

use crate::access::{Privacy, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Input, Question};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing::Rows as _;
use crate::pages::object::Object;
use lists::shown::{self, Cell};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &PrivacyRequests).await?.listing;
    listing.acts = vec![Act::of(
        &visit,
        Role::Privacy,
        "Enter a request by hand, when a customer has written to you.",
        Button::asks("Enter a request", "/privacy/enter".to_owned()),
        "waybill privacy request --shop SHOP --customer ID".to_owned(),
    )];
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
    let act = act::of_one(visit, Role::Privacy, "privacy", it.id);
    let is_kept = |it: &Export| it.removed_at.is_none() && it.expires_at > visit.now();
    let mut acts = Vec::new();
    if it.export.as_ref().is_some_and(is_kept) {
        acts.push(act(
            "Fetch the export, to send it to the customer. The audit has who fetched it.",
            "Fetch the export",
            "export",
            false,
        ));
    }
    acts.extend(match it.state.parse() {
        Ok(State::Failed) => vec![act(
            "Try it again, once what it failed of is mended.",
            "Try again",
            "retry",
            false,
        )],
        Ok(State::Held) if it.held.is_some() => vec![act(
            "Decide whom it means besides those that are certain.",
            "Decide",
            "decide",
            true,
        )],
        Ok(State::Held) => {
            let mut acts = Vec::new();
            if it.may_be_confirmed() {
                acts.push(act(
                    "Let the erasure run, if it is meant. A page asks first.",
                    "Confirm",
                    "confirm",
                    true,
                ));
            }
            acts.push(act(
                "Cancel the erasure for good. A page asks first.",
                "Cancel the erasure",
                "cancel",
                true,
            ));
            acts
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

pub async fn ask_decide(visit: Visit<Privacy>) -> Result<Response, Error> {
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

pub async fn decide(write: Write<Privacy>) -> Result<Response, Error> {
    let id = write.id()?;
    let db = &write.parts().db;
    let it = named(db, id).await?;
    let mut said = Decided {
        is_all: write.fields.get("rest") == "exclude",
        ..Decided::default()
    };
    let held = it.held.unwrap_or_default();
    for customer in held.customers.keys() {
        match write.fields.get(&customer_field(*customer)) {
            "include" => said.customers.insert(*customer),
            "exclude" => said.other_customers.insert(*customer),
            _ => false,
        };
    }
    for order in &held.orders {
        match write.fields.get(&order_field(*order)) {
            "include" => said.orders.insert(*order),
            "exclude" => said.other_orders.insert(*order),
            _ => false,
        };
    }
    if said == Decided::default() {
        let why = "Say of at least one whether it is the same person.";
        return Err(Error::Refused(why.to_owned()));
    }
    let done = match privacy_requests::decide(db, write.by(), id, &said).await {
        Ok(()) => Done::Decided,
        Err(Undecided::NotHeld) => Done::Changed,
        Err(Undecided::Unknown) => return Err(Error::Unknown("privacy request")),
        Err(Undecided::Database(error)) => return Err(error.into()),
        Err(why @ Undecided::NotAmongHeld(_)) => return Err(impossible(&why)),
    };
    Ok(act::see(&page(id), done))
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
        Err(why) => Err(impossible(&why)),
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

pub async fn ask_enter(visit: Visit<Privacy>) -> Result<Response, Error> {
    let question = Question {
        here: "/privacy",
        title: "Enter a privacy request".to_owned(),
        about: vec![
            "For a customer who has written to you instead of asking in the shop. It is carried out like one \
             that the storefront passes on, and must be done within 30 days from now. Make sure first that \
             it is the customer who has written.",
        ],
        to: Some("/privacy/enter".to_owned()),
        label: "Enter it",
        fields: vec![("id", visit.new_id().to_string())],
        form: act::form::<PrivacyRequest>(&[]),
        inputs: vec![Input {
            kind: "email",
            ..Input::text(
                "email",
                "E-mail address",
                "It is kept with the request alone, and shown on no page.",
            )
        }],
        back: "/privacy".to_owned(),
        command: "waybill privacy request --shop SHOP --customer ID".to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

/// The form brings a key, so sending it again enters no second request.
pub async fn enter(write: Write<Privacy>) -> Result<Response, Error> {
    let given = &write.fields;
    let key = given.read("id")?;
    let asked: PrivacyRequest = given.filled(Empty::LeftOut)?;
    let entered = ByHand {
        key,
        topic: asked.topic(),
        shop: &asked.shop,
        customer: asked.customer,
        email: Some(given.get("email")).filter(|email| !email.is_empty()),
        is_sure: asked.even_if_unknown,
    };
    let parts = write.parts();
    let place = Place {
        db: &parts.db,
        bus: Some(&parts.bus),
        shops: &parts.config.storefront.shops,
        remembered: parts.config.dedupe_ttl,
    };
    match flow::enter(place, &parts.clock, write.by(), entered).await {
        Ok((id, is_new)) => {
            let done = if is_new { Done::Entered } else { Done::Changed };
            Ok(act::see(&page(id), done))
        }
        Err(NotEntered::Database(error)) => Err(error.into()),
        Err(why) => Err(impossible(&why)),
    }
}

pub async fn ask_cancel(visit: Visit<Privacy>) -> Result<Response, Error> {
    let about = "The data is then kept, and the request is over for good.";
    ask(&visit, "Cancel this erasure?", about, "cancel").await
}

pub async fn ask_confirm(visit: Visit<Privacy>) -> Result<Response, Error> {
    let about = "What it names is then erased for good: of a shop all that was there when the request came. The shop is \
                 in use, or the body came before; so ask the storefront first whether it is meant.";
    ask(&visit, "Let this erasure run?", about, "confirm").await
}

async fn ask(
    visit: &Visit<Privacy>,
    title: &str,
    about: &'static str,
    word: &str,
) -> Result<Response, Error> {
    let it = named(visit.db(), visit.id()?).await?;
    let question = Question {
        here: "/privacy",
        title: title.to_owned(),
        about: vec![about],
        facts: vec![
            ("Shop", Cell::text(it.shop.as_str())),
            ("State", shown::state(it.state.as_str())),
            ("Received", Cell::time(it.received_at)),
            ("Due", Cell::time(it.due_at)),
        ],
        to: Some(format!("{}/{word}", page(it.id))),
        label: if word == "cancel" {
            "Cancel it for good"
        } else {
            "Let it run"
        },
        back: page(it.id),
        command: format!("waybill privacy {word} {}", it.id),
        ..Question::default()
    };
    Ok(question.answer(visit))
}

pub async fn retry(write: Write<Privacy>) -> Result<Response, Error> {
    let id = write.id()?;
    let retried = privacy_requests::retry(&write.parts().db, write.by(), id).await;
    answer(id, retried, Done::Retried)
}

pub async fn cancel(write: Write<Privacy>) -> Result<Response, Error> {
    let id = write.id()?;
    let cancelled = privacy_requests::cancel(&write.parts().db, write.by(), id).await;
    answer(id, cancelled, Done::Cancelled)
}

pub async fn confirm(write: Write<Privacy>) -> Result<Response, Error> {
    let id = write.id()?;
    let parts = write.parts();
    let hold = parts.config.privacy.shop_hold;
    let confirmed = privacy_requests::confirm(&parts.db, write.by(), id, hold).await;
    answer(id, confirmed, Done::RequestConfirmed)
}

fn impossible(why: &(dyn std::error::Error + 'static)) -> Error {
    Error::impossible(advice::with(why))
}

fn answer(id: Uuid, result: Result<(), ActionRefused>, done: Done) -> Result<Response, Error> {
    let done = match result {
        Ok(()) => done,
        Err(
            ActionRefused::NotFailed(_) | ActionRefused::NotHeld(_) | ActionRefused::NotWaiting(_),
        ) => Done::Changed,
        Err(ActionRefused::Unknown) => return Err(Error::Unknown("privacy request")),
        Err(ActionRefused::Database(error)) => return Err(error.into()),
        Err(why) => return Err(impossible(&why)),
    };
    Ok(act::see(&page(id), done))
}
