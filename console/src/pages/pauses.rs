//! What is paused: a queue, the calls to a provider, a shop, or the notification of a condition.

use axum::response::Response;
use lists::deeds::pauses::{Begin, End, Paused};
use lists::jobs::Pauses;
use lists::shown::Cell;
use store::pauses;

use crate::access::{Reader, Visit, Write};
use crate::act::{self, Act, said};
use crate::deed::{self, Doer};
use crate::error::Error;
use crate::listing;
use crate::pages::object::Object;

const HERE: &str = "/pauses";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Pauses).await?.listing;
    listing.acts = vec![deed::act::<Begin, _>(&visit, "", None)];
    Ok(listing.answer(&visit))
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
    let acts = if is_in_force {
        vec![Act {
            // The page names the pause by its id, the command what is paused.
            command: format!("waybill pauses end {}", it.target),
            ..deed::act::<End, _>(&visit, &it.id.to_string(), None)
        }]
    } else {
        Vec::new()
    };
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

/// Ends this pause alone, not one of the same target that somebody began later.
pub async fn end(write: Write<Doer<End>>) -> Result<Response, Error> {
    let it = named(&write).await?;
    let page = format!("{HERE}/{}", it.id);
    if !it.is_in_force(write.now()) {
        return Ok(act::see(&page, said::CHANGED));
    }
    let what = Paused {
        scope: it.target.scope(),
        name: it.target.name().to_owned(),
    };
    let pause = Some(it.id);
    deed::carry_out(write, End { what, pause }).await
}
