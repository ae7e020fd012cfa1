//! What needs somebody now: how much, since when, and the command that mends it. It is empty when all is
//! well. Below stand small charts of the last hour, and which protections the settings switch off.

use std::time::Duration;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::Role;
use domain::attention::{Condition, Severity, State};
use domain::privacy::WARNING;
use domain::time::{Timestamp, age};
use operators::findings::{Finding, Level};
use store::attention::{self, Attention};
use store::bulk_operations::State as Operation;
use store::endpoints::Endpoint;
use store::jobs::ended::{self, Group};
use store::jobs::retried;
use store::pauses::{self, Pause};
use store::privacy_requests::{self, RequestEntry};
use store::sql;
use store::{backlog, bulk_operations, endpoints, refused_deliveries};

use crate::access::{Reader, Visit};
use crate::act::Button;
use crate::deed;
use crate::error::Error;
use crate::frame::Frame;
use crate::known::{Count, Counts};
use crate::listing::{self, Rows as _, Table};
use crate::pages::charts::{self, Part};
use lists::deeds::attention::Acknowledge;
use lists::jobs::FAILED;
use lists::shown::{Cell, Moment, bounded, escaped};

/// Where counting stops.
const MOST: i64 = backlog::MOST;
/// The causes are read from so many of the newest dead jobs of each queue, and so many of the newest failed attempts.
const LOOKED_AT: i64 = 1000;
/// What was refused before that needs nobody now.
const REFUSED: Duration = Duration::from_hours(24);
const MOST_REQUESTS: i64 = 500;
/// So many of the newest operations are looked at for those that run.
const MOST_OPERATIONS: i64 = 20;
/// At most so many things of each kind are listed one by one.
const LISTED: usize = 10;

#[derive(Default)]
struct Item {
    /// `bad` when it presses.
    class: &'static str,
    what: String,
    count: String,
    since: Option<Moment>,
    age: String,
    why: String,
    mend: String,
    command: String,
    href: Option<String>,
    /// What can be done about it from here.
    button: Option<(Role, Button)>,
    /// By which somebody says that they know of it.
    acknowledge: Option<Button>,
}

impl Item {
    fn since(at: Option<Timestamp>, now: Timestamp) -> Self {
        Item {
            since: at.map(Moment),
            age: at.map_or_else(String::new, |at| age(now, at)),
            ..Item::default()
        }
    }
}

#[derive(Template)]
#[template(path = "now.html")]
struct NowPage<'a> {
    frame: Frame<'a>,
    items: &'a [Item],
    /// None when it cannot be read.
    hour: Option<Part>,
    settings: &'a [Finding],
}

/// What needs somebody, and how much waits at each page of the menu.
#[derive(Default)]
pub struct Now {
    items: Vec<Item>,
    pub counts: Counts,
    settings: Vec<Finding>,
}

impl Now {
    /// What was read. What cannot be read is an item of its own, and the others are shown all the same.
    fn read<T: Default>(&mut self, what: &str, read: sql::Result<T>) -> T {
        read.unwrap_or_else(|error| {
            tracing::warn!(
                error = error.to_string(),
                what,
                "a part of a page cannot be read"
            );
            self.items.push(Item {
                class: "bad",
                what: format!("Not known: {what}"),
                why: "The database did not answer in time, or refused.".to_owned(),
                mend: "Load the page again; the doctor says what is wrong.".to_owned(),
                command: "waybill doctor".to_owned(),
                ..Item::default()
            });
            T::default()
        })
    }

    fn count(&mut self, page: &'static str, number: usize) {
        self.count_to(page, i64::try_from(number).unwrap_or(i64::MAX), false);
    }

    fn count_to(&mut self, page: &'static str, number: i64, is_cut: bool) {
        self.counts.insert(page, Count { number, is_cut });
    }
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let Now {
        mut items,
        settings,
        ..
    } = look(&visit).await;
    if let Some(answer) = listing::in_format(&visit, &table(&items), "/") {
        return Ok(answer);
    }
    for item in &mut items {
        item.button.take_if(|(role, _)| !visit.may(*role));
    }
    let page = NowPage {
        frame: Frame::of(&visit, "/"),
        items: &items,
        hour: charts::hour(&visit).await.ok(),
        settings: &settings,
    };
    Ok(Html(page.to_string()).into_response())
}

fn table(items: &[Item]) -> Table {
    items.table(&[
        ("What", &|item| Cell::text(item.what.as_str())),
        ("Count", &|item| Cell::text(item.count.as_str())),
        ("Since", &|item| item.since.map_or(Cell::None, Cell::Time)),
        ("Why", &|item| Cell::text(item.why.as_str())),
        ("Mend", &|item| Cell::text(item.mend.as_str())),
        ("Command", &|item| Cell::text(item.command.as_str())),
    ])
}

