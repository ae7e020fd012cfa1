//! What is paused: a queue, the calls to a provider, a shop, or the notification of a condition. And how a pause is begun and ended.

use std::time::Duration;

use crate::listing;
use axum::response::Response;
use domain::api_key::Role;
use domain::attention::Condition;
use domain::job::Queue;
use domain::pause::{LONGEST, Provider, Scope, Target};
use lists::jobs::Pauses;
use operators::pauses::{self as flow, Refused};
use store::pauses;
use uuid::Uuid;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Input, Question};
use crate::error::Error;
use crate::pages::object::Object;
use lists::shown::Cell;

const HERE: &str = "/pauses";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Pauses).await?.listing;
    listing.acts = vec![Act::of(
        &visit,
        Role::Operator,
        "Let a queue, calls to a provider, a shop, or the notification of a condition wait.",
        Button::asks("Pause something", format!("{HERE}/begin")),
        "waybill pauses begin queue|provider|shop|condition NAME --for 1h".to_owned(),
    )];
    Ok(listing.answer(&visit))
}

fn page(id: Uuid) -> String {
    format!("{HERE}/{id}")
}

async fn named<R>(visit: &Visit<R>) -> Result<pauses::Pause, Error> {
    let id = visit.id()?;
    let found = pauses::find(visit.db(), id).await?;
    found.ok_or(Error::Unknown("pause"))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let is_in_force = it.is_in_force(visit.now());
    let state = if is_in_force { "in force" } else { "over" };
    let end = format!("waybill pauses end {}", it.target);
    let mut acts = Vec::new();
    if is_in_force {
        acts.push(Act::of(
            &visit,
            Role::Operator,
            "End it now. What waited is due within some seconds.",
            Button::does("End", format!("{}/end", page(it.id)), Vec::new()),
            end,
        ));
    }
    let object = Object {
        here: HERE,
        kind: "Pause",
        title: it.target.to_string(),
        facts: vec![
            ("State", Cell::State("plain", state.to_owned())),
            ("What", Cell::text(it.target.scope().into_str())),
            ("Name", Cell::text(it.target.name())),
            ("Until", Cell::time(it.until)),
            ("Begun", Cell::time(it.begun_at)),
            ("By", Cell::text(it.actor.as_str())),
            ("Ended by an operator", Cell::maybe_time(it.ended_at)),
        ],
        acts,
        commands: vec![("List all", "waybill pauses list".to_owned())],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

pub async fn ask_begin(visit: Visit<Operator>) -> Result<Response, Error> {
    let question = Question {
        here: HERE,
        title: "Pause something".to_owned(),
        about: vec![
            "Deliveries are accepted all the same. The jobs that the pause concerns wait, and go on by themselves \
             when it ends. Jobs that run already are finished. Of a shop the privacy requests go on, because the \
             law sets their deadline. Nobody is notified meanwhile that a condition begins or is over.",
        ],
        to: Some(format!("{HERE}/begin")),
        label: "Pause it",
        fields: vec![("id", visit.new_id().to_string())],
        inputs: vec![
            Input {
                choices: choices(),
                ..Input::text(
                    "what",
                    "What",
                    "A queue, the calls to a provider, a shop, or a condition of which operators are notified.",
                )
            },
            Input {
                value: visit.query.get("shop").to_owned(),
                ..Input::text(
                    "shop",
                    "Shop",
                    "For a shop: its domain, as in the lists. Else leave it empty.",
                )
            },
            Input {
                kind: "number",
                value: "60".to_owned(),
                ..Input::text(
                    "minutes",
                    "For how many minutes",
                    "At most 10080, which is seven days.",
                )
            },
        ],
        back: HERE.to_owned(),
        command: "waybill pauses begin queue|provider|shop|condition NAME --for 1h".to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

/// What can be paused, as the form has it.
fn choices() -> Vec<String> {
    let of = |scope: Scope, name: &str| format!("{} {name}", scope.into_str());
    let queues = Queue::ALL.into_iter();
    let queues = queues.map(|queue| of(Scope::Queue, queue.into_str()));
    let providers = Provider::ALL.into_iter();
    let providers = providers.map(|provider| of(Scope::Provider, provider.into_str()));
    let shop = Scope::Shop.into_str().to_owned();
    let looked_at = Condition::ALL.into_iter();
    let looked_at = looked_at.filter(|it| it.row().is_looked_at);
    let conditions = looked_at.map(|it| of(Scope::Condition, it.into_str()));
    let all = queues.chain(providers).chain([shop]).chain(conditions);
    all.collect()
}

/// What the form says.
fn target<R>(write: &Write<R>) -> Result<Target, Error> {
    let (what, shop) = (write.fields.get("what"), write.fields.get("shop").trim());
    let (scope, name) = what.split_once(' ').unwrap_or((what, shop));
    let scope: Scope = scope.parse().map_err(|_| Error::Fields)?;
    if scope != Scope::Shop && !shop.is_empty() {
        let text = "A shop is named, and something else is chosen. Leave one of the two out.";
        return Err(Error::Refused(text.to_owned()));
    }
    Target::new(scope, name).map_err(|error| Error::Refused(format!("The name: {error}.")))
}

/// The form brings the pause's id, so sending it again begins no second one.
pub async fn begin(write: Write<Operator>) -> Result<Response, Error> {
    let given = &write.fields;
    let id: Uuid = given.read("id")?;
    let target = target(&write)?;
    let most = LONGEST.as_secs() / 60;
    let minutes: Option<u64> = given.get("minutes").trim().parse().ok();
    let minutes = minutes.filter(|minutes| (1..=most).contains(minutes));
    let Some(minutes) = minutes else {
        let text = format!("The minutes must be a number from 1 to {most}.");
        return Err(Error::Refused(text));
    };
    let by = write.by();
    let until = by.now.plus(Duration::from_secs(minutes * 60));
    match flow::begin(&write.parts().db, by, id, target, until).await {
        Ok(true) => Ok(act::see(&page(id), Done::Begun)),
        Ok(false) => Ok(act::see(&page(id), Done::Changed)),
        Err(Refused::Database(error)) => Err(error.into()),
        Err(why) => Err(Error::impossible(why)),
    }
}

pub async fn end(write: Write<Operator>) -> Result<Response, Error> {
    let it = named(&write).await?;
    let db = &write.parts().db;
    // Only this pause is meant, not one of the same target that somebody began later.
    let is_ended = it.is_in_force(write.now()) && flow::end(db, write.by(), &it.target).await?;
    let done = if is_ended { Done::Ended } else { Done::Changed };
    Ok(act::see(&page(it.id), done))
}
