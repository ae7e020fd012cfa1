//! `waybill operations`: what operators have many dead jobs go through from the console, and how it is
//! stopped. The processes that serve the console do them.

use anyhow::{Result, bail};
use config::Settings;
use platform::clock::Clock;
use platform::zone;
use store::bulk_operations::{self, Change, Operation};
use store::sql::Db;
use uuid::Uuid;

use crate::commands::operator::Operator;
use crate::commands::with_database;
use crate::table::{self, Listed, One, Table, or_none};
use lists::jobs::Operations;
use lists::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest operations
    List(Listed<Operations>),
    /// Show an operation: which jobs it concerns, and how far it has come
    Show(One),
    /// Stop an operation. What it has done stays done
    Stop(OneArguments),
    /// Let a stopped operation go on with what is left
    Resume(OneArguments),
    /// Take an operation back, as long as it has done nothing
    Undo(OneArguments),
}

#[derive(clap::Args)]
pub struct OneArguments {
    /// The operation's id, from `waybill operations list`
    #[arg(value_parser = words::id)]
    id: Uuid,
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Operations).await,
        Command::Show(One { id, json }) => show(db, id, json).await,
        Command::Stop(one) => change(settings, db, &one, Change::Stop).await,
        Command::Resume(one) => change(settings, db, &one, Change::Resume).await,
        Command::Undo(one) => change(settings, db, &one, Change::Undo).await,
    })
    .await
}

async fn find(db: &Db, id: Uuid) -> Result<Operation> {
    match bulk_operations::find(db, id).await? {
        Some(operation) => Ok(operation),
        None => bail!("there is no operation {id} here; `waybill operations list` shows them"),
    }
}

async fn show(db: &Db, id: Uuid, json: bool) -> Result<()> {
    let it = find(db, id).await?;
    let any = |text: &str| match text {
        "" => "any".to_owned(),
        text => text.to_owned(),
    };
    let facts = Table::facts([
        ("operation", id.to_string()),
        ("action", it.action.to_string()),
        ("state", it.state.to_string()),
        ("queue", any(&it.queue)),
        ("kind", any(&it.kind)),
        ("shop", any(&it.shop)),
        ("connection", any(&it.connection)),
        ("error", any(&it.error)),
        ("died until", zone::time(it.died_until)),
        ("rate", format!("{} a second", it.rate)),
        ("found", or_none(it.found)),
        ("done", it.done.to_string()),
        ("passed over", it.passed_over.to_string()),
        ("refused", it.refused.to_string()),
        ("by", it.actor.clone()),
        ("confirmed", zone::time(it.created_at)),
        ("begins", zone::time(it.begins_at)),
        ("ended", or_none(it.finished_at.map(zone::time))),
        ("last error", or_none(it.last_error.as_ref())),
    ]);
    table::show(json, &it, || facts.render())
}

async fn change(settings: &Settings, db: &Db, one: &OneArguments, change: Change) -> Result<()> {
    let id = one.id;
    let author = one.operator.author(settings, db).await?;
    let by = author.by(Clock::system().now());
    if !bulk_operations::change(db, by, id, change).await? {
        let state = find(db, id).await?.state;
        let wanted = match change {
            Change::Stop => "only one that has begun is stopped",
            Change::Resume => "only one that was stopped goes on",
            Change::Undo => "only one that has done nothing is taken back; to end it, stop it",
        };
        bail!("operation {id} is {state}: {wanted}");
    }
    let said = match change {
        Change::Stop => "is stopped; what it has done stays done",
        Change::Resume => "goes on, as long as a process serves the console",
        Change::Undo => "is undone; nothing was changed",
    };
    table::print(&format!("Operation {id} {said}.\n"))
}
