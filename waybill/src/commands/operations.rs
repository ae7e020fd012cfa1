//! `waybill operations`: what operators have many dead jobs go through from the console, and how it is
//! stopped. The processes that serve the console do them.

use anyhow::{Result, bail};
use config::Settings;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::zone;
use store::bulk_operations::{self, Change, Operation};
use store::sql::Db;
use uuid::Uuid;

use crate::age;
use crate::commands::database;
use crate::commands::operator::Operator;
use crate::table::{self, Newest, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest operations
    List {
        #[command(flatten)]
        newest: Newest,
    },
    /// Show an operation: which jobs it concerns, and how far it has come
    Show {
        id: Uuid,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
    id: Uuid,
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    let done = match command {
        Command::List {
            newest: Newest { limit, json },
        } => list(&db, limit, json).await,
        Command::Show { id, json } => show(&db, id, json).await,
        Command::Stop(one) => change(settings, &db, &one, Change::Stop).await,
        Command::Resume(one) => change(settings, &db, &one, Change::Resume).await,
        Command::Undo(one) => change(settings, &db, &one, Change::Undo).await,
    };
    db.close().await;
    done
}

async fn list(db: &Db, limit: i64, json: bool) -> Result<()> {
    let operations = bulk_operations::list(db, limit).await?;
    if json {
        return table::print_json(&operations);
    }
    if operations.is_empty() {
        return table::print("No operations.\n");
    }
    table::print(&rows(&operations, Clock::system().now()))
}

fn rows(operations: &[Operation], now: Timestamp) -> String {
    let mut rows = Table::new(["OPERATION", "AGE", "ACTION", "STATE", "FOUND", "DONE", "BY"]);
    for it in operations {
        rows.row([
            it.id.to_string(),
            age::text(now, it.created_at),
            it.action.to_string(),
            it.state.to_string(),
            it.found
                .map_or_else(|| "-".to_owned(), |found| found.to_string()),
            it.done.to_string(),
            it.actor.clone(),
        ]);
    }
    rows.render()
}

async fn find(db: &Db, id: Uuid) -> Result<Operation> {
    match bulk_operations::find(db, id).await? {
        Some(operation) => Ok(operation),
        None => bail!("there is no operation {id} here; `waybill operations list` shows them"),
    }
}

async fn show(db: &Db, id: Uuid, json: bool) -> Result<()> {
    let it = find(db, id).await?;
    if json {
        return table::print_json(&it);
    }
    let any = |text: &str| match text {
        "" => "any".to_owned(),
        text => text.to_owned(),
    };
    let mut facts = Table::new(["operation", &id.to_string()]);
    for (what, value) in [
        ("action", it.action.to_string()),
        ("state", it.state.to_string()),
        ("queue", any(&it.queue)),
        ("kind", any(&it.kind)),
        ("shop", any(&it.shop)),
        ("error", any(&it.error)),
        ("died until", zone::time(it.died_until)),
        ("rate", format!("{} a second", it.rate)),
        (
            "found",
            it.found
                .map_or_else(|| "-".to_owned(), |found| found.to_string()),
        ),
        ("done", it.done.to_string()),
        ("passed over", it.passed_over.to_string()),
        ("refused", it.refused.to_string()),
        ("by", it.actor.clone()),
        ("confirmed", zone::time(it.created_at)),
        ("begins", zone::time(it.begins_at)),
        (
            "ended",
            it.finished_at.map_or_else(|| "-".to_owned(), zone::time),
        ),
        (
            "last error",
            it.last_error.clone().unwrap_or_else(|| "-".to_owned()),
        ),
    ] {
        facts.row([what.to_owned(), value]);
    }
    table::print(&facts.render())
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
