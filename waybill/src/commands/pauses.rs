//! `waybill pauses`: a queue, the calls to a provider, a shop or the notification of a condition waits for a
//! while, and goes on by itself.

use anyhow::{Result, bail};
use config::Settings;
use domain::pause::Target;
use operators::pauses as flow;
use platform::clock::Clock;
use platform::zone;
use store::sql::Db;

use crate::commands::operator::Operator;
use crate::commands::{misused, with_database};
use crate::table::{self, Listed};
use lists::deeds::{Pause, Paused};
use lists::jobs::Pauses;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Pause a queue, calls to a provider, a shop, a connection, or a condition's notifications, for at most seven days
    ///
    /// Deliveries are accepted all the same. The jobs that the pause concerns wait and go on by
    /// themselves when it ends. Jobs that run already are finished. Workers hear of it within a
    /// second. Of a shop the privacy requests go on, because the law sets their deadline. What `waybill attention
    /// list` shows is a condition: nobody is notified that it begins or is over before the pause ends.
    Begin {
        #[command(flatten)]
        pause: Pause,
        #[command(flatten)]
        operator: Operator,
    },
    /// End a pause now
    End {
        #[command(flatten)]
        what: Paused,
        #[command(flatten)]
        operator: Operator,
    },
    /// List what is paused, by whom and until when
    List(Listed<Pauses>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Begin { pause, operator } => begin(settings, db, &pause, &operator).await,
        Command::End { what, operator } => end(settings, db, &what, &operator).await,
        Command::List(listed) => listed.print(db, &Pauses).await,
    })
    .await
}

fn target(what: &Paused) -> Result<Target> {
    let target = what.target();
    target.map_err(|error| misused(format!("{:?}: {error}", what.name)))
}

async fn begin(settings: &Settings, db: &Db, pause: &Pause, operator: &Operator) -> Result<()> {
    let target = target(&pause.what)?;
    let clock = Clock::system();
    let author = operator.author(settings, db).await?;
    let now = clock.now();
    let until = now.plus(pause.length);
    let text = format!("{target} is paused until {}.\n", zone::time(until));
    match flow::begin(db, author.by(now), clock.id(), target, until).await {
        Ok(_) => table::print(&text),
        Err(flow::Refused::Length) => Err(misused(format!("--for: {}", flow::Refused::Length))),
        Err(flow::Refused::Database(error)) => Err(error.into()),
    }
}

async fn end(settings: &Settings, db: &Db, what: &Paused, operator: &Operator) -> Result<()> {
    let target = target(what)?;
    let author = operator.author(settings, db).await?;
    if !flow::end(db, author.by(Clock::system().now()), &target).await? {
        bail!("{target} is not paused; `waybill pauses list` shows what is");
    }
    table::print(&format!(
        "{target} goes on; what waited is due within some seconds.\n"
    ))
}
