//! `waybill pauses`: a queue, the calls to a provider, a shop or the notification of a condition waits for a
//! while, and goes on by itself.

use std::time::Duration;

use anyhow::{Result, bail};
use config::Settings;
use domain::pause::{Scope, Target};
use operators::pauses as flow;
use platform::clock::Clock;
use platform::zone;
use store::sql::Db;

use crate::commands::operator::Operator;
use crate::commands::{misused, with_database};
use crate::table::{self, Listed};
use lists::jobs::Pauses;
use lists::{age, words};

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
        what: What,
        /// For how long, such as 30m, 2h or 3d
        #[arg(long = "for", value_name = "AGE", value_parser = age::parse, default_value = "1h")]
        length: Duration,
        #[command(flatten)]
        operator: Operator,
    },
    /// End a pause now
    End {
        #[command(flatten)]
        what: What,
        #[command(flatten)]
        operator: Operator,
    },
    /// List what is paused, by whom and until when
    List(Listed<Pauses>),
}

#[derive(clap::Args)]
pub struct What {
    #[arg(value_name = "queue|provider|shop|connection|condition", value_parser = words::pause_scope())]
    scope: Scope,
    /// A queue (orders, payments, privacy, endpoints), a provider (storefront, payment, mail), the
    /// domain of a shop, the name of a connection, or that of a condition (nothing_came, ..)
    #[arg(value_name = "NAME")]
    name: String,
}

impl What {
    fn target(&self) -> Result<Target> {
        let target = Target::new(self.scope, &self.name);
        target.map_err(|error| misused(format!("{:?}: {error}", self.name)))
    }
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Begin {
            what,
            length,
            operator,
        } => begin(settings, db, &what, length, &operator).await,
        Command::End { what, operator } => end(settings, db, &what, &operator).await,
        Command::List(listed) => listed.print(db, &Pauses).await,
    })
    .await
}

async fn begin(
    settings: &Settings,
    db: &Db,
    what: &What,
    length: Duration,
    operator: &Operator,
) -> Result<()> {
    let target = what.target()?;
    let clock = Clock::system();
    let author = operator.author(settings, db).await?;
    let now = clock.now();
    let until = now.plus(length);
    let text = format!("{target} is paused until {}.\n", zone::time(until));
    match flow::begin(db, author.by(now), clock.id(), target, until).await {
        Ok(_) => table::print(&text),
        Err(flow::Refused::Length) => Err(misused(format!("--for: {}", flow::Refused::Length))),
        Err(flow::Refused::Database(error)) => Err(error.into()),
    }
}

async fn end(settings: &Settings, db: &Db, what: &What, operator: &Operator) -> Result<()> {
    let target = what.target()?;
    let author = operator.author(settings, db).await?;
    if !flow::end(db, author.by(Clock::system().now()), &target).await? {
        bail!("{target} is not paused; `waybill pauses list` shows what is");
    }
    table::print(&format!(
        "{target} goes on; what waited is due within some seconds.\n"
    ))
}
