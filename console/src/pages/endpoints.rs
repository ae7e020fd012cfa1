//! Where events are sent, and whether they are taken there. And how an endpoint is added, tested,
//! paused, given another secret and removed.

use std::time::Duration;

use crate::listing;
use axum::response::Response;
use domain::api_key::Role;
use domain::endpoint::{ROTATION, State};
use domain::time::Timestamp;
use lists::deeds::NewEndpoint;
use lists::form::Empty;
use lists::providers::{Endpoints, types};
use operators::endpoints::{self as flow, Change, Outcome, Refused, Seen, Tested, WantedEndpoint};
use store::endpoints::{self, Endpoint};
use uuid::Uuid;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Question, Secret};
use crate::error::Error;
use crate::pages::object::Object;
use lists::shown::{self, Cell};

/// How long the end of a test is waited for. The page is answered before its deadline.
const TEST: Duration = Duration::from_secs(6);
const HERE: &str = "/endpoints";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Endpoints).await?.listing;
    listing.acts = vec![Act::of(
        &visit,
        Role::Operator,
        "Send events to another address from now on.",
        Button::asks("Add an endpoint", "/endpoints/add".to_owned()),
        "waybill endpoints add URL".to_owned(),
    )];
    Ok(listing.answer(&visit))
}

fn page(id: Uuid) -> String {
    format!("{HERE}/{id}")
}

/// The endpoint that a path names.
async fn named<R>(visit: &Visit<R>) -> Result<Endpoint, Error> {
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
    let act = act::of_one(visit, Role::Operator, "endpoints", it.id);
    let mut acts = vec![act(
        "Have a worker send it a test event.",
        "Test",
        "test",
        false,
    )];
    if it.state == State::Active {
        acts.push(act(
            "Send it no events until it is resumed.",
            "Pause",
            "pause",
            false,
        ));
    } else {
        acts.push(act(
            "Send it events again, beginning with those that wait for it.",
            "Resume",
            "resume",
            false,
        ));
    }
    if it.is_broker() {
        return acts;
    }
    // The answer to the first press is the only one that shows a secret.
    let seen = it.former_secret_until.map_or(0, |at| at.0);
    acts.push(Act::of(
        visit,
        Role::Operator,
        "Give it another secret, which the answer shows once. The present one signs too for a day, so that your system \
         can take the new one without losing anything.",
        Button::does(
            "Another secret",
            format!("{}/rotate", page(it.id)),
            vec![("seen", seen.to_string())],
        ),
        format!("waybill endpoints rotate {}", it.id),
    ));
    acts.push(act(
        "Remove it for good, and what waits for it. A page asks first.",
        "Remove",
        "remove",
        true,
    ));
    acts
}

