//! `waybill migrate`: applies missing migrations. Every process does so when it starts; this
//! is for those who want it done before.

use anyhow::Result;
use common::config::Settings;
use common::store::migrations;

use crate::commands::database;
use crate::table::{self, Table};

pub async fn run(settings: &Settings) -> Result<()> {
    let db = database(settings).await?;
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
