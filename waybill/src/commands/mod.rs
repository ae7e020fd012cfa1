//! The subcommands, a file each.

pub mod config;
pub mod events;
pub mod health;
pub mod jobs;
pub mod keys;
pub mod migrate;
pub mod orders;
pub mod sandbox;
pub mod start;
pub mod trigger;

use anyhow::Result;
use common::config::{Config, Mistakes, Settings};
use common::process;
use common::sql::Db;

/// The database of a tool: only `DATABASE_URL` must be right.
async fn database(settings: &Settings) -> Result<Db> {
    let url = Config::database_url(settings)?;
    process::open_database(&url, 2).await
}

/// A mistake in how a command was called.
fn misused(what: impl Into<String>) -> anyhow::Error {
    Mistakes(vec![what.into()]).into()
}