pub async fn ask_add(visit: Visit<Operator>) -> Result<Response, Error> {
    let question = Question {
        here: HERE,
        title: "Add an endpoint".to_owned(),
        about: vec!["Waybill sends events to it from now on. The answer shows its secret, once."],
        to: Some("/endpoints/add".to_owned()),
        label: "Add it",
        fields: vec![("id", visit.new_id().to_string())],
        form: act::form::<NewEndpoint>(&[]),
        back: HERE.to_owned(),
        command: "waybill endpoints add URL --type PATTERN".to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

/// The form brings the endpoint's id, so sending it again adds no second one.
pub async fn add(write: Write<Operator>) -> Result<Response, Error> {
    let id: Uuid = write.fields.read("id")?;
    let asked: NewEndpoint = write.fields.filled(Empty::LeftOut)?;
    let parts = write.parts();
    let is_there = async || endpoints::find(&parts.db, id).await.map(|it| it.is_some());
    if is_there().await? {
        return Ok(act::see(&page(id), Done::Shown));
    }
    let new = WantedEndpoint {
        id,
        url: &asked.url,
        types: asked.types,
        since: asked.since,
    };
    let (db, clock, allowed) = (&parts.db, &parts.clock, &parts.config.endpoints);
    match flow::add(db, write.by(), clock, allowed, new).await {
        Ok((endpoint, secret)) => {
            let shown = Secret {
                here: HERE,
                title: "The endpoint was added",
                about: format!(
                    "This is the secret with which {} verifies what it gets.",
                    endpoint.url
                ),
                secret: secret.reveal(),
                next: page(id),
            };
            Ok(shown.answer(&write))
        }
        // Two forms were sent at the same moment, and the other one was first.
        Err(Refused::Database(_)) if is_there().await? => Ok(act::see(&page(id), Done::Shown)),
        Err(why) => Err(refused(why)),
    }
}

fn refused(why: Refused) -> Error {
    match why {
        Refused::Unknown => Error::Unknown("endpoint"),
        Refused::Database(error) => error.into(),
        why => Error::impossible(why),
    }
}

/// Has a worker send a test event. It changes nothing of the endpoint, so the audit has no entry.
pub async fn test(mut write: Write<Operator>) -> Result<Response, Error> {
    let id = write.id()?;
    write.end_turn();
    let parts = write.parts();
    let tested = flow::test(&parts.db, &parts.clock, id, TEST).await;
    let Tested { id: job, outcome } = tested.map_err(refused)?;
    // The page of the job has the reason.
    Ok(match outcome {
        Outcome::Accepted => act::see(&page(id), Done::Accepted),
        Outcome::NotAccepted(_) => act::see(&format!("/jobs/{job}"), Done::NotAccepted),
        Outcome::Unknown => act::see(&format!("/jobs/{job}"), Done::NotSent),
    })
}

pub async fn pause(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Pause, Done::Paused).await
}

pub async fn resume(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Resume, Done::EndpointResumed).await
}

async fn change(write: &Write<Operator>, change: Change, done: Done) -> Result<Response, Error> {
    let id = write.id()?;
    let changed = flow::change(&write.parts().db, write.by(), id, change).await;
    let is_changed = changed.map_err(refused)?;
    let done = if is_changed { done } else { Done::Changed };
    Ok(act::see(&page(id), done))
}

pub async fn rotate(write: Write<Operator>) -> Result<Response, Error> {
    let id = write.id()?;
    let seen: i64 = write.fields.read("seen")?;
    let seen = Seen::Until(Some(Timestamp(seen)).filter(|at| at.0 != 0));
    let parts = write.parts();
    match flow::rotate(&parts.db, write.by(), &parts.clock, id, ROTATION, seen).await {
        Ok((secret, _)) => {
            let shown = Secret {
                here: HERE,
                title: "The endpoint has another secret",
                about: "The former one signs too for a day.".to_owned(),
                secret: secret.reveal(),
                next: page(id),
            };
            Ok(shown.answer(&write))
        }
        Err(Refused::Changed) => Ok(act::see(&page(id), Done::Shown)),
        Err(why) => Err(refused(why)),
    }
}

pub async fn ask_remove(visit: Visit<Operator>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let question = Question {
        here: HERE,
        title: "Remove this endpoint for good?".to_owned(),
        about: vec![
            "It gets no events any more, and those that wait for it are not sent. To add it again makes \
             another secret.",
        ],
        facts: vec![
            ("Endpoint", Cell::text(it.url.as_str())),
            ("State", shown::state(it.state.into_str())),
            ("Last accepted", Cell::maybe_time(it.delivered_at)),
        ],
        to: Some(format!("{}/remove", page(it.id))),
        label: "Remove it for good",
        back: page(it.id),
        command: format!("waybill endpoints remove {}", it.id),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn remove(write: Write<Operator>) -> Result<Response, Error> {
    let id = write.id()?;
    match flow::change(&write.parts().db, write.by(), id, Change::Remove).await {
        // Sent again, it is still so that the endpoint is removed.
        Ok(_) | Err(Refused::Unknown) => Ok(act::see(HERE, Done::Removed)),
        Err(why) => Err(refused(why)),
    }
}
