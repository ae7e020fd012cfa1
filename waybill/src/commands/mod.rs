//! The subcommands, a file each.

pub mod audit;
pub mod completions;
pub mod config;
pub mod dead;
pub mod doctor;
pub mod events;
pub mod health;
pub mod identity;
pub mod jobs;
pub mod keys;
pub mod ledger;
pub mod licenses;
pub mod login;
pub mod man;
pub mod migrate;
pub mod notifications;
pub mod operation;
pub mod operator;
pub mod orders;
pub mod orgs;
pub mod payments;
pub mod privacy;
pub mod sandbox;
pub mod start;
pub mod trigger;

use std::time::Duration;

use ::config::{Config, Settings};
use anyhow::{Result, bail};
use process::Misuse;
use providers::is_loopback;
use reqwest::Client;
use store::sql::{Db, sqlite_file};

/// The database of a tool: only `DATABASE_URL` must be right. It is used as it is: neither is it
/// made nor migrated by one who only came to look.
async fn database(settings: &Settings) -> Result<Db> {
    let url = Config::database_url(settings)?;
    if let Some(file) = sqlite_file(&url)
        && !file.exists()
    {
        bail!(
            "there is no database {} yet; start `waybill`, or run `waybill migrate` first, or \
             check DATABASE_URL and the folder you are in",
            file.display()
        );
    }
    process::open_migrated(&url, 2).await
}

/// A client of the service at this address.
fn client(url: &str, deadline: Duration) -> Result<Client> {
    let mut client = Client::builder().timeout(deadline);
    if is_loopback(url) {
        // A proxy of the environment would look for it on its own host.
        client = client.no_proxy();
    }
    Ok(client.build()?)
}

/// A mistake in how a command was called.
fn misused(what: impl Into<String>) -> anyhow::Error {
    Misuse(what.into()).into()
}
