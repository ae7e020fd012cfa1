//! Dead jobs, those that died last first. Those that are chosen, here or on the page of one, are requeued or discarded at once,
//! the latter after a page has asked; so are finished deliveries of that page. Of all of a list a page says how many they are
//! and asks, and an operation does it.

use std::collections::BTreeMap;

use axum::response::Response;
use domain::time::Timestamp;
use lists::deeds::jobs::{Discard, Named, Requeue, ToEnded};
use lists::deeds::{About, Deed as _};
use lists::jobs::DeadJobs;
use lists::shown::{self, Cell, bounded, quoted};
use operators::operations as flow;
use store::jobs::ended::{self, Filter};
use store::jobs::operate::Action;
use store::jobs::{self, Summary};
use uuid::Uuid;

use crate::access::{Reader, Visit, Write};
use crate::act::{self, Act, Button, Hidden, Input, Question, said};
use crate::deed::{self, Doer};
use crate::error::Error;
use crate::fields::Fields;
use crate::listing::{self, Chosen, Read, Rows as _, Table};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let Read {
        mut listing,
        filter: given,
        rows,
    } = listing::read(&visit, &DeadJobs).await?;
    if visit.may(Requeue::ABOUT.role) {
        listing.table.chosen = rows.iter().map(choice).collect();
    }
    let filter = given.at(visit.now());
    let is_empty = rows.is_empty() && listing.next.is_none();
    // An operation takes what died until the moment of its question, and not less.
    if !is_empty && !given.is_of_time() {
        listing.acts = vec![
            of_all::<Requeue>(&visit, &filter),
            of_all::<Discard>(&visit, &filter),
        ];
    }
    let query = asked(&visit.query);
    let button = |about: About, look| (format!("{}{query}", about.path("")), about.button, look);
    listing.chosen = Some(Chosen {
        buttons: vec![
            button(Requeue::ABOUT, deed::look::<Requeue>()),
            button(Discard::ABOUT, deed::look::<Discard>()),
        ],
    });
    Ok(listing.answer(&visit))
}

/// With this begin the names of the fields that choose a job. Their value is when it had ended, as the page showed it.
const CHOSEN: &str = "job-";

/// The field that says which page it is done from: that of a job, or else a list.
pub const FROM: &str = "from";

/// The field that chooses a job as it is shown.
pub fn choice(job: &Summary) -> (String, String) {
    let ended = job.finished_at.unwrap_or(job.run_at);
    (format!("{CHOSEN}{}", job.id), ended.0.to_string())
}

/// The jobs that somebody has chosen, each with when it had ended as the page showed it.
fn chosen(fields: &Fields) -> Result<Named, Error> {
    let read = |(id, seen): (&str, &str)| {
        let id = Uuid::parse_str(id).map_err(|_| Error::Fields)?;
        let seen = seen.parse().map_err(|_| Error::Fields)?;
        Ok((id, Timestamp(seen)))
    };
    let seen = fields.beginning(CHOSEN).map(read);
    let seen: BTreeMap<_, _> = seen.collect::<Result<_, Error>>()?;
    if seen.is_empty() {
        return Err(Error::impossible("choose at least one job"));
    }
    Ok(Named {
        ids: seen.keys().copied().collect(),
        seen,
    })
}

/// Does it to the chosen jobs that are as the page showed them. What is for good is asked before.
pub async fn to_chosen<D: ToEnded>(write: Write<Doer<D>>) -> Result<Response, Error> {
    let named = chosen(&write.fields)?;
    let from = match (write.fields.get(FROM), named.ids.as_slice()) {
        ("job", [one]) => shown::job(*one),
        _ => format!("{}{}", D::ABOUT.list(), asked(&write.query)),
    };
    if D::ABOUT.question.is_some() && write.fields.get("sure").is_empty() {
        return ask_chosen::<D>(&write, named, from).await;
    }
    deed::carry_out_from(write, D::of(named), Some(from)).await
}

/// What a list is asked for, as a query.
fn asked(query: &Fields) -> String {
    match query.without(&["after", "done", "format"]) {
        none if none == "?" => String::new(),
        query => query,
    }
}

