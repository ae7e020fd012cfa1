//! `waybill deliveries` lists what was accepted, as the console does.

use anyhow::Result;
use config::Settings;
use lists::jobs::Deliveries;

use crate::commands::with_database;
use crate::table::Listed;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the deliveries that were accepted, with what became of each, the newest first
    ///
    /// `waybill listen` shows them as they come, `waybill refused list` what was refused, and `waybill jobs list` also
    /// the work that followed from them.
    List(Listed<Deliveries>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::List(listed) = command;
    with_database(settings, async |db| listed.print(db, &Deliveries).await).await
}
