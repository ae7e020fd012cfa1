//! What is done to endpoints.

use std::time::Duration;

use domain::api_key::Role;
use domain::event::Pattern;
use domain::time::Timestamp;
use operators::endpoints::{self as flow, Change, NOT_SENT, Outcome, Seen, Tested, WantedEndpoint};
use platform::clock::Clock;
use platform::zone;
use serde_json::json;
use store::broker;
use store::endpoints;
use store::sql::Db;
use uuid::Uuid;

use super::{About, CHANGED, Deed, Desk, Done, Looked, Refused, SHOWN, Secret, Site};
use crate::shown::{self, Cell};
use crate::{age, words};

const ADDED: &str = "The endpoint was added.";
const ACCEPTED: &str = "The endpoint accepted the test event.";
const NOT_ACCEPTED: &str =
    "The endpoint did not accept the test event. The attempt below says why.";
const NOT_KNOWN: &str = "No worker has said yet what became of the test event. Load this page again in some seconds; see that the queue endpoints has a worker and is not paused.";
const PAUSED: &str = "The endpoint is paused. It gets its events when it is resumed.";
const RESUMED: &str = "The endpoint gets events again, beginning with those that wait for it.";
const REMOVED: &str = "The endpoint was removed, and what waited for it.";
const ROTATED: &str = "The endpoint has another secret.";

/// The id that stands for an endpoint, or the word for RabbitMQ.
pub fn id(text: &str) -> Result<Uuid, &'static str> {
    if text == broker::NAME {
        return Ok(broker::BROKER);
    }
    words::id(text)
}

fn page(id: Uuid) -> String {
    format!("/endpoints/{id}")
}

/// Why nothing is done to this endpoint.
pub fn refused(id: Uuid) -> impl FnOnce(flow::Refused) -> Refused {
    move |refused| match refused {
        flow::Refused::Unknown => {
            let why =
                format!("there is no endpoint {id} here; `waybill endpoints list` shows them");
            Refused::Unknown("endpoint", why)
        }
        flow::Refused::Changed => Refused::Changed(page(id), refused.to_string()),
        flow::Refused::Database(error) => error.into(),
        refused => Refused::Wrong(refused.to_string()),
    }
}

/// Send events to an address from now on, and show its secret once
#[derive(Clone, Debug, clap::Args)]
pub struct Add {
    /// The endpoint's address: https://..
    pub url: String,
    /// Send only events whose type fits this pattern, such as `order.*`. It may be repeated
    #[arg(
        long = "type",
        value_name = "PATTERN",
        value_parser = words::coming_event(),
        hide_possible_values = true
    )]
    pub types: Vec<Pattern>,
    /// Begin with the events of the last 90s, 10m, 2h, 7d, ..
    #[arg(long, value_name = "AGE", value_parser = age::parse)]
    pub since: Option<Duration>,
}

impl Deed for Add {
    const ABOUT: About = About::new("endpoints add", Role::Operator, "Add an endpoint")
        .like("URL --type PATTERN")
        .asks("Add an endpoint", "Add it")
        .undone_by("endpoints remove");
    const SAYS: &'static [&'static str] = &[ADDED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (db, id) = (desk.site.db, desk.id);
        let shown_before = || Done::new(SHOWN, page(id), json!({"id": id}));
        let is_there = async || endpoints::find(db, id).await.map(|it| it.is_some());
        if is_there().await? {
            return Ok(shown_before());
        }
        let allowed = desk.site.configured.endpoints()?;
        let new = WantedEndpoint {
            id,
            url: &self.url,
            types: self.types,
            since: self.since,
        };
        let (endpoint, secret) = match flow::add(db, desk.by, desk.clock, &allowed, new).await {
            Ok(added) => added,
            // Two forms were sent at the same moment, and the other one was first.
            Err(flow::Refused::Database(_)) if is_there().await? => return Ok(shown_before()),
            Err(why) => return Err(refused(id)(why)),
        };
        let secret = secret.reveal();
        let mut json = json!(endpoint);
        json["secret"] = secret.as_str().into();
        let done = Done::new(ADDED, page(id), json).text(format!("{id}\n{secret}\n"));
        Ok(Done {
            advice: Some(format!(
                "The first line is the endpoint's id, the second its secret. Store the secret now, because it is not\n\
                 shown again. Then send a test event: waybill endpoints test {id}\n"
            )),
            secret: Some(Secret {
                title: "The endpoint was added",
                about: format!(
                    "This is the secret with which {} verifies what it gets.",
                    endpoint.url
                ),
                secret,
            }),
            ..done
        })
    }
}

/// Have a worker send a test event to an endpoint
#[derive(Clone, Debug, clap::Args)]
pub struct Test {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = id)]
    pub id: Uuid,
}

impl Deed for Test {
    const ABOUT: About = About::new("endpoints test", Role::Operator, "Test")
        .of("id")
        .slow();
    const SAYS: &'static [&'static str] = &[ACCEPTED, NOT_ACCEPTED, NOT_KNOWN];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        test(desk.site.db, desk.clock, self.id, desk.patience).await
    }
}

/// It changes nothing of the endpoint, so the audit has no entry.
pub async fn test(db: &Db, clock: &Clock, id: Uuid, patience: Duration) -> Result<Done, Refused> {
    let tested = flow::test(db, clock, id, patience).await;
    let Tested { id: job, outcome } = tested.map_err(refused(id))?;
    let json = json!({"id": job, "accepted": outcome.accepted(), "error": outcome.error()});
    // The page of the job has the reason.
    let (says, page, failed) = match outcome {
        Outcome::Accepted => (ACCEPTED, page(id), None),
        Outcome::NotAccepted(why) => (
            NOT_ACCEPTED,
            shown::job(job),
            Some(format!("the endpoint did not accept the test event: {why}")),
        ),
        Outcome::Unknown => (
            NOT_KNOWN,
            shown::job(job),
            Some(format!("{NOT_SENT}; `waybill jobs show {job}` says more")),
        ),
    };
    let text = format!("The endpoint accepted the test event {job}.\n");
    Ok(Done {
        text: failed.is_none().then_some(text),
        failed,
        ..Done::new(says, page, json)
    })
}

