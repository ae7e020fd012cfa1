//! `pg_dump` and `pg_restore`, started with the connection of `DATABASE_URL`.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail};
use config::database::{self, place};
use percent_encoding::percent_decode_str;
use store::migrations;
use store::sql::Db;
use tokio::process::Command;

use crate::commands::misused;

/// The names of parameters of a URL, and those of the same in libpq. Others are of our driver alone.
const PARAMETERS: [(&str, &str); 10] = [
    ("host", "host"),
    ("port", "port"),
    ("options", "options"),
    ("sslmode", "sslmode"),
    ("ssl-mode", "sslmode"),
    ("sslrootcert", "sslrootcert"),
    ("ssl-root-cert", "sslrootcert"),
    ("ssl-ca", "sslrootcert"),
    ("sslcert", "sslcert"),
    ("sslkey", "sslkey"),
];

/// Dumps the database at one moment into a file, in the custom format.
pub async fn dump(url: &str, file: &Path) -> Result<()> {
    refuse_pooled(url)?;
    let mut dump = connected("pg_dump", url);
    dump.args(["--format=custom", "--no-owner", "--no-privileges", "--file"]);
    dump.arg(file);
    ran(dump, "pg_dump").await?;
    Ok(())
}

/// Restores a dump into a database without tables, as a whole or not at all.
pub async fn restore(url: &str, file: &Path) -> Result<()> {
    refuse_pooled(url)?;
    let db = Db::open(url, 1).await?;
    let there = migrations::compare(&db).await;
    db.close().await;
    if there.with_context(|| place(url))?.applied > 0 {
        return Err(misused(format!(
            "{} is not empty, and a restore overwrites nothing: make an empty database, and name it in \
             DATABASE_URL",
            place(url)
        )));
    }
    let mut restore = connected("pg_restore", url);
    restore.args(["--single-transaction", "--exit-on-error"]);
    restore.args(["--no-owner", "--no-privileges"]).arg(file);
    ran(restore, "pg_restore").await?;
    super::fits(url).await
}

/// Reads a dump's list of contents, and fails if it is none of ours.
pub async fn check(file: &Path) -> Result<()> {
    let mut list = Command::new("pg_restore");
    list.arg("--list").arg(file);
    let listed = ran(list, "pg_restore").await?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    if !listed.contains(" _sqlx_migrations ") {
        bail!("{} has no tables of Waybill", file.display());
    }
    Ok(())
}

fn refuse_pooled(url: &str) -> Result<()> {
    if database::is_pooled(url) {
        return Err(misused(
            "DATABASE_URL leads through a pooler of transactions, and pg_dump and pg_restore need the \
             server itself: give its URL with --database-url-file or DATABASE_URL, without pgbouncer=true",
        ));
    }
    Ok(())
}

/// A command with the URL's connection. Its password is in the environment of the command alone, because
/// everybody on the machine can see arguments.
fn connected(program: &str, url: &str) -> Command {
    let (url, password) = for_libpq(url);
    let mut command = Command::new(program);
    command.arg("--no-password").arg("--dbname").arg(url);
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    command
}

/// The URL as libpq reads it, without its password, and the password.
fn for_libpq(url: &str) -> (String, Option<String>) {
    let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
    let kept = parameters.split('&').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let (_, name) = PARAMETERS.iter().find(|(ours, _)| *ours == name)?;
        Some(format!("{name}={value}"))
    });
    let kept: Vec<String> = kept.collect();
    let (scheme, rest) = place.split_once("://").unwrap_or(("postgres", place));
    let (user, at) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (user, password) = match user.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (user, None),
    };
    let user = if user.is_empty() {
        String::new()
    } else {
        format!("{user}@")
    };
    let password = password.map(|it| percent_decode_str(it).decode_utf8_lossy().into_owned());
    (
        format!("{scheme}://{user}{at}?{}", kept.join("&")),
        password,
    )
}

/// Runs a program of PostgreSQL to its end, and fails with what it said.
async fn ran(mut command: Command, program: &str) -> Result<Output> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.with_context(|| {
        format!(
            "cannot start {program}; it comes with PostgreSQL's client (Debian package \
             postgresql-client), in the server's version or a newer one"
        )
    })?;
    if output.status.success() {
        return Ok(output);
    }
    bail!(
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
}

#[cfg(test)]
#[path = "../../../tests/unit/commands/backup/postgres.rs"]
mod tests;
