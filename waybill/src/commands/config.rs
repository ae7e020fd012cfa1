//! `waybill config`: every setting, its value and where it came from; and settings, API keys and endpoints as
//! a file, to set up another installation alike.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use config::{Config, Mode, SETTINGS, Setting, Settings};
use domain::endpoint::Secret;
use operators::setup::{self, ExportedEndpoint, NotImported, Setup};
use platform::clock::Clock;
use platform::private_files;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::api_keys::Exported;

use crate::commands::operator::Operator;
use crate::commands::{database, misused};
use crate::table::{self, Rows as _, Table, or_dash};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
pub enum Command {
    /// Write the settings, API keys and endpoints into a new file
    ///
    /// The file has only the names of secrets, unless --with-secrets adds those of the endpoints. Keys are in it by
    /// their hashes: those who have them go on using them where the file is imported.
    Export {
        /// The file to make. Only its owner may read it
        file: PathBuf,
        /// Write the secrets too with which webhooks to endpoints are signed
        #[arg(long)]
        with_secrets: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// Add the API keys and endpoints of such a file that are not there yet, and print its settings
    ///
    /// All of them are added or none. Endpoints get the events from now on. One without a secret in the
    /// file gets another one, which is shown once.
    Import {
        /// A file that `waybill config export` has made
        file: PathBuf,
        /// Add keys too that open the console
        #[arg(long)]
        console: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: Operator,
    },
}

/// What the file has.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The version that wrote it.
    waybill: String,
    settings: BTreeMap<String, String>,
    /// Settings that are secrets, by name.
    secret_settings: Vec<String>,
    api_keys: Vec<Exported>,
    endpoints: Vec<ExportedEndpoint>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    match arguments.command {
        None => show(settings, arguments.json),
        Some(Command::Export {
            file,
            with_secrets,
            operator,
        }) => export(settings, &file, with_secrets, &operator).await,
        Some(Command::Import {
            file,
            console,
            json,
            operator,
        }) => import(settings, &file, console, json, &operator).await,
    }
}

/// Shows the settings, and then the mistakes in them; if there are any, the exit code is 2. A
/// signing secret that is not set is no mistake here, because `waybill` without arguments has
/// development secrets.
fn show(settings: &Settings, json: bool) -> Result<()> {
    if json {
        let rows: Vec<_> = SETTINGS
            .iter()
            .map(|setting| {
                json!({
                    "name": setting.name,
                    "value": settings.get(setting.name).map(|_| settings.shown(setting)),
                    "origin": settings.origin(setting.name).to_string(),
                    "default": setting.default,
                    "meaning": setting.meaning,
                })
            })
            .collect();
        table::print_json(&rows)?;
    } else {
        let rows = SETTINGS.table(&[
            ("SETTING", &|setting| setting.name.to_owned()),
            ("VALUE", &|setting| settings.shown(setting)),
            ("FROM", &|setting| settings.origin(setting.name).to_string()),
            ("MEANING", &|setting| setting.meaning.to_owned()),
        ]);
        table::print(&rows.render())?;
    }
    Config::load(settings, Mode::Development)?;
    Ok(())
}

/// Whether the value of a setting is a secret, or has one in it, as the password of a URL.
fn is_secret(setting: &Setting, value: &str) -> bool {
    setting.secret || domain::redact::redact(value) != value
}