/// Asks of those that have not changed since.
async fn ask_chosen<D: ToEnded>(
    write: &Write<Doer<D>>,
    named: Named,
    from: String,
) -> Result<Response, Error> {
    let mut table = Table::new(&["Ended", "Kind", "Shop", "Last error", "Job"]);
    let (mut fields, mut ids) = (deed::fields(write, None), Vec::new());
    for (id, seen) in named.seen {
        let job = jobs::show(write.db(), id).await?;
        let Some(job) = job.filter(|it| it.finished_at == Some(seen) && it.discarded_at.is_none())
        else {
            continue;
        };
        let (name, value) = choice(&job);
        fields.push((name.into(), value));
        ids.push(id.to_string());
        table.row(vec![
            Cell::time(seen),
            Cell::text(job.kind),
            Cell::maybe(job.shop.as_deref()),
            Cell::maybe(job.last_error.as_deref()),
            Cell::job(id),
        ]);
    }
    if ids.is_empty() {
        return Ok(act::see(&from, said::CHANGED));
    }
    fields.push(("sure".into(), "yes".to_owned()));
    fields.push((FROM.into(), write.fields.get(FROM).to_owned()));
    let asked_of = D::ABOUT.question.ok_or(Error::NotFound)?;
    let question = Question {
        here: D::ABOUT.list(),
        title: asked_of.title.to_owned(),
        about: deed::about::<D>(),
        tables: vec![("Which jobs", table)],
        to: Some(format!("{}{}", D::ABOUT.path(""), asked(&write.query))),
        label: asked_of.button,
        look: deed::look::<D>(),
        fields,
        back: from,
        command: deed::command::<D>(&ids.join(" ")),
        ..Question::default()
    };
    Ok(question.answer(write))
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

/// Where all jobs of a filter are requeued or discarded.
fn path(action: Action) -> String {
    format!("/dead/all/{action}")
}

fn of_all<D: ToEnded>(visit: &Visit<Reader>, filter: &Filter) -> Act {
    let (label, what) = match D::ACTION {
        Action::Requeue => ("Requeue all of these", "Requeue all jobs of this list"),
        Action::Discard => (
            "Discard all of these",
            "Give all jobs of this list up for good",
        ),
    };
    let button = Button {
        look: deed::look::<D>(),
        ..Button::asks(label, format!("{}?{}", path(D::ACTION), query(filter)))
    };
    let what = format!("{what}, also those of its other pages. A page asks first.");
    Act::of(
        visit,
        D::ABOUT.role,
        what,
        button,
        command(D::ACTION, filter, None),
    )
}

/// Says which jobs it will be, and asks. What the form sends fixes them: the filter, and this moment.
pub async fn ask_all<D: ToEnded>(visit: Visit<Doer<D>>) -> Result<Response, Error> {
    let action = D::ACTION;
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
    let names = ["Queue", "Kind", "Shop", "Connection", "Part of the error"];
    let given = names.into_iter().zip(fields(&filter));
    let mut facts: Vec<_> = given
        .filter(|(_, (_, value))| !value.is_empty())
        .map(|(name, (_, value))| (name, Cell::text(value)))
        .collect();
    facts.push(("Died until", Cell::time(died_until)));
    let given = fields(&filter).into_iter();
    let mut sent: Hidden = given.map(|(name, value)| (name.into(), value)).collect();
    sent.push(("until".into(), died_until.0.to_string()));
    sent.push(("id".into(), visit.new_id().to_string()));
    let is_any = jobs > 0 || is_more;
    let mut about = vec![NOTHING.to_owned()];
    if is_any {
        about = deed::about::<D>();
        about.push(LATER.to_owned());
    }
    if is_more {
        about.push(UNCOUNTED.to_owned());
    }
    let count = counted(jobs, is_more);
    let noun = if jobs == 1 { "job" } else { "jobs" };
    let (title, label) = match action {
        Action::Requeue => (format!("Requeue {count} {noun}?"), "Requeue them"),
        Action::Discard => (
            format!("Discard {count} {noun} for good?"),
            "Discard them for good",
        ),
    };
    let question = Question {
        here: "/dead".to_owned(),
        title,
        about,
        facts,
        tables: if found.kinds.is_empty() {
            Vec::new()
        } else {
            vec![("Which jobs", table)]
        },
        to: is_any.then(|| path(action)),
        label,
        look: deed::look::<D>(),
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
    Ok(question.answer(&visit))
}

/// A number of jobs, with a sign when there may be more.
fn counted(jobs: i64, is_more: bool) -> String {
    let more = if is_more { "+" } else { "" };
    format!("{}{more}", bounded(jobs, i64::MAX))
}

const NOTHING: &str = "No dead job is in this list any more, so there is nothing to do.";
const LATER: &str = "Jobs that die after the moment of this page are not among them. It begins ten seconds after you confirm it, and \
                     can be undone until then.";
const UNCOUNTED: &str = "Only the newest dead jobs were counted here, so there may be more. The operation concerns all that match.";

/// Confirms an operation. The form brings its id, so sending it again confirms no second one.
pub async fn confirm<D: ToEnded>(write: Write<Doer<D>>) -> Result<Response, Error> {
    let given = &write.fields;
    let filter = filter(given)?;
    let id: Uuid = given.read("id")?;
    let until: i64 = given.read("until")?;
    let rate: i64 = given.read("rate")?;
    let until = Timestamp(until.min(write.now().0));
    let db = &write.parts().db;
    flow::confirm(db, write.by(), id, D::ACTION, &filter, until, rate).await?;
    Ok(act::see(&format!("/operations/{id}"), said::CONFIRMED))
}
