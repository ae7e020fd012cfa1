//! The subcommands of `waybill`: each has a file of its own.

pub mod attention;
pub mod audit;
pub mod backup;
pub mod completions;
pub mod config;
pub mod connect;
pub mod connections;
pub mod copy;
pub mod dead;
pub mod deed;
pub mod deliveries;
pub mod demo;
pub mod doctor;
pub mod endpoints;
pub mod events;
pub mod follow;
pub mod forward;
pub mod health;
pub mod identity;
pub mod ingress;
pub mod jobs;
pub mod keys;
pub mod ledger;
pub mod licenses;
pub mod listen;
pub mod login;
pub mod man;
pub mod migrate;
pub mod notifications;
pub mod operation;
pub mod operations;
pub mod operator;
pub mod orders;
pub mod orgs;
pub mod pauses;
pub mod payments;
pub mod privacy;
pub mod reapply;
pub mod reconcile;
pub mod refused;
pub mod remote;
pub mod sandbox;
pub mod secrets;
pub mod start;
pub mod trigger;
pub mod users;
pub mod version;
pub mod worker;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use ::config::database::sqlite_file;
use ::config::{Config, Settings};
use anyhow::{Context as _, Result, bail, ensure};
use platform::terminal;
use process::Misuse;
use providers::is_loopback;
use reqwest::Client;
use store::sql::Db;

/// Opens the database for a command. Of the settings only `DATABASE_URL` must be right. The
/// command neither creates nor migrates the database, because an operator who only wants to look
/// must not change it.
async fn database(settings: &Settings) -> Result<Db> {
    open(settings, 2).await
}

/// Does a command's work with its database, and closes it afterwards.
async fn with_database<T>(
    settings: &Settings,
    work: impl AsyncFnOnce(&Db) -> Result<T>,
) -> Result<T> {
    let db = database(settings).await?;
    let done = work(&db).await;
    db.close().await;
    done
}

/// The same with so many connections to PostgreSQL.
async fn open(settings: &Settings, connections: u32) -> Result<Db> {
    let url = Config::database_url(settings)?;
    if let Some(file) = sqlite_file(&url) {
        let is_there = file.try_exists();
        let whole = std::path::absolute(&file).unwrap_or(file);
        let is_there = is_there.with_context(|| {
            format!(
                "DATABASE_URL: this user may not look at {}; run the command as the user of the service, such as \
                 sudo -u waybill waybill ..",
                whole.display()
            )
        })?;
        ensure!(
            is_there,
            "there is no database {} yet; start `waybill` or run `waybill migrate` first, or go to \
             the folder in which Waybill runs, or set DATABASE_URL",
            whole.display()
        );
    }
    process::open_migrated(&url, connections).await
}

/// A client of the service at this address.
fn client(url: &str, deadline: Duration) -> Result<Client> {
    let mut client = Client::builder().timeout(deadline);
    if is_loopback(url) {
        // A proxy that the environment names would look for a loopback address on the proxy's
        // host.
        client = client.no_proxy();
    }
    Ok(client.build()?)
}

/// Asks whether this is really to be done. `otherwise` says how to see it without doing it.
fn confirm(plan: &str, what: &str, otherwise: &str) -> Result<()> {
    if !(io::stdin().is_terminal() && terminal::err_is_one()) {
        return Err(misused(format!(
            "to {what} it must be asked for with --yes, because nobody is here to confirm it; {otherwise}"
        )));
    }
    terminal::err(&format!("{plan}\nReally {what}? [y/N] "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if !["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        bail!("nothing was changed");
    }
    Ok(())
}

/// An error that says that a command was called with wrong arguments.
fn misused(what: impl Into<String>) -> anyhow::Error {
    Misuse(what.into()).into()
}
