//! `waybill operations`: what operators have many dead jobs go through from the console, and how it is
//! stopped. The processes that serve the console do them.

use anyhow::{Result, bail};
use config::Settings;
use lists::deeds::operations::{Resume, Stop, TakeBack};
use lists::jobs::Operations;
use platform::zone;
use store::bulk_operations::{self, Operation};
use store::sql::Db;
use uuid::Uuid;

use crate::commands::deed::Do;
use crate::commands::with_database;
use crate::table::{self, Listed, One, Table, or_none};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest operations
    List(Listed<Operations>),
    /// Show an operation: which jobs it concerns, and how far it has come
    Show(One),
    Stop(Do<Stop>),
    Resume(Do<Resume>),
    Undo(Do<TakeBack>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Operations).await,
        Command::Show(One { id, json }) => show(db, id, json).await,
        Command::Stop(deed) => deed.run(settings, db).await,
        Command::Resume(deed) => deed.run(settings, db).await,
        Command::Undo(deed) => deed.run(settings, db).await,
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
