//! `waybill attention`: what needs a person now, and that somebody knows of it.

use anyhow::Result;
use config::Settings;
use lists::attention::Conditions;
use lists::deeds::attention::Acknowledge;

use crate::commands::deed::Do;
use crate::commands::with_database;
use crate::table::Listed;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List what needs a person now, since when, and who knows of it
    ///
    /// The processes that work look four times a minute. Operators are notified of each change once: as the event
    /// operator.attention, and by mail if OPERATORS_MAIL is set. `waybill pauses begin condition NAME` silences one for
    /// a while.
    List(Listed<Conditions>),
    Acknowledge(Do<Acknowledge>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Conditions).await,
        Command::Acknowledge(deed) => deed.run(settings, db).await,
    })
    .await
}
