//! `waybill attention`: what needs a person now, and that somebody knows of it.

use anyhow::Result;
use config::Settings;
use domain::attention::State;
use lists::age;
use lists::deeds::attention::Acknowledge;
use platform::clock::Clock;
use store::attention;
use store::sql::Db;

use crate::commands::deed::Do;
use crate::commands::with_database;
use crate::table::{self, Output, Rows as _};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List what needs a person now, since when, and who knows of it
    ///
    /// The processes that work look four times a minute. Operators are notified of each change once: as the event
    /// operator.attention, and by mail if OPERATORS_MAIL is set. `waybill pauses begin condition NAME` silences one for
    /// a while.
    List(Output),
    Acknowledge(Do<Acknowledge>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(Output { json }) => list(db, json).await,
        Command::Acknowledge(deed) => deed.run(settings, db).await,
    })
    .await
}

async fn list(db: &Db, json: bool) -> Result<()> {
    let now = Clock::system().now();
    let mut all = attention::all(db).await?;
    all.retain(|it| it.state == State::Begun);
    let rows = all.table(&[
        ("CONDITION", &|it| it.condition.into_str().to_owned()),
        ("ABOUT", &|it| it.about.clone()),
        ("AGE", &|it| age::text(now, it.since)),
        ("KNOWS", &|it| {
            it.acknowledged_by.clone().unwrap_or_default()
        }),
        ("WHAT", &|it| it.condition.summary(&it.about)),
        ("COMMAND", &|it| it.condition.row().command.to_owned()),
    ]);
    table::show(json, &all, || rows.or("Nothing needs you.\n"))
}
