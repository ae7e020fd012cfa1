//! `waybill migrate` applies missing migrations. Every service does the same when it starts; this
//! command is for operators who want it done before. No other command applies migrations. With
//! `--from` it copies everything of a SQLite file to the database, so that a shop goes on with
//! PostgreSQL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{Config, Settings, on_this_machine};
use platform::token::Token;
use store::migrations::{self, copy};
use store::privacy_keys;
use store::sql::{Db, place, sqlite_file};

use crate::commands::{client, misused, quoted};
use crate::table::{self, Table};

const DEADLINE: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub struct Arguments {
    /// Copy everything of this SQLite file to the database of `DATABASE_URL`, which must be empty.
    /// Stop the service first. Nothing in the file is changed
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

pub async fn run(settings: &Settings, arguments: &Arguments) -> Result<()> {
    let url = Config::database_url(settings)?;
    if let Some(file) = &arguments.from {
        refuse(settings, &url, file).await?;
    }
    let db = process::open_database(&url, 2).await?;
    let migrated = with_database(settings, &db, &url, arguments.from.as_deref()).await;
    db.close().await;
    migrated
}

async fn with_database(settings: &Settings, db: &Db, url: &str, from: Option<&Path>) -> Result<()> {
    let mut rows = Table::new(["VERSION", "NAME", "STATE"]);
    for migration in migrations::list(db).await? {
        let state = if migration.applied {
            "applied"
        } else {
            "missing"
        };
        rows.row([
            migration.version.to_string(),
            migration.name.to_owned(),
            state.to_owned(),
        ]);
    }
    table::print(&rows.render())?;
    match from {
        Some(file) => copy_from(settings, db, url, file).await,
        None => Ok(()),
    }
}

/// Refuses what would copy nothing or not all: a file that is not there, the same file, and a service
/// that still runs and takes deliveries.
async fn refuse(settings: &Settings, url: &str, file: &Path) -> Result<()> {
    let whole = file.canonicalize();
    let whole = whole.with_context(|| format!("--from: cannot read {}", file.display()))?;
    let own = sqlite_file(url).and_then(|own| own.canonicalize().ok());
    if own == Some(whole) {
        return Err(misused(
            "--from: that is the database of DATABASE_URL itself; set DATABASE_URL to the new one",
        ));
    }
    let address = on_this_machine(Config::listen_addr(settings)?);
    let asked = format!("http://{address}/livez");
    if client(&asked, DEADLINE)?.get(&asked).send().await.is_ok() {
        bail!(
            "a service answers on {address}: stop it first, because what it takes meanwhile would \
             not be copied"
        );
    }
    Ok(())
}

async fn copy_from(settings: &Settings, db: &Db, url: &str, file: &Path) -> Result<()> {
    let key = Config::privacy(settings)?.key;
    let source = format!("sqlite://{}", file.display());
    let from = process::open_named("--from", &source, 2).await?;
    let copied = async {
        fits(&from, db, key.as_ref(), &source).await?;
        let copied = copy::copy(&from, db, key.is_none()).await;
        copied.with_context(|| place(url))
    };
    let copied = copied.await;
    from.close().await;
    let mut rows = Table::new(["TABLE", "ROWS"]);
    let mut all = 0;
    for it in copied?.into_iter().filter(|it| it.rows > 0) {
        rows.row([it.table.to_owned(), format!("{:>4}", it.rows)]);
        all += it.rows;
    }
    let (rows, to) = (rows.render(), place(url));
    table::print(&format!(
        "\n{rows}\n{all} rows are copied from {} to {to}. What is in the file is unchanged.\n\
         Next, start the services with this DATABASE_URL, and run `waybill doctor`.\n",
        file.display()
    ))
}

/// Checks that what is copied can be used with the key that is set.
async fn fits(from: &Db, to: &Db, key: Option<&Token>, source: &str) -> Result<()> {
    if key.is_none() && to.name() == "postgresql" {
        let advice = match privacy_keys::taken_out(from).await {
            Ok(_) => format!(
                "take the key out of the file with `waybill privacy key --database-url {} --output \
                 privacy.key`, set PRIVACY_KEY_FILE to privacy.key",
                quoted(source)
            ),
            Err(_) => "set PRIVACY_KEY or PRIVACY_KEY_FILE to the key that the file was used with"
                .to_owned(),
        };
        bail!(
            "PRIVACY_KEY is missing, and PostgreSQL stores none: {advice} for services and commands, \
             and run this again"
        );
    }
    let checked = privacy_keys::check(from, key).await;
    checked.with_context(|| format!("--from: {}", place(source)))
}
