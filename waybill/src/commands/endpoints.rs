//! `waybill endpoints`: the addresses to which events are sent as webhooks (docs/webhooks.md), and RabbitMQ.

use anyhow::Result;
use config::Settings;
use domain::time::Timestamp;
use lists::deeds::endpoints::{self, Add, Pause, Remove, Resume, Rotate};
use lists::providers::{Endpoints, types};
use operators::endpoints::{self as flow, TEST_PATIENCE};
use platform::clock::Clock;
use platform::{terminal, zone};
use store::sql::Db;
use uuid::Uuid;

use crate::commands::deed::{self, Do, failed};
use crate::commands::with_database;
use crate::table::{self, Listed, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    Add(Do<Add>),
    /// List the endpoints and their states
    List(Listed<Endpoints>),
    /// Show one endpoint
    Show(OneArguments),
    /// Have a worker send a test event to an endpoint. Exit code 1 when it is not accepted
    Test(OneArguments),
    Pause(Do<Pause>),
    Resume(Do<Resume>),
    Rotate(Do<Rotate>),
    Remove(Do<Remove>),
}

#[derive(clap::Args)]
pub struct OneArguments {
    /// The endpoint's id, from `waybill endpoints list`, or `rabbitmq`
    #[arg(value_parser = endpoints::id)]
    id: Uuid,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Add(deed) => deed.run(settings, db).await,
        Command::List(listed) => listed.print(db, &Endpoints).await,
        Command::Show(arguments) => show(db, &arguments).await,
        Command::Test(arguments) => test(db, &arguments).await,
        Command::Pause(deed) => deed.run(settings, db).await,
        Command::Resume(deed) => deed.run(settings, db).await,
        Command::Rotate(deed) => deed.run(settings, db).await,
        Command::Remove(deed) => deed.run(settings, db).await,
    })
    .await
}

fn minute(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "never".to_owned(), zone::minute)
}

async fn show(db: &Db, arguments: &OneArguments) -> Result<()> {
    let id = arguments.id;
    let found = flow::find(db, id).await.map_err(endpoints::refused(id));
    let endpoint = found.map_err(failed)?;
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
    terminal::over("A worker sends it; the answer comes within 20 s");
    let tested = endpoints::test(db, &Clock::system(), arguments.id, TEST_PATIENCE).await;
    terminal::over("");
    deed::show(tested.map_err(failed)?, arguments.json)
}
