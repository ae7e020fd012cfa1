//! Dead jobs, those that died last first. And how all of a list are run again or discarded: a page says how
//! many they are and asks, and an operation does it.

use crate::listing::{self, Read};
use axum::response::Response;
use domain::api_key::Role;
use domain::job::State;
use domain::time::Timestamp;
use lists::jobs::DeadJobs;
use operators::jobs::as_ended;
use operators::operations as flow;
use process::Parts;
use store::jobs::ended::{self, Filter};
use store::jobs::operate::{Action, carry_out};
use store::jobs::{self, Summary};
use uuid::Uuid;

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Input, Look, Question, said};
use crate::error::Error;
use crate::fields::Fields;
use crate::listing::{Chosen, Rows as _, Table};

use lists::shown::{Cell, bounded, quoted};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let Read {
        mut listing,
        filter: given,
        rows,
    } = listing::read(&visit, &DeadJobs).await?;
    if visit.may(Role::Operator) {
        let seen = |job: &Summary| {
            job.finished_at
                .map_or_else(String::new, |at| at.0.to_string())
        };
        let chosen = rows.iter();
        listing.table.chosen = chosen
            .map(|job| (format!("{CHOSEN}{}", job.id), seen(job)))
            .collect();
    }
    let filter = given.at(visit.now());
    let is_empty = rows.is_empty() && listing.next.is_none();
    // An operation takes what died until the moment of its question, and not less.
    if !is_empty && !given.is_of_time() {
        listing.acts = acts(&visit, &filter);
    }
    let query = asked(&visit.query);
    listing.chosen = Some(Chosen {
        buttons: vec![
            (
                format!("/dead/chosen/requeue{query}"),
                "Requeue",
                Look::Usual,
            ),
            (
                format!("/dead/chosen/discard{query}"),
                "Discard ..",
                Look::Danger,
            ),
        ],
    });
    Ok(listing.answer(&visit))
}

/// With this begin the names of the fields that choose a job.
const CHOSEN: &str = "job-";

/// The jobs that somebody has chosen, at least one, each with when it had died as the page showed it.
fn chosen(fields: &Fields) -> Result<Vec<(Uuid, Timestamp)>, Error> {
    let read = |(id, seen): (&str, &str)| {
        let seen = seen.parse().map_err(|_| Error::Fields)?;
        Ok((
            Uuid::parse_str(id).map_err(|_| Error::Fields)?,
            Timestamp(seen),
        ))
    };
    let chosen: Vec<_> = fields
        .beginning(CHOSEN)
        .map(read)
        .collect::<Result<_, Error>>()?;
    if chosen.is_empty() {
        return Err(Error::impossible("choose at least one job"));
    }
    Ok(chosen)
}

pub async fn requeue_chosen(write: Write<Operator>) -> Result<Response, Error> {
    to_chosen(&write, Action::Requeue, said::CHOSEN_REQUEUED).await
}

/// Asks before it does it.
pub async fn discard_chosen(write: Write<Operator>) -> Result<Response, Error> {
    if write.fields.get("sure").is_empty() {
        return Ok(ask_chosen(&write, &chosen(&write.fields)?));
    }
    to_chosen(&write, Action::Discard, said::CHOSEN_DISCARDED).await
}

/// Does it to those of the chosen jobs that are as the page showed them and may be changed, all together.
async fn to_chosen(
    write: &Write<Operator>,
    action: Action,
    done: said::Sentence,
) -> Result<Response, Error> {
    let chosen = chosen(&write.fields)?;
    let Parts { db, bus, clock, .. } = write.parts();
    let mut ended = Vec::new();
    for (id, seen) in &chosen {
        let found = jobs::show(db, *id).await?;
        let found =
            found.filter(|job| job.finished_at == Some(*seen) && job.discarded_at.is_none());
        ended.extend(found.and_then(|job| as_ended(&job, State::Dead).ok()));
    }
    let (admitted, _) = operators::jobs::admitted(db, action, ended).await?;
    let id = clock.id();
    let taken = carry_out(db, write.by(), action, id, &admitted, bus.is_up()).await?;
    if action == Action::Requeue {
        operators::jobs::notify(db, bus, &taken).await?;
    }
    let done = match taken.len() {
        all if all == chosen.len() => done,
        0 => said::CHANGED,
        _ => said::SOME_CHANGED,
    };
    Ok(act::see(&format!("/dead{}", asked(&write.query)), done))
}

