//! Where events are sent, and whether they are taken there.

use axum::response::Response;
use domain::endpoint::State;
use lists::deeds::endpoints::{Add, Pause, Remove, Resume, Rotate, Test};
use lists::providers::{Endpoints, types};
use lists::shown::{self, Cell};
use store::endpoints::{self, Endpoint};

use crate::access::{Reader, Visit};
use crate::act::Act;
use crate::deed;
use crate::error::Error;
use crate::listing;
use crate::pages::object::Object;

const HERE: &str = "/endpoints";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Endpoints).await?.listing;
    listing.acts = vec![deed::act::<Add, _>(&visit, "", None)];
    Ok(listing.answer(&visit))
}

/// The endpoint that a path names.
async fn named(visit: &Visit<Reader>) -> Result<Endpoint, Error> {
    let found = endpoints::find(visit.db(), visit.id()?).await?;
    found.ok_or(Error::Unknown("endpoint"))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let object = Object {
        here: HERE,
        kind: "Endpoint",
        title: it.url.clone(),
        facts: vec![
            ("State", shown::state(it.state.into_str())),
            ("Types", Cell::text(types(&it))),
            ("Last accepted", Cell::maybe_time(it.delivered_at)),
            ("Failing since", Cell::maybe_time(it.failing_since)),
            ("Failures", Cell::Number(it.failures)),
            ("Last error", Cell::maybe(it.last_error.as_deref())),
            (
                "The former secret signs until",
                Cell::maybe_time(it.former_secret_until),
            ),
            ("Added", Cell::time(it.created_at)),
            ("Endpoint", Cell::code(it.id.to_string())),
        ],
        acts: acts(&visit, &it),
        commands: vec![("Show it", format!("waybill endpoints show {}", it.id))],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

fn acts(visit: &Visit<Reader>, it: &Endpoint) -> Vec<Act> {
    let id = it.id.to_string();
    let mut acts = vec![deed::act::<Test, _>(visit, &id, None)];
    acts.push(if it.state == State::Active {
        deed::act::<Pause, _>(visit, &id, None)
    } else {
        deed::act::<Resume, _>(visit, &id, None)
    });
    if it.is_broker() {
        return acts;
    }
    let seen = it.former_secret_until.map_or(0, |at| at.0);
    acts.push(deed::act::<Rotate, _>(visit, &id, Some(seen)));
    acts.push(deed::act::<Remove, _>(visit, &id, None));
    acts
}
