//! Operations: what operators have many dead jobs go through, and how far that has come.

use axum::response::Response;
use domain::time::Timestamp;
use lists::deeds::operations::{Resume, Stop, TakeBack};
use lists::jobs::{operation_state, what};
use lists::shown::{Cell, bounded};
use store::bulk_operations::{self, Operation, State};

use crate::access::{Reader, Visit};
use crate::act::Act;
use crate::deed;
use crate::error::Error;
use crate::pages::object::Object;

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
            (
                "Look again",
                Cell::link("Load this page again", format!("/operations/{id}")),
            ),
        ],
        acts: acts(&visit, &it, visit.now()),
        commands: vec![("Show it", format!("waybill operations show {id}"))],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

fn acts(visit: &Visit<Reader>, it: &Operation, now: Timestamp) -> Vec<Act> {
    let id = it.id.to_string();
    let mut acts = Vec::new();
    let has_begun = it.begins_at <= now;
    match it.state {
        State::Running | State::Waiting if has_begun => {
            acts.push(deed::act::<Stop, _>(visit, &id, None));
        }
        State::Stopped => acts.push(deed::act::<Resume, _>(visit, &id, None)),
        _ => {}
    }
    let may_be_undone = match it.state {
        State::Waiting => !has_begun,
        State::Stopped => it.is_untouched(),
        _ => false,
    };
    if may_be_undone {
        acts.push(deed::act::<TakeBack, _>(visit, &id, None));
    }
    acts
}
