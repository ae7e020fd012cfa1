//! `waybill migrate` applies missing migrations. Every service does the same when it starts; this
//! command is for operators who want it done before, or want to know what would be done. No other command
//! applies migrations, but `waybill copy` those of the database that it makes.

use anyhow::Result;
use config::database::sqlite_file;
use config::{Config, Settings};
use serde_json::json;
use store::migrations::{self, Applied, How};
use store::sql::Db;

use crate::table::{self, Rows as _};

#[derive(clap::Args)]
pub struct Arguments {
    /// Show what would be applied, and how, and apply nothing
    #[arg(long)]
    plan: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, arguments: &Arguments) -> Result<()> {
    let url = Config::database_url(settings)?;
    if arguments.plan {
        if sqlite_file(&url).is_some_and(|file| !file.exists()) {
            // It would be made.
            return show(&migrations::all_missing(), false, arguments.json);
        }
        let db = Db::open(&url, 2).await?;
        let listed = migrations::list(&db).await;
        let is_postgres = db.name() == "postgresql";
        db.close().await;
        return show(&listed?, is_postgres, arguments.json);
    }
    let db = process::open_database(&url, 2).await?;
    let listed = migrations::list(&db).await;
    let is_postgres = db.name() == "postgresql";
    db.close().await;
    show(&listed?, is_postgres, arguments.json)
}

/// How a missing migration is applied, in words.
fn words(how: How, is_postgres: bool) -> &'static str {
    match how {
        How::Transaction if is_postgres => {
            "in a transaction, which waits at most half a second at a time for a lock"
        }
        How::Transaction => "in a transaction",
        How::BesideWriters if is_postgres => "an index, made beside all writers",
        How::BesideWriters => "an index, in a transaction",
    }
}

fn show(listed: &[Applied], is_postgres: bool, json: bool) -> Result<()> {
    if json {
        let rows: Vec<_> = listed
            .iter()
            .map(|it| json!({"version": it.version, "name": it.name, "applied": it.applied}))
            .collect();
        return table::print_json(&rows);
    }
    let missing = |it: &Applied, text: &'static str| if it.applied { "" } else { text };
    let rows = listed.table(&[
        ("VERSION", &|it| it.version.to_string()),
        ("NAME", &|it| it.name.to_owned()),
        ("STATE", &|it| {
            if it.applied { "applied" } else { "missing" }.to_owned()
        }),
        ("HOW", &|it| {
            missing(it, words(it.how, is_postgres)).to_owned()
        }),
    ]);
    table::print(&rows.render())
}
