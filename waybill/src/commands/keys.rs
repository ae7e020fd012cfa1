//! `waybill keys`: API keys for the commerce API.

use std::time::Duration;

use anyhow::Result;
use common::clock::Clock;
use common::config::Settings;
use common::store::api_keys;
use serde_json::json;

use crate::commands::{database, misused};
use crate::table;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a key and print it, once: only its hash is kept
    Create {
        /// What the key is for
        name: String,
        /// End it after so many days
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3650))]
        expires_in_days: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::Create {
        name,
        expires_in_days,
        json,
    } = command;
    if name.trim().is_empty() || name == api_keys::DEVELOPMENT {
        return Err(misused(format!(
            "{name:?} cannot be the name of a key; choose another"
        )));
    }
    let clock = Clock::system();
    let expires_at =
        expires_in_days.map(|days| clock.now().plus(Duration::from_hours(u64::from(days) * 24)));
    let db = database(settings).await?;
    let mut tx = db.begin().await?;
    let key = api_keys::create(&mut tx, &clock, &name, expires_at).await?;
    tx.commit().await?;
    db.close().await;
    if json {
        return table::print_json(&json!({ "name": name, "key": key, "expires_at": expires_at }));
    }
    table::print(&format!("{key}\n"))?;
    eprintln!(
        "Keep it now: it cannot be shown again. Send it as `Authorization: Bearer {}..`",
        &key[..6]
    );
    Ok(())
}