pub async fn look<R>(visit: &Visit<R>) -> Now {
    let (db, now) = (visit.db(), visit.now());
    let mut it = Now::default();
    let known = it.read("what operators are notified of", attention::all(db).await);
    let known = known.iter().filter(|it| is_shown(it));
    it.items.extend(known.map(|known| {
        let is_new = known.acknowledged_by.is_none();
        let name = known.condition.into_str();
        let acknowledge = || deed::act::<Acknowledge, _>(visit, name, None).button;
        Item {
            acknowledge: is_new.then(acknowledge).flatten(),
            ..needing_attention(known, now)
        }
    }));
    let open = privacy_requests::Filter {
        open: true,
        ..privacy_requests::Filter::default()
    };
    let open = privacy_requests::list(db, &open, MOST_REQUESTS).await;
    let open = it.read("open privacy requests", open);
    let number = i64::try_from(open.len()).unwrap_or(i64::MAX);
    it.count_to("/privacy", number, number >= MOST_REQUESTS);
    it.items.extend(requests(&open, now));
    let lines = it.read("what waits", backlog::queues(db, now).await);
    it.count_to("/dead", lines.iter().map(|line| line.dead).sum(), false);
    it.items.extend(late(&lines, now));
    let is_cut = lines.iter().any(|line| line.dead > LOOKED_AT);
    let causes = it.read("what jobs died of", ended::causes(db, LOOKED_AT).await);
    it.items.extend(dead(&causes, is_cut, now));
    let causes = retried::causes(db, now.minus(FAILED), LOOKED_AT).await;
    let (causes, is_cut) = it.read("which jobs fail", causes);
    it.count_to("/failing", causes.iter().map(|it| it.jobs).sum(), is_cut);
    it.items.extend(failing(&causes, is_cut, now));
    let refused = refused_deliveries::summary(db, now.minus(REFUSED)).await;
    let refused = it.read("what was refused", refused);
    it.count_to(
        "/refused",
        refused.iter().map(|it| it.deliveries).sum(),
        false,
    );
    it.items.extend(refusals(&refused, now));
    let endpoints = it.read("the endpoints", endpoints::list(db).await);
    let failing: Vec<Item> = endpoints
        .iter()
        .filter_map(|it| endpoint(it, now))
        .collect();
    it.count("/endpoints", failing.len());
    it.items.extend(failing);
    let pauses = it.read("what is paused", pauses::in_force(db, now).await);
    it.count("/pauses", pauses.len());
    it.items.extend(pauses.iter().map(|it| paused(it, now)));
    let operations = bulk_operations::list(db, MOST_OPERATIONS).await;
    let operations = it.read("the operations", operations).into_iter();
    let running =
        operations.filter(|it| matches!(it.state, Operation::Waiting | Operation::Running));
    it.count("/operations", running.count());
    match visit.known().findings(visit, &endpoints).await {
        Ok(found) => {
            it.items.extend(found.now.iter().map(finding));
            it.settings.clone_from(&found.settings);
        }
        Err(error) => it.read("what the doctor finds", Err(error)),
    }
    // What presses comes first.
    it.items.sort_by_key(|item| item.class != "bad");
    it.count("/", it.items.len());
    it
}

/// Whether nothing else on this page says it, with more about it.
fn is_shown(it: &Attention) -> bool {
    it.state == State::Begun
        && !matches!(
            it.condition,
            Condition::DatabaseHindered
                | Condition::QueueStandsStill
                | Condition::JobsDead
                | Condition::SignaturesRefused
                | Condition::DeliveriesOverRate
                | Condition::EndpointPaused
                | Condition::WebhooksNotSent
                | Condition::PrivacyRequestFailed
                | Condition::PrivacyRequestHeld
                | Condition::PrivacyDeadlineNear
                | Condition::PrivacyDeadlinePressing
        )
}

/// What operators are notified of.
fn needing_attention(it: &Attention, now: Timestamp) -> Item {
    let row = it.condition.row();
    Item {
        class: match row.severity {
            Severity::Page => "bad",
            Severity::Ticket => "open",
        },
        what: it.condition.summary(&it.about),
        count: it.about.clone(),
        why: it
            .acknowledged_by
            .as_ref()
            .map_or_else(String::new, |actor| format!("{actor} knows of it.")),
        mend: row.mend.replace('`', ""),
        command: row.command.to_owned(),
        href: Some(row.page.to_owned()),
        button: Some((
            Role::Reader,
            Button::asks("Open its page", row.page.to_owned()),
        )),
        ..Item::since(Some(it.since), now)
    }
}

