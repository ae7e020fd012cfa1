//! `waybill refused`: deliveries that were refused, why, and which setting would take them.

use std::fmt::Write as _;

use anyhow::Result;
use config::Settings;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::terminal;
use store::refused_deliveries::{self, Refused, Summary};

use crate::age::{self, Moment};
use crate::commands::database;
use crate::table::{self, Table};

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
    let db = database(settings).await?;
    let done = match command {
        Command::List { since, limit, json } => {
            let refused = refused_deliveries::list(&db, since.at(now), limit).await?;
            if json {
                table::print_json(&refused)
            } else {
                table::print(&list(&refused, now))
            }
        }
        Command::Summary { since, json } => {
            let summary = refused_deliveries::summary(&db, since.at(now)).await?;
            if json {
                table::print_json(&summary)
            } else {
                table::print(&summarized(&summary, now))
            }
        }
    };
    db.close().await;
    done
}

const NONE: &str = "nothing was refused\n";

/// Two lines each, so that a terminal of 80 columns has room for them.
fn list(refused: &[Refused], now: Timestamp) -> String {
    if refused.is_empty() {
        return NONE.to_owned();
    }
    let mut table = Table::new(["LAST", "COUNT", "SOURCE", "WHY", "TOPIC", "SHOP"]);
    for it in refused {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            age::text(now, it.last_at),
            format!("{:>5}", it.deliveries),
            it.source.clone(),
            refused_deliveries::why(&it.reason, &it.signature),
            or_none(&it.topic),
            or_none(&it.shop),
        ]);
    }
    let table = table.render();
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
    if summary.is_empty() {
        return NONE.to_owned();
    }
    let mut table = Table::new(["COUNT", "LAST", "SOURCE", "WHY", "WHAT WOULD TAKE THEM"]);
    for it in summary {
        let advice = if it.advice.is_empty() {
            "-"
        } else {
            &it.advice
        };
        table.row([
            format!("{:>5}", it.deliveries),
            age::text(now, it.last_at),
            it.source.clone(),
            refused_deliveries::why(&it.reason, &it.signature),
            advice.to_owned(),
        ]);
    }
    table.render()
}
