//! `waybill migrate` applies missing migrations. Every service does the same when it starts; this
//! command is for operators who want it done before. No other command applies migrations.

use anyhow::Result;
use config::{Config, Settings};

use store::migrations;

use crate::table::{self, Table};

pub async fn run(settings: &Settings) -> Result<()> {
    let db = process::open_database(&Config::database_url(settings)?, 2).await?;
    let mut rows = Table::new(["VERSION", "NAME", "STATE"]);
    for migration in migrations::list(&db).await? {
        let state = if migration.applied {
            "applied"
        } else {
            "missing"
        };
        rows.row([
            migration.version.to_string(),
            migration.name.to_owned(),
            state.to_owned(),
        ]);
    }
    table::print(&rows.render())?;
    db.close().await;
    Ok(())
}
