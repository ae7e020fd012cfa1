//! What is paused: a queue, the calls to a provider, or a shop. And how a pause is begun and ended.

use std::time::Duration;

use axum::response::Response;
use domain::api_key::Role;
use domain::pause::{LONGEST, Scope, Target};
use flows::pauses::{self as flow, Refused};
use store::pauses;
use uuid::Uuid;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Input, Question};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::pages::object::Object;
use crate::shown::Cell;

const HERE: &str = "/pauses";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut table = Table::new(&["What", "Name", "Until", "Begun", "By", "Pause"]);
    for it in pauses::in_force(visit.db(), visit.now()).await? {
        table.row(vec![
            Cell::text(it.target.scope().as_str()),
            Cell::text(it.target.name()),
            Cell::time(it.until),
            Cell::time(it.begun_at),
            Cell::text(it.actor.as_str()),
            Cell::link(it.id.to_string(), page(it.id)),
        ]);
    }
    let listing = Listing {
        here: HERE,
        title: "Pauses",
        about: "What operators have paused. Deliveries are accepted all the same. Their jobs wait, and go on by \
                themselves when the pause ends.",
        command: "waybill pauses list".to_owned(),
        filters: Vec::new(),
        table,
        acts: vec![Act::of(
            &visit,
            Role::Operator,
            "Let a queue, the calls to a provider, or a shop wait for a while.",
            Button::asks("Pause something", format!("{HERE}/begin")),
            "waybill pauses begin queue|provider|shop NAME --for 1h".to_owned(),
        )],
        empty: "Nothing is paused.",
        note: None,
        next: None,
    };
    Ok(listing.answer(&visit))
}

fn page(id: Uuid) -> String {
    format!("{HERE}/{id}")
}

async fn named<R>(visit: &Visit<R>) -> Result<pauses::Pause, Error> {
    let id = Uuid::parse_str(visit.path("id")).map_err(|_| Error::NotFound)?;
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
            ("What", Cell::text(it.target.scope().as_str())),
            ("Name", Cell::text(it.target.name())),
            ("Until", Cell::time(it.until)),
            ("Begun", Cell::time(it.begun_at)),
            ("By", Cell::text(it.actor.as_str())),
            ("Ended by an operator", Cell::maybe_time(it.ended_at)),
        ],
        chains: Vec::new(),
        tables: Vec::new(),
        note: None,
        acts,
        commands: vec![("List all", "waybill pauses list".to_owned())],
    };
    Ok(object.answer(&visit))
}

pub async fn ask_begin(visit: Visit<Operator>) -> Result<Response, Error> {
    let input = |name, label, value: &str, help| Input {
        name,
        label,
        kind: "text",
        value: value.to_owned(),
        help,
    };
    let question = Question {
        here: HERE,
        title: "Pause something".to_owned(),
        about: vec![
            "Deliveries are accepted all the same. The jobs that the pause concerns wait, and go on by themselves \
             when it ends. Jobs that run already are finished. Of a shop the privacy requests go on, because the \
             law sets their deadline."
                .to_owned(),
        ],
        facts: Vec::new(),
        tables: Vec::new(),
        to: visit
            .may(Role::Operator)
            .then(|| format!("{HERE}/begin")),
        label: "Pause it",
        fields: vec![("id", visit.new_id().to_string())],
        inputs: vec![
            input("scope", "What", "queue", "queue, provider or shop"),
            input(
                "name",
                "Name",
                "",
                "A queue: orders, payments, privacy, endpoints. A provider: storefront, payment, mail. Or the \
                 domain of a shop.",
            ),
            input("minutes", "For how many minutes", "60", "At most 10080, which is seven days."),
        ],
        back: HERE.to_owned(),
        command: "waybill pauses begin queue|provider|shop NAME --for 1h".to_owned(),
    };
    Ok(question.answer(&visit))
}

/// The form brings the pause's id, so sending it again begins no second one.
pub async fn begin(write: Write<Operator>) -> Result<Response, Error> {
    let given = &write.fields;
    let id: Uuid = given.get("id").parse().map_err(|_| Error::Fields)?;
    let scope: Result<Scope, _> = given.get("scope").trim().parse();
    let scope = scope.map_err(|error| Error::Refused(format!("What: {error}.")))?;
    let target = Target::new(scope, given.get("name").trim());
    let target = target.map_err(|error| Error::Refused(format!("The name: {error}.")))?;
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
        Err(why) => Err(Error::Refused(format!("This is not possible: {why}."))),
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
