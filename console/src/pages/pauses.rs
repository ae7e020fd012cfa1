//! What is paused: a queue, the calls to a provider, a shop, or the notification of a condition. And how a pause is begun and ended.

use crate::listing;
use axum::response::Response;
use domain::api_key::Role;
use domain::pause::Scope;
use lists::deeds::Pause;
use lists::form::Empty;
use lists::jobs::Pauses;
use operators::pauses::{self as flow, Refused};
use store::pauses;
use uuid::Uuid;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Question};
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
    let shop = visit.query.get("shop");
    let given = match shop {
        "" => Vec::new(),
        shop => vec![("scope", Scope::Shop.into_str()), ("name", shop)],
    };
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
        form: act::form::<Pause>(&given),
        back: HERE.to_owned(),
        command: "waybill pauses begin queue|provider|shop|condition NAME --for 1h".to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

/// The form brings the pause's id, so sending it again begins no second one.
pub async fn begin(write: Write<Operator>) -> Result<Response, Error> {
    let id: Uuid = write.fields.read("id")?;
    let asked: Pause = write.fields.filled(Empty::LeftOut)?;
    let target = asked.what.target().map_err(Error::impossible)?;
    let by = write.by();
    let until = by.now.plus(asked.length);
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