/// What a list is asked for, as a query.
fn asked(query: &Fields) -> String {
    query.without(&["after", "done", "format"])
}

fn ask_chosen(write: &Write<Operator>, chosen: &[(Uuid, Timestamp)]) -> Response {
    let query = asked(&write.query);
    let mut table = Table::new(&["Died", "Job"]);
    for (id, seen) in chosen {
        table.row(vec![Cell::time(*seen), Cell::job(*id)]);
    }
    let jobs = chosen
        .iter()
        .map(|(id, seen)| (format!("{CHOSEN}{id}"), seen.0.to_string()));
    let count = bounded(i64::try_from(chosen.len()).unwrap_or(i64::MAX), i64::MAX);
    let noun = if chosen.len() == 1 { "job" } else { "jobs" };
    let ids: Vec<String> = chosen.iter().map(|(id, _)| id.to_string()).collect();
    let question = Question {
        here: "/dead".to_owned(),
        title: format!("Discard {count} {noun} for good?"),
        about: about(Action::Discard, 1, false)[..1].to_vec(),
        tables: vec![("Which jobs", table)],
        to: Some(format!("/dead/chosen/discard{query}")),
        label: "Discard them for good",
        look: Look::Danger,
        fields: vec![("sure", "yes".to_owned())],
        chosen: jobs.collect(),
        back: format!("/dead{query}"),
        command: format!("waybill dead discard {}", ids.join(" ")),
        ..Question::default()
    };
    question.answer(write)
}

/// Which jobs the fields of a list or of a form name.
fn filter(fields: &Fields) -> Result<Filter, Error> {
    let given = |name| fields.get(name).to_owned();
    Ok(Filter {
        queue: fields.maybe("queue")?,
        kind: given("kind"),
        shop: given("shop").to_ascii_lowercase(),
        connection: given("connection"),
        error: given("error"),
        ..Filter::default()
    })
}

/// The same as fields.
fn fields(filter: &Filter) -> Vec<(&'static str, String)> {
    vec![
        (
            "queue",
            filter.queue.map_or("", |it| it.into_str()).to_owned(),
        ),
        ("kind", filter.kind.clone()),
        ("shop", filter.shop.clone()),
        ("connection", filter.connection.clone()),
        ("error", filter.error.clone()),
    ]
}

fn query(filter: &Filter) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields(filter)).finish()
}

/// The command that does the same, with the jobs that died until this time.
fn command(action: Action, filter: &Filter, died_until: Option<Timestamp>) -> String {
    let mut words = vec![format!("waybill dead {action}")];
    let given = fields(filter).into_iter();
    words.extend(
        given
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("--{name} {}", quoted(&value))),
    );
    match died_until {
        Some(at) => words.push(format!("--before {}", Timestamp(at.0.saturating_add(1)))),
        None if words.len() == 1 => words.push("--all".to_owned()),
        None => {}
    }
    words.join(" ")
}

/// How the button of an action looks.
fn look(action: Action) -> Look {
    match action {
        Action::Requeue => Look::Usual,
        Action::Discard => Look::Danger,
    }
}

fn acts(visit: &Visit<Reader>, filter: &Filter) -> Vec<Act> {
    let query = query(filter);
    let asks = |what, label, action: Action| {
        let button = Button {
            look: look(action),
            ..Button::asks(label, format!("/dead/{action}?{query}"))
        };
        let command = command(action, filter, None);
        Act::of(visit, Role::Operator, what, button, command)
    };
    vec![
        asks(
            "Requeue all jobs of this list, also those of its other pages. A page asks first.",
            "Requeue all of these",
            Action::Requeue,
        ),
        asks(
            "Give all jobs of this list up for good. A page asks first.",
            "Discard all of these",
            Action::Discard,
        ),
    ]
}

pub async fn ask_requeue(visit: Visit<Operator>) -> Result<Response, Error> {
    ask(&visit, Action::Requeue).await
}

pub async fn ask_discard(visit: Visit<Operator>) -> Result<Response, Error> {
    ask(&visit, Action::Discard).await
}