/// What `waybill doctor` says, too.
fn finding(it: &Finding) -> Item {
    Item {
        class: match it.level {
            Level::Failed => "bad",
            Level::Warning | Level::Ok => "open",
        },
        what: format!("Doctor: {}", it.check),
        count: it.found.clone(),
        mend: it.advice.clone().unwrap_or_default(),
        command: "waybill doctor".to_owned(),
        ..Item::default()
    }
}

/// Requests that failed, that wait for somebody, or whose deadline is near.
fn requests(open: &[RequestEntry], now: Timestamp) -> Vec<Item> {
    let presses = |it: &&RequestEntry| it.due_at.0 <= now.plus(WARNING).0;
    let of = |state: &'static str| open.iter().filter(move |it| it.state == state);
    let (erasures, undecided): (Vec<_>, Vec<_>) = of("held").partition(|it| it.is_held_erasure());
    let item = |class, what: &str, list: Vec<&RequestEntry>, mend: &str, command: &str| {
        let first = list.iter().map(|it| it.due_at).min()?;
        let is_one = list.len() == 1;
        let (command, page) = match list.first() {
            Some(one) if is_one => (
                format!("{command} {}", one.id),
                format!("/privacy/{}", one.id),
            ),
            _ => ("waybill privacy list".to_owned(), "/privacy".to_owned()),
        };
        Some(Item {
            class,
            what: what.to_owned(),
            count: counted(list.len(), "request", "requests"),
            why: if first <= now {
                format!("The deadline passed {} ago.", age(now, first))
            } else {
                format!("The nearest deadline is in {}.", age(first, now))
            },
            mend: mend.to_owned(),
            command,
            href: Some(page.clone()),
            button: Some((Role::Reader, Button::asks("See and decide", page))),
            ..Item::since(list.iter().map(|it| it.received_at).min(), now)
        })
    };
    let near: Vec<_> = open
        .iter()
        .filter(presses)
        .filter(|it| it.state == "received")
        .collect();
    [
        item(
            "bad",
            "Privacy requests that failed",
            of("failed").collect(),
            "Mend what the last error says, and then retry: answering is a legal duty.",
            "waybill privacy retry",
        ),
        item(
            "bad",
            "Privacy requests whose deadline is near",
            near,
            "Look why they are not done.",
            "waybill privacy show",
        ),
        item(
            "open",
            "Privacy requests that are held",
            undecided,
            "Decide whom a request means.",
            "waybill privacy show",
        ),
        item(
            "bad",
            "Erasures that are held",
            erasures.clone(),
            "Confirm what is meant, and cancel what is not.",
            "waybill privacy show",
        )
        .map(|item| Item {
            why: begins(&erasures, now),
            ..item
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// When the first of them begins.
fn begins(held: &[&RequestEntry], now: Timestamp) -> String {
    let is_in_use = held.iter().any(|it| it.living_at.is_some());
    let in_use = if is_in_use { "A shop is in use. " } else { "" };
    match held.iter().filter_map(|it| it.held_until).min() {
        Some(at) if at > now => format!("{in_use}The first begins in {}.", age(at, now)),
        Some(_) => format!("{in_use}The first begins now."),
        None => "They begin when somebody confirms them.".to_owned(),
    }
}

fn counted(number: usize, one: &str, several: &str) -> String {
    let count = bounded(i64::try_from(number).unwrap_or(i64::MAX), MOST_REQUESTS);
    format!("{count} {}", if number == 1 { one } else { several })
}

fn jobs(number: i64) -> String {
    let count = bounded(number, MOST);
    format!("{count} {}", if number == 1 { "job" } else { "jobs" })
}

fn late(lines: &[backlog::Line], now: Timestamp) -> Vec<Item> {
    let is_late = |line: &&backlog::Line| {
        line.due_since
            .is_some_and(|at| now.since(at) > backlog::LONG)
    };
    let item = |line: &backlog::Line| Item {
        class: "bad",
        what: format!("The queue {} is late", line.queue.into_str()),
        count: format!("{} due", jobs(line.due)),
        mend: "Is a worker of this queue running, and does its log complain?".to_owned(),
        command: "waybill doctor".to_owned(),
        href: Some("/deliveries?state=ready".to_owned()),
        button: Some((
            Role::Reader,
            Button::asks("See what waits", "/deliveries?state=ready".to_owned()),
        )),
        ..Item::since(line.due_since, now)
    };
    lines.iter().filter(is_late).map(item).collect()
}

/// `is_cut` says that there are more dead jobs than were looked at.
fn dead(groups: &[Group], is_cut: bool, now: Timestamp) -> Vec<Item> {
    by_cause(
        groups,
        is_cut.then_some("of each queue"),
        now,
        |group, item| Item {
            class: "bad",
            what: format!("Dead: {}", group.kind),
            mend: "Mend what they died of, and then run them again.".to_owned(),
            command: format!(
                "waybill dead requeue --kind '{}'",
                group.kind.replace('\'', "")
            ),
            href: Some(format!("/dead?kind={}", escaped(&group.kind))),
            button: Some((
                Role::Operator,
                Button::asks(
                    "Requeue them",
                    format!("/dead/all/requeue?kind={}", escaped(&group.kind)),
                ),
            )),
            ..item
        },
    )
}

/// `is_cut` says that more attempts failed than were looked at.
fn failing(groups: &[Group], is_cut: bool, now: Timestamp) -> Vec<Item> {
    by_cause(groups, is_cut.then_some("attempts"), now, |group, item| {
        Item {
            class: "open",
            what: format!("Failing, and tried again: {}", group.kind),
            mend: "They run again by themselves. If it is a provider, does it answer?".to_owned(),
            command: "waybill doctor".to_owned(),
            href: Some(format!("/failing?kind={}", escaped(&group.kind))),
            button: Some((
                Role::Reader,
                Button::asks(
                    "See which, and when they run again",
                    format!("/failing?kind={}", escaped(&group.kind)),
                ),
            )),
            ..item
        }
    })
}

/// An item for each cause. `newest` says of what only the newest were looked at.
fn by_cause(
    groups: &[Group],
    newest: Option<&str>,
    now: Timestamp,
    of: impl Fn(&Group, Item) -> Item,
) -> Vec<Item> {
    let among = newest.map_or_else(String::new, |newest| {
        format!(
            " among the newest {} {newest}",
            bounded(LOOKED_AT, i64::MAX)
        )
    });
    let item = |group: &Group| {
        let item = Item {
            count: format!("{}{among}", jobs(group.jobs)),
            why: group.error.clone(),
            ..Item::since(Some(group.first), now)
        };
        of(group, item)
    };
    groups.iter().take(LISTED).map(item).collect()
}

fn refusals(refused: &[refused_deliveries::Summary], now: Timestamp) -> Vec<Item> {
    let item = |it: &refused_deliveries::Summary| {
        let mend = match it.advice.as_str() {
            "" => "No setting would take them.".to_owned(),
            advice => format!("To take them: {}.", refused_deliveries::set(advice)),
        };
        Item {
            class: "open",
            what: match it.connection.as_str() {
                "" => format!("Refused deliveries of the {} provider", it.source),
                name => format!("Refused deliveries of the connection {name}"),
            },
            count: format!("{} in the last day", bounded(it.deliveries, i64::MAX)),
            age: format!("{}, the latest", age(now, it.last_at)),
            why: refused_deliveries::why(&it.reason, &it.signature),
            mend,
            command: "waybill refused summary".to_owned(),
            href: Some("/refused".to_owned()),
            button: Some((
                Role::Reader,
                Button::asks("See what was refused", "/refused".to_owned()),
            )),
            ..Item::since(Some(it.last_at), now)
        }
    };
    refused.iter().take(LISTED).map(item).collect()
}

/// What somebody has paused is nobody's fault, and easily forgotten.
fn paused(it: &Pause, now: Timestamp) -> Item {
    Item {
        class: "open",
        what: format!("Paused: {}", it.target),
        why: format!(
            "{} has paused it for {} more.",
            it.actor,
            age(it.until, now)
        ),
        mend: "It goes on by itself then, or when you end the pause.".to_owned(),
        command: format!("waybill pauses end {}", it.target),
        href: Some(format!("/pauses/{}", it.id)),
        button: Some((
            Role::Operator,
            Button::does("End the pause", format!("/pauses/{}/end", it.id)),
        )),
        ..Item::since(Some(it.begun_at), now)
    }
}

fn endpoint(it: &Endpoint, now: Timestamp) -> Option<Item> {
    let failing = it.failing_since?;
    Some(Item {
        class: "open",
        what: format!("The endpoint {} takes nothing", it.url),
        count: format!("{} failed attempts", bounded(it.failures, i64::MAX)),
        why: it.last_error.clone().unwrap_or_default(),
        mend: if it.is_broker() {
            Condition::EventsStandStill.row().mend.to_owned()
        } else {
            "Does it run, and does it answer 2xx? What waits is sent when it does.".to_owned()
        },
        command: format!("waybill endpoints test {}", it.id),
        href: Some(format!("/endpoints/{}", it.id)),
        button: Some((
            Role::Operator,
            Button::does("Send a test event", format!("/endpoints/{}/test", it.id)),
        )),
        ..Item::since(Some(failing), now)
    })
}
