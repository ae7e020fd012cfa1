//! `waybill endpoints`: the addresses to which events are sent as webhooks (docs/webhooks.md), and RabbitMQ.

use std::time::Duration;

use anyhow::{Result, bail};
use config::{Config, Settings};
use domain::time::Timestamp;
use operators::endpoints::{
    self as flow, Change, NOT_SENT, Outcome, Refused, Seen, TEST_PATIENCE, Tested, WantedEndpoint,
};
use platform::clock::Clock;
use platform::{terminal, zone};
use serde_json::json;
use store::broker;
use store::sql::Db;
use uuid::Uuid;

use crate::commands::operator::Operator;
use crate::commands::{misused, with_database};
use crate::table::{self, Listed, Table};
use lists::age;
use lists::deeds::NewEndpoint;
use lists::providers::{Endpoints, types};
use lists::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Send events to an address from now on, and show its secret once
    Add(AddArguments),
    /// List the endpoints and their states
    List(Listed<Endpoints>),
    /// Show one endpoint
    Show(OneArguments),
    /// Have a worker send a test event to an endpoint. Exit code 1 when it is not accepted
    Test(OneArguments),
    /// Send no events to an endpoint until it is resumed
    Pause(ChangeArguments),
    /// Send events to an endpoint again, beginning with those that wait for it
    Resume(ChangeArguments),
    /// Give an endpoint another secret, and show it once. The former one signs too for a day
    Rotate(RotateArguments),
    /// Remove an endpoint and what waits for it
    Remove(ChangeArguments),
}

#[derive(clap::Args)]
pub struct AddArguments {
    #[command(flatten)]
    new: NewEndpoint,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct OneArguments {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = endpoint_id)]
    id: Uuid,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ChangeArguments {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = endpoint_id)]
    id: Uuid,
    #[command(flatten)]
    operator: Operator,
}

#[derive(clap::Args)]
pub struct RotateArguments {
    /// The endpoint's id, from `waybill endpoints list`
    #[arg(value_parser = endpoint_id)]
    id: Uuid,
    /// How long the former secret signs too: 1h, 2d, .. With 0s it ends at once
    #[arg(long, value_name = "AGE", value_parser = age::parse, default_value = "1d")]
    overlap: Duration,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The id that stands for an endpoint, or the word for RabbitMQ.
fn endpoint_id(text: &str) -> Result<Uuid, &'static str> {
    if text == broker::NAME {
        return Ok(broker::BROKER);
    }
    words::id(text)
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Add(arguments) => add(settings, db, arguments).await,
        Command::List(listed) => listed.print(db, &Endpoints).await,
        Command::Show(arguments) => show(db, &arguments).await,
        Command::Test(arguments) => test(db, &arguments).await,
        Command::Pause(arguments) => change(settings, db, &arguments, Change::Pause).await,
        Command::Resume(arguments) => change(settings, db, &arguments, Change::Resume).await,
        Command::Remove(arguments) => change(settings, db, &arguments, Change::Remove).await,
        Command::Rotate(arguments) => rotate(settings, db, arguments).await,
    })
    .await
}

/// What the operator is told when a change is refused.
fn refused(id: Option<Uuid>) -> impl FnOnce(Refused) -> anyhow::Error {
    move |refused| match (refused, id) {
        (Refused::Unknown, Some(id)) => misused(format!(
            "there is no endpoint {id} here; `waybill endpoints list` shows them"
        )),
        (Refused::Database(error), _) => error.into(),
        (refused, _) => misused(refused.to_string()),
    }
}

async fn add(settings: &Settings, db: &Db, arguments: AddArguments) -> Result<()> {
    let allowed = Config::endpoints(settings)?;
    let clock = Clock::system();
    let author = arguments.operator.author(settings, db).await?;
    let new = WantedEndpoint {
        id: clock.id(),
        url: &arguments.new.url,
        types: arguments.new.types,
        since: arguments.new.since,
    };
    let (endpoint, secret) = flow::add(db, author.by(clock.now()), &clock, &allowed, new)
        .await
        .map_err(refused(None))?;
    if arguments.json {
        let mut shown = serde_json::to_value(&endpoint)?;
        shown["secret"] = secret.reveal().into();
        return table::print_json(&shown);
    }
    table::print(&format!("{}\n{}\n", endpoint.id, secret.reveal()))?;
    terminal::err(&format!(
        "The first line is the endpoint's id, the second its secret. Store the secret now, because it is not\n\
         shown again. Then send a test event: waybill endpoints test {}\n",
        endpoint.id
    ));
    Ok(())
}

