//! `waybill refused`: deliveries that were refused, why, and which setting would take them.

use std::fmt::Write as _;

use anyhow::Result;
use config::Settings;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::terminal;
use store::refused_deliveries::{self, Refused, Summary};

use crate::age::{self, Moment};
use crate::commands::with_database;
use crate::table::{self, Rows as _, or_dash, or_none};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List what was refused, hour by hour, the latest first
    ///
    /// Topic, shop, age and headers are those of the first of the last seconds. Nobody signed them.
    List {
        /// What was refused then or later: an age like 2h, a time like 2027-01-31T12:00:00Z, or a
        /// day, which means its beginning
        #[arg(long, value_name = "AGE|TIME", default_value = "24h", value_parser = age::moment)]
        since: Moment,
        /// Only what came by this connection; `default` is the one that the settings make
        #[arg(
            long,
            value_name = "NAME",
            default_value = "",
            hide_default_value = true
        )]
        connection: String,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
        Command::List {
            since,
            connection,
            limit,
            json,
        } => {
            let refused = refused_deliveries::list(db, &connection, since.at(now), limit).await?;
            table::show(json, &refused, || list(&refused, now))
        }
        Command::Summary { since, json } => {
            let summary = refused_deliveries::summary(db, since.at(now)).await?;
            table::show(json, &summary, || summarized(&summary, now))
        }
    })
    .await
}

const NONE: &str = "nothing was refused\n";

/// Two lines each, so that a terminal of 80 columns has room for them.
fn list(refused: &[Refused], now: Timestamp) -> String {
    let table = refused.table(&[
        ("LAST", &|it| age::text(now, it.last_at)),
        ("COUNT", &|it| format!("{:>5}", it.deliveries)),
        ("SOURCE", &|it| it.source.clone()),
        ("WHY", &|it| {
            refused_deliveries::why(&it.reason, &it.signature)
        }),
        ("TOPIC", &|it| or_none(it.topic.as_ref())),
        ("SHOP", &|it| or_none(it.shop.as_ref())),
    ]);
    let Some(table) = table.filled() else {
        return NONE.to_owned();
    };
    let mut lines = table.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    for (line, it) in lines.zip(refused) {
        let _ = write!(text, "\n{line}");
        let came = came(it);
        if !came.is_empty() {
            let _ = write!(text, "\n      {}", terminal::cell(&came));
        }
        if !it.advice.is_empty() {
            let _ = write!(text, "\n      -> {}", refused_deliveries::set(&it.advice));
        }
    }
    text + "\n"
}

/// What is known of the latest one.
fn came(it: &Refused) -> String {
    let mut parts = vec![format!("profile {}", it.profile)];
    if !it.connection.is_empty() {
        parts.push(format!("connection {}", it.connection));
    }
    if !it.headers.is_empty() {
        parts.push(format!("with {}", it.headers));
    }
    if let Some(age) = it.age_seconds {
        parts.push(format!("{age} s old"));
    }
    if let Some(key) = it.body_key {
        parts.push(format!("body {}", &key.simple().to_string()[..8]));
    }
    parts.join(", ")
}

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
