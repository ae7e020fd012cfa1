//! `waybill attention`: what needs a person now, and that somebody knows of it.

use anyhow::{Result, bail};
use config::Settings;
use domain::attention::{Condition, State};
use operators::attention as flow;
use platform::clock::Clock;
use store::attention;
use store::sql::Db;

use crate::commands::operator::Operator;
use crate::commands::with_database;
use crate::table::{self, Output, Rows as _};
use lists::{age, words};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List what needs a person now, since when, and who knows of it
    ///
    /// The processes that work look four times a minute. Operators are notified of each change once: as the event
    /// operator.attention, and by mail if OPERATORS_MAIL is set. `waybill pauses begin condition NAME` silences one for
    /// a while.
    List(Output),
    /// Say that you know of a condition
    ///
    /// The list and the console name you beside it. A mail that could not be sent yet does not say any more that it has
    /// begun, and one says when it is over.
    Acknowledge {
        /// The name of the condition, as the list has it
        #[arg(value_name = "CONDITION", value_parser = words::condition())]
        condition: Condition,
        #[command(flatten)]
        operator: Operator,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(Output { json }) => list(db, json).await,
        Command::Acknowledge {
            condition,
            operator,
        } => acknowledge(settings, db, condition, &operator).await,
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

async fn acknowledge(
    settings: &Settings,
    db: &Db,
    condition: Condition,
    operator: &Operator,
) -> Result<()> {
    let author = operator.author(settings, db).await?;
    let name = condition.into_str();
    if !flow::acknowledge(db, author.by(Clock::system().now()), condition).await? {
        bail!(
            "{name} does not hold, or is acknowledged; `waybill attention list` shows what holds"
        );
    }
    table::print(&format!(
        "{name} is acknowledged; you hear when it is over.\n"
    ))
}