fn minute(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "never".to_owned(), zone::minute)
}

async fn show(db: &Db, arguments: &OneArguments) -> Result<()> {
    let id = arguments.id;
    let endpoint = flow::find(db, id).await.map_err(refused(Some(id)))?;
    let error = endpoint.last_error.as_deref().unwrap_or("none");
    let facts = Table::facts([
        ("WHAT", "VALUE".to_owned()),
        ("id", endpoint.id.to_string()),
        ("url", endpoint.url.clone()),
        ("types", types(&endpoint)),
        ("state", endpoint.state.to_string()),
        ("last accepted", minute(endpoint.delivered_at)),
        ("failing since", minute(endpoint.failing_since)),
        ("failures", endpoint.failures.to_string()),
        ("last error", error.to_owned()),
        ("former secret until", minute(endpoint.former_secret_until)),
        ("created", minute(Some(endpoint.created_at))),
    ]);
    table::show(arguments.json, &endpoint, || facts.render())
}

async fn test(db: &Db, arguments: &OneArguments) -> Result<()> {
    let id = arguments.id;
    terminal::over("A worker sends it; the answer comes within 20 s");
    let tested = flow::test(db, &Clock::system(), id, TEST_PATIENCE).await;
    terminal::over("");
    let Tested { id: event, outcome } = tested.map_err(refused(Some(id)))?;
    if arguments.json {
        let (accepted, error) = (outcome.accepted(), outcome.error());
        table::print_json(&json!({"id": event, "accepted": accepted, "error": error}))?;
    }
    match outcome {
        Outcome::Accepted if arguments.json => Ok(()),
        Outcome::Accepted => {
            table::print(&format!("The endpoint accepted the test event {event}.\n"))
        }
        Outcome::NotAccepted(why) => bail!("the endpoint did not accept the test event: {why}"),
        Outcome::Unknown => bail!("{NOT_SENT}; `waybill jobs show {event}` says more"),
    }
}

async fn change(
    settings: &Settings,
    db: &Db,
    arguments: &ChangeArguments,
    change: Change,
) -> Result<()> {
    let id = arguments.id;
    let author = arguments.operator.author(settings, db).await?;
    let by = author.by(Clock::system().now());
    let is_changed = flow::change(db, by, id, change)
        .await
        .map_err(refused(Some(id)))?;
    let said = match (is_changed, change) {
        (true, Change::Pause) => "is paused; it gets its events when it is resumed",
        (true, Change::Resume) => "gets events again",
        (true, Change::Remove) => "is removed",
        (false, Change::Pause) => "was not active, so nothing has changed",
        (false, Change::Resume | Change::Remove) => {
            "was active already; what waited for it is due now"
        }
    };
    table::print(&format!("Endpoint {id} {said}.\n"))
}

async fn rotate(settings: &Settings, db: &Db, arguments: RotateArguments) -> Result<()> {
    let id = arguments.id;
    let author = arguments.operator.author(settings, db).await?;
    let clock = Clock::system();
    let by = author.by(clock.now());
    let (secret, until) = flow::rotate(db, by, &clock, id, arguments.overlap, Seen::Any)
        .await
        .map_err(refused(Some(id)))?;
    if arguments.json {
        let secret = secret.reveal();
        return table::print_json(
            &json!({"id": id, "secret": secret, "former_secret_until": until}),
        );
    }
    table::print(&format!("{}\n", secret.reveal()))?;
    terminal::err(&format!(
        "Store the secret now, because it is not shown again. The former one signs too until {}.\n",
        zone::time(until)
    ));
    Ok(())
}
