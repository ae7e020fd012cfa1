//! `waybill copy` moves a shop that began on SQLite to another database while its service is stopped.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use config::database::{self, place, sqlite_file};
use config::{Config, Settings};
use platform::terminal;
use platform::token::Token;
use serde_json::json;
use store::migrations::copy::{self, Step};
use store::privacy_keys;
use store::sql::Db;

use crate::commands::misused;
use crate::table::{self, Table};
use lists::shown::quoted;

#[derive(clap::Args)]
pub struct Arguments {
    /// The database to copy to, which must be empty
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Read that URL from a file, so that no other user of this machine sees its password
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    to_file: Option<PathBuf>,
    /// Let the file of `DATABASE_URL` be used again after it was copied. What the other database has taken
    /// since stays there
    #[arg(long, conflicts_with_all = ["to", "to_file"])]
    abandon: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, arguments: &Arguments) -> Result<()> {
    let source = Config::database_url(settings)?;
    let Some(file) = sqlite_file(&source) else {
        return Err(misused(
            "DATABASE_URL is no SQLite file, and nothing else can be copied. From one PostgreSQL server to \
             another, use `waybill backup` and `waybill restore`",
        ));
    };
    if !file.exists() {
        return Err(misused(format!(
            "DATABASE_URL: there is no file {}",
            file.display()
        )));
    }
    if arguments.abandon {
        return abandon(&source, arguments.json).await;
    }
    let target = target(arguments)?;
    let own = file.canonicalize().ok();
    if own.is_some() && sqlite_file(&target).and_then(|to| to.canonicalize().ok()) == own {
        return Err(misused("--to: that is the database of DATABASE_URL itself"));
    }
    let from = process::open_alone("DATABASE_URL", &source).await?;
    let to = process::migrate_any("--to", &target, 2).await?;
    let key = Config::privacy(settings)?.key;
    let copied = async {
        fits(&from, &to, key.as_ref(), &source).await?;
        let mut report = Report::new(arguments.json);
        let (place, with_own_key) = (place(&target), key.is_none());
        let mut show = |step| report.show(step);
        let copied = copy::copy(&from, &to, with_own_key, &place, &mut show).await;
        terminal::over("");
        copied.context(place)
    };
    let copied = copied.await;
    from.close().await;
    to.close().await;
    shown(
        &copied?,
        &target,
        &file.display().to_string(),
        arguments.json,
    )
}

fn target(arguments: &Arguments) -> Result<String> {
    let url = match (&arguments.to, &arguments.to_file) {
        (Some(url), _) => url.clone(),
        (None, Some(file)) => {
            let url = std::fs::read_to_string(file);
            let url = url.with_context(|| format!("--to-file: cannot read {}", file.display()))?;
            url.trim().to_owned()
        }
        (None, None) => {
            return Err(misused(
                "--to URL or --to-file FILE says where to copy to; --abandon opens the file again",
            ));
        }
    };
    match database::check_url(&url) {
        Ok(()) => Ok(url),
        Err(wrong) => Err(misused(format!("--to: the URL {wrong}"))),
    }
}

async fn abandon(source: &str, json: bool) -> Result<()> {
    let from = process::open_alone("DATABASE_URL", source).await?;
    let was = copy::abandon(&from).await;
    from.close().await;
    let was = was?;
    if json {
        return table::print_json(&json!({"abandoned": was}));
    }
    table::print(if was {
        "The file can be used as before. Remove the database that it was copied to.\n"
    } else {
        "No other database has taken the place of this file.\n"
    })
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
    checked.with_context(|| place(source))
}

/// Says what is done: a line for each part of it, and on a terminal how far it has come.
struct Report {
    json: bool,
    said: Vec<&'static str>,
}

impl Report {
    fn new(json: bool) -> Self {
        Report {
            json,
            said: Vec::new(),
        }
    }

    /// What is begun, once.
    fn say(&mut self, line: &'static str) {
        if !self.json && !self.said.contains(&line) {
            terminal::over("");
            self.said.push(line);
            // If nobody reads it, the copy goes on.
            let _ = table::print(line);
        }
    }

    fn show(&mut self, step: Step) {
        match step {
            Step::Rows { table, copied, of } => {
                self.say("Copying all rows.\n");
                terminal::over(&format!("{table}: {copied} of {of} rows"));
            }
            Step::Compared { table } => {
                self.say("Comparing all rows.\n");
                terminal::over(table);
            }
        }
    }
}

fn shown(copied: &[(&str, i64)], target: &str, file: &str, json: bool) -> Result<()> {
    let tables = || copied.iter().filter(|(_, rows)| *rows > 0);
    let all: i64 = tables().map(|(_, rows)| rows).sum();
    if json {
        let tables: Vec<_> = tables()
            .map(|(table, rows)| json!({"table": table, "rows": rows}))
            .collect();
        return table::print_json(&json!({"rows": all, "tables": tables}));
    }
    let mut rows = Table::new(["TABLE", "ROWS"]);
    for (table, count) in tables() {
        rows.row([(*table).to_owned(), format!("{count:>4}")]);
    }
    let (rows, to) = (rows.render(), place(target));
    table::print(&format!(
        "\n{rows}\n{all} rows are in {to}, and are the same as in {file}.\n\
         Nobody opens the file any more. Next, start the services with DATABASE_URL for {to}, and run \
         `waybill doctor`.\n"
    ))
}