/// Says which jobs it will be, and asks. What the form sends fixes them: the filter, and this moment.
async fn ask(visit: &Visit<Operator>, action: Action) -> Result<Response, Error> {
    if ["since", "before"]
        .into_iter()
        .any(|it| !visit.query.get(it).is_empty())
    {
        return Err(Error::impossible(
            "all that died until now are meant: leave since and before out",
        ));
    }
    let filter = filter(&visit.query)?;
    let died_until = visit.now();
    let until = flow::until(&filter, died_until);
    let found = ended::of_kinds(visit.db(), &until, flow::MOST).await?;
    let (jobs, is_more) = (flow::counted(&found), found.is_cut);
    let table = found.kinds.table(&[
        ("Jobs", &|kind| Cell::text(counted(kind.jobs, is_more))),
        ("Kind", &|kind| Cell::text(kind.kind.as_str())),
        ("First died", &|kind| Cell::time(kind.first)),
        ("Last died", &|kind| Cell::time(kind.last)),
    ]);
    let count = counted(jobs, is_more);
    let noun = if jobs == 1 { "job" } else { "jobs" };
    let (title, label) = match action {
        Action::Requeue => (format!("Requeue {count} {noun}?"), "Requeue them"),
        Action::Discard => (
            format!("Discard {count} {noun} for good?"),
            "Discard them for good",
        ),
    };
    let names = ["Queue", "Kind", "Shop", "Connection", "Part of the error"];
    let given = names.into_iter().zip(fields(&filter));
    let mut facts: Vec<_> = given
        .filter(|(_, (_, value))| !value.is_empty())
        .map(|(name, (_, value))| (name, Cell::text(value)))
        .collect();
    facts.push(("Died until", Cell::time(died_until)));
    let mut sent = fields(&filter);
    sent.push(("until", died_until.0.to_string()));
    sent.push(("id", visit.new_id().to_string()));
    let question = Question {
        here: "/dead".to_owned(),
        title,
        about: about(action, jobs, is_more),
        facts,
        tables: if found.kinds.is_empty() {
            Vec::new()
        } else {
            vec![("Which jobs", table)]
        },
        to: (jobs > 0 || is_more).then(|| format!("/dead/{action}")),
        label,
        look: look(action),
        fields: sent,
        inputs: vec![Input {
            kind: "number",
            value: flow::usual_rate(action).to_string(),
            ..Input::text(
                "rate",
                "Jobs a second, at most",
                "A provider that has just recovered is not to be overloaded.",
            )
        }],
        back: format!("/dead?{}", query(&filter)),
        command: command(action, &filter, Some(died_until)),
        ..Question::default()
    };
    Ok(question.answer(visit))
}

/// A number of jobs, with a sign when there may be more.
fn counted(jobs: i64, is_more: bool) -> String {
    let more = if is_more { "+" } else { "" };
    format!("{}{more}", bounded(jobs, i64::MAX))
}

/// What it means, in sentences.
fn about(action: Action, jobs: i64, is_more: bool) -> Vec<String> {
    if jobs == 0 && !is_more {
        let nothing = "No dead job is in this list any more, so there is nothing to do.";
        return vec![nothing.to_owned()];
    }
    let mut about = vec![
        match action {
            Action::Requeue => {
                "Each gets as many tries as a new job. Effects that an earlier run had are not repeated."
            }
            Action::Discard => {
                "They are then done: they are never run again, and their bodies are removed for good. The \
                 jobs of open privacy requests are left alone."
            }
        },
        "Jobs that die after the moment of this page are not among them. It begins ten seconds after you \
         confirm it, and can be undone until then.",
    ];
    if is_more {
        about.push(
            "Only the newest dead jobs were counted here, so there may be more. The operation concerns all \
             that match.",
        );
    }
    about.into_iter().map(ToOwned::to_owned).collect()
}

pub async fn requeue(write: Write<Operator>) -> Result<Response, Error> {
    confirm(&write, Action::Requeue).await
}

pub async fn discard(write: Write<Operator>) -> Result<Response, Error> {
    confirm(&write, Action::Discard).await
}

/// Confirms an operation. The form brings its id, so sending it again confirms no second one.
async fn confirm(write: &Write<Operator>, action: Action) -> Result<Response, Error> {
    let given = &write.fields;
    let filter = filter(given)?;
    let id: Uuid = given.read("id")?;
    let until: i64 = given.read("until")?;
    let rate: i64 = given.read("rate")?;
    let until = Timestamp(until.min(write.now().0));
    let db = &write.parts().db;
    flow::confirm(db, write.by(), id, action, &filter, until, rate).await?;
    Ok(act::see(&format!("/operations/{id}"), said::CONFIRMED))
}