async fn export(
    settings: &Settings,
    file: &Path,
    with_secrets: bool,
    operator: &Operator,
) -> Result<()> {
    let db = database(settings).await?;
    let author = operator.author(settings, &db).await?;
    let setup = setup::export(&db, author.by(Clock::system().now()), with_secrets).await;
    db.close().await;
    let Setup { keys, endpoints } = setup?;
    let (mut values, mut secrets) = (BTreeMap::new(), Vec::new());
    for setting in SETTINGS {
        match settings.get(setting.name) {
            Some(value) if is_secret(setting, value) => secrets.push(setting.name.to_owned()),
            Some(value) if Some(value) != setting.default => {
                values.insert(setting.name.to_owned(), value.to_owned());
            }
            _ => {}
        }
    }
    let written = File {
        waybill: env!("CARGO_PKG_VERSION").to_owned(),
        settings: values,
        secret_settings: secrets,
        api_keys: keys,
        endpoints,
    };
    let text = serde_json::to_string_pretty(&written)?;
    write(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    let secret = if with_secrets {
        "It has the secrets of the endpoints: keep it as you keep those."
    } else {
        "It has no secrets. Endpoints get others where it is imported, unless --with-secrets adds theirs."
    };
    table::print(&format!(
        "{} has settings ({}), API keys ({}) and endpoints ({}).\n{secret}\n",
        file.display(),
        written.settings.len(),
        written.api_keys.len(),
        written.endpoints.len()
    ))
}

/// Makes the file, which must not be there.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if file.exists() {
        return Err(std::io::ErrorKind::AlreadyExists.into());
    }
    private_files::make_file(file)?;
    let mut opened = std::fs::OpenOptions::new().write(true).open(file)?;
    writeln!(opened, "{text}")?;
    opened.sync_all()
}

async fn import(
    settings: &Settings,
    file: &Path,
    console: bool,
    json: bool,
    operator: &Operator,
) -> Result<()> {
    let place = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {place}"))?;
    let given: File = serde_json::from_str(&text).map_err(|wrong| {
        misused(format!(
            "{place} is no file of `waybill config export`: {wrong}"
        ))
    })?;
    let allowed = Config::endpoints(settings)?;
    let db = database(settings).await?;
    let author = operator.author(settings, &db).await?;
    let clock = Clock::system();
    let given_setup = Setup {
        keys: given.api_keys,
        endpoints: given.endpoints,
    };
    let by = author.by(clock.now());
    let imported = setup::import(&db, by, &clock, &allowed, &given_setup, console).await;
    db.close().await;
    let imported = imported.map_err(|refused| match refused {
        NotImported::Database(error) => error.into(),
        refused => misused(refused.to_string()),
    })?;
    let differ: BTreeMap<&String, &String> = given
        .settings
        .iter()
        .filter(|(name, value)| settings.get(name) != Some(value))
        .collect();
    let missing = given.secret_settings.iter();
    let missing: Vec<&String> = missing
        .filter(|name| settings.get(name).is_none())
        .collect();
    if json {
        let added: Vec<_> = imported
            .iter()
            .map(|it| {
                json!({
                    "id": it.id, "name": it.name, "added": it.is_added, "opens": it.opens.as_ref().map(|it| &it.0),
                    "account": it.opens.as_ref().and_then(|it| it.1),
                    "secret": it.secret.as_ref().map(Secret::reveal),
                })
            })
            .collect();
        return table::print_json(&json!({
            "imported": added, "settings_that_differ": differ, "secrets_that_are_missing": missing,
        }));
    }
    let mut rows = Table::new([
        "ID", "NAME", "STATE", "SCOPES", "SHOPS", "ACCOUNT", "SECRET",
    ]);
    for it in &imported {
        let state = if it.is_added {
            "added"
        } else {
            "there already"
        };
        let secret = it.secret.as_ref().map(Secret::reveal);
        let opens = it.opens.as_ref();
        let [scopes, shops] = opens.map(|it| it.0.in_words()).unwrap_or_default();
        rows.row([
            it.id.to_string(),
            it.name.clone(),
            state.to_owned(),
            scopes,
            shops,
            or_dash(
                &opens
                    .and_then(|it| it.1)
                    .map_or(String::new(), |it| it.to_string()),
            ),
            secret.unwrap_or_default(),
        ]);
    }
    table::print(&rows.render())?;
    if !differ.is_empty() {
        table::print(
            "\nThese settings of the file are not those here. A service reads them from its environment:\n",
        )?;
        for (name, value) in differ {
            table::print(&format!("{name}={value}\n"))?;
        }
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|it| it.as_str()).collect();
        table::print(&format!(
            "\nThese secrets were set there and are not set here: {}\n",
            names.join(", ")
        ))?;
    }
    Ok(())
}
