//! `waybill refused`: deliveries that were refused, why, and which setting would take them.

use anyhow::Result;
use config::Settings;
use domain::time::Timestamp;
use platform::clock::Clock;
use store::refused_deliveries::{self, Summary};

use crate::commands::with_database;
use crate::table::{self, Listed, Rows as _, or_dash};
use lists::age::{self, Moment};
use lists::jobs::RefusedDeliveries;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List what was refused, hour by hour, the latest first
    ///
    /// Topic, shop, age and headers are those of the first of the last seconds. Nobody signed them.
    List(Listed<RefusedDeliveries>),
    /// Count what was refused by reason, and say what to set
    Summary {
        /// What was refused then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
        /// day, which means its beginning
        #[arg(long, value_name = "AGE|TIME", default_value = "24h", value_parser = age::moment)]
        since: Moment,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let now = Clock::system().now();
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &RefusedDeliveries).await,
        Command::Summary { since, json } => {
            let summary = refused_deliveries::summary(db, since.at(now)).await?;
            table::show(json, &summary, || summarized(&summary, now))
        }
    })
    .await
}

const NONE: &str = "nothing was refused\n";

fn summarized(summary: &[Summary], now: Timestamp) -> String {
    let table = summary.table(&[
        ("COUNT", &|it| format!("{:>5}", it.deliveries)),
        ("LAST", &|it| age::text(now, it.last_at)),
        ("SOURCE", &|it| {
            format!("{} {}", it.source, it.connection)
                .trim_end()
                .to_owned()
        }),
        ("WHY", &|it| {
            refused_deliveries::why(&it.reason, &it.signature)
        }),
        ("WHAT WOULD TAKE THEM", &|it| or_dash(&it.advice)),
    ]);
    table.or(NONE)
}
