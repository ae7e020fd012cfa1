//! `waybill pauses`: a queue, the calls to a provider, a shop or the notification of a condition waits for a
//! while, and goes on by itself.

use anyhow::Result;
use config::Settings;
use lists::deeds::pauses::{Begin, End};
use lists::jobs::Pauses;

use crate::commands::deed::Do;
use crate::commands::with_database;
use crate::table::Listed;

#[derive(clap::Subcommand)]
pub enum Command {
    Begin(Do<Begin>),
    End(Do<End>),
    /// List what is paused, by whom and until when
    List(Listed<Pauses>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Begin(deed) => deed.run(settings, db).await,
        Command::End(deed) => deed.run(settings, db).await,
        Command::List(listed) => listed.print(db, &Pauses).await,
    })
    .await
}