/// Send no events to an endpoint until it is resumed
#[derive(Clone, Debug, clap::Args)]
pub struct Pause {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = id)]
    pub id: Uuid,
}

impl Deed for Pause {
    const ABOUT: About = About::new("endpoints pause", Role::Operator, "Pause")
        .of("id")
        .undone_by("endpoints resume");
    const SAYS: &'static [&'static str] = &[PAUSED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let unchanged = "The endpoint was not active, so nothing has changed.\n";
        change(desk, self.id, Change::Pause, PAUSED, unchanged).await
    }
}

/// Send events to an endpoint again, beginning with those that wait for it
#[derive(Clone, Debug, clap::Args)]
pub struct Resume {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = id)]
    pub id: Uuid,
}

impl Deed for Resume {
    const ABOUT: About = About::new("endpoints resume", Role::Operator, "Resume")
        .of("id")
        .undone_by("endpoints pause");
    const SAYS: &'static [&'static str] = &[RESUMED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let unchanged = "The endpoint was active already; what waited for it is due now.\n";
        change(desk, self.id, Change::Resume, RESUMED, unchanged).await
    }
}

/// Remove an endpoint and what waits for it
///
/// It gets no events any more, and those that wait for it are not sent. To add it again makes another secret.
#[derive(Clone, Debug, clap::Args)]
pub struct Remove {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = id)]
    pub id: Uuid,
}

impl Deed for Remove {
    const ABOUT: About = About::new("endpoints remove", Role::Operator, "Remove")
        .of("id")
        .asks("Remove this endpoint for good?", "Remove it for good")
        .for_good();
    const SAYS: &'static [&'static str] = &[REMOVED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        let id = id(target).unwrap_or_default();
        let it = flow::find(site.db, id).await.map_err(refused(id))?;
        Ok(Looked {
            facts: vec![
                ("Endpoint", Cell::text(it.url.as_str())),
                ("State", shown::state(it.state.into_str())),
                ("Last accepted", Cell::maybe_time(it.delivered_at)),
            ],
            ..Looked::default()
        })
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (db, id) = (desk.site.db, self.id);
        match flow::change(db, desk.by, id, Change::Remove).await {
            Ok(_) => Ok(Done::new(
                REMOVED,
                "/endpoints".to_owned(),
                json!({"id": id}),
            )),
            // Sent again, it is still so that the endpoint is removed.
            Err(why @ flow::Refused::Unknown) => Ok(Done {
                failed: Some(refused(id)(why).to_string()),
                ..Done::new(REMOVED, "/endpoints".to_owned(), json!({"id": id}))
            }),
            Err(why) => Err(refused(id)(why)),
        }
    }
}

async fn change(
    desk: &Desk<'_>,
    id: Uuid,
    change: Change,
    says: &'static str,
    unchanged: &str,
) -> Result<Done, Refused> {
    let changed = flow::change(desk.site.db, desk.by, id, change).await;
    let is_changed = changed.map_err(refused(id))?;
    let json = json!({"id": id, "changed": is_changed});
    Ok(if is_changed {
        Done::new(says, page(id), json)
    } else {
        Done::new(CHANGED, page(id), json).text(unchanged.to_owned())
    })
}

/// Give an endpoint another secret, and show it once
///
/// The present one signs too for a day, so that your system can take the new one without losing anything.
#[derive(Clone, Debug, clap::Args)]
pub struct Rotate {
    /// The endpoint's id, from `waybill endpoints list`
    #[arg(value_parser = id)]
    pub id: Uuid,
    /// How long the former secret signs too: 1h, 2d, .. With 0s it ends at once
    #[arg(long, value_name = "AGE", value_parser = age::parse, default_value = "1d")]
    pub overlap: Duration,
}

impl Deed for Rotate {
    const ABOUT: About = About::new("endpoints rotate", Role::Operator, "Another secret")
        .of("id")
        .of_seen();
    const SAYS: &'static [&'static str] = &[ROTATED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (id, db) = (self.id, desk.site.db);
        // The answer to the first press of the button is the only one that shows a secret.
        let seen = desk.seen.map_or(Seen::Any, |seen| {
            Seen::Until(Some(Timestamp(seen)).filter(|at| at.0 != 0))
        });
        let rotated = flow::rotate(db, desk.by, desk.clock, id, self.overlap, seen).await;
        let (secret, until) = match rotated {
            Ok(rotated) => rotated,
            Err(flow::Refused::Changed) => {
                return Ok(Done::new(SHOWN, page(id), json!({"id": id})));
            }
            Err(why) => return Err(refused(id)(why)),
        };
        let secret = secret.reveal();
        let json = json!({"id": id, "secret": secret, "former_secret_until": until});
        let done = Done::new(ROTATED, page(id), json).text(format!("{secret}\n"));
        let until = zone::time(until);
        Ok(Done {
            advice: Some(format!(
                "Store the secret now, because it is not shown again. The former one signs too until {until}.\n"
            )),
            secret: Some(Secret {
                title: "The endpoint has another secret",
                about: format!("The former one signs too until {until}."),
                secret,
            }),
            ..done
        })
    }
}
