//! Operations: what operators have many dead jobs go through, and how far that has come.

use axum::response::Response;
use domain::api_key::Role;
use domain::time::Timestamp;
use lists::jobs::{operation_state, what};
use store::bulk_operations::{self, Change, Operation, State};
use uuid::Uuid;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Done};
use crate::error::Error;
use crate::pages::object::Object;
use lists::shown::{Cell, bounded};

fn page(id: Uuid) -> String {
    format!("/operations/{id}")
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let id = visit.id()?;
    let found = bulk_operations::find(visit.db(), id).await?;
    let it = found.ok_or(Error::Unknown("operation"))?;
    let done = it.done + it.passed_over + it.refused;
    let is_open = matches!(it.state, State::Waiting | State::Running | State::Stopped);
    let left = it.found.filter(|_| is_open);
    let left = left.map_or(Cell::None, |found| Cell::Number((found - done).max(0)));
    let object = Object {
        here: "/operations",
        kind: "Operation",
        title: format!("{} dead jobs", what(it.action)),
        facts: vec![
            ("State", operation_state(it.state)),
            ("Found", it.found.map_or(Cell::None, Cell::Number)),
            ("Done", Cell::Number(it.done)),
            (
                "Passed over, because others were first",
                Cell::Number(it.passed_over),
            ),
            (
                "Refused, because of open privacy requests",
                Cell::Number(it.refused),
            ),
            ("Left", left),
            ("At most a second", Cell::text(bounded(it.rate, i64::MAX))),
            ("Queue", Cell::text(it.queue.as_str())),
            ("Kind", Cell::text(it.kind.as_str())),
            ("Shop", Cell::text(it.shop.as_str())),
            ("Connection", Cell::text(it.connection.as_str())),
            ("Part of the error", Cell::text(it.error.as_str())),
            ("Died until", Cell::time(it.died_until)),
            ("Confirmed by", Cell::text(it.actor.as_str())),
            ("Confirmed", Cell::time(it.created_at)),
            ("Begins", Cell::time(it.begins_at)),
            ("Ended", Cell::maybe_time(it.finished_at)),
            ("Last error", Cell::maybe(it.last_error.as_deref())),
            ("Look again", Cell::link("Load this page again", page(id))),
        ],
        acts: acts(&visit, &it, visit.now()),
        commands: vec![("Show it", format!("waybill operations show {id}"))],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

fn acts(visit: &Visit<Reader>, it: &Operation, now: Timestamp) -> Vec<Act> {
    let act = act::of_one(visit, Role::Operator, "operations", it.id);
    let does = |what, label, word: &str| act(what, label, word, false);
    let mut acts = Vec::new();
    let has_begun = it.begins_at <= now;
    match it.state {
        State::Running | State::Waiting if has_begun => acts.push(does(
            "Stop it. What is done stays done, and it can go on later.",
            "Stop",
            "stop",
        )),
        State::Stopped => acts.push(does("Go on with what is left.", "Resume", "resume")),
        _ => {}
    }
    let may_be_undone = match it.state {
        State::Waiting => !has_begun,
        State::Stopped => it.is_untouched(),
        _ => false,
    };
    if may_be_undone {
        acts.push(does(
            "Take it back. Nothing was changed yet.",
            "Undo",
            "undo",
        ));
    }
    acts
}

pub async fn stop(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Stop, Done::Stopped).await
}

pub async fn resume(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Resume, Done::Resumed).await
}

pub async fn undo(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Undo, Done::Undone).await
}

async fn change(write: &Write<Operator>, change: Change, done: Done) -> Result<Response, Error> {
    let id = write.id()?;
    let db = &write.parts().db;
    if bulk_operations::find(db, id).await?.is_none() {
        return Err(Error::Unknown("operation"));
    }
    let is_changed = bulk_operations::change(db, write.by(), id, change).await?;
    let done = if is_changed { done } else { Done::Changed };
    Ok(act::see(&page(id), done))
}
