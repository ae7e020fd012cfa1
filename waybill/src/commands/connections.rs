//! `waybill connections`: the providers that are connected, beside those that the settings name (docs/connect.md).

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use config::{Config, Mode, Settings};
use domain::branding::Language;
use domain::connection::DEFAULT;
use domain::job::Queue;
use lists::deeds::connections::{self, Add, Change, Pause, Remove, Resume, Rotate};
use lists::deeds::{Configured, Site};
use lists::providers::Connections;
use operators::connections::{self as flow, Means, Refused};
use platform::clock::Clock;
use platform::{terminal, zone};
use process::clients::Clients;
use process::registry;
use store::connections::{Overview, Side};
use store::sql::Db;

use crate::commands::deed::{Do, failed};
use crate::commands::operator::Operator;
use crate::commands::{misused, with_database};
use crate::table::{self, Listed, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    Add(Do<Add>),
    /// List the connections, and when each verified a delivery last
    List(Listed<Connections>),
    /// Show one connection, and where its provider posts to
    Show(OneArguments),
    Change(Do<Change>),
    Rotate(Do<Rotate>),
    Pause(Do<Pause>),
    Resume(Do<Resume>),
    Remove(Do<Remove>),
    /// Ask the provider whether it accepts the token of a connection. Exit code 1 when it does not
    Test(OneArguments),
    /// Encrypt all secrets with the newest key of SECRETS_KEY, so that the former one can be removed
    Reseal(ResealArguments),
}

#[derive(clap::Args)]
pub struct OneArguments {
    /// The name, from `waybill connections list`
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ResealArguments {
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Add(deed) => deed.run(settings, db).await,
        Command::List(listed) => {
            let list = Connections {
                keys: Config::secrets_keys(settings)?,
                public_url: Config::public_url(settings)?,
            };
            listed.print(db, &list).await
        }
        Command::Show(arguments) => show(settings, db, &arguments).await,
        Command::Change(deed) => deed.run(settings, db).await,
        Command::Rotate(deed) => deed.run(settings, db).await,
        Command::Pause(deed) => deed.run(settings, db).await,
        Command::Resume(deed) => deed.run(settings, db).await,
        Command::Remove(deed) => deed.run(settings, db).await,
        Command::Test(arguments) => test(settings, db, &arguments).await,
        Command::Reseal(arguments) => reseal(settings, db, &arguments).await,
    })
    .await
}

/// What the operator is told when a change is refused.
fn refused(refused: Refused) -> anyhow::Error {
    match refused {
        Refused::Database(error) => error.into(),
        refused => misused(refused.to_string()),
    }
}

/// A secret as a file has it, without the line end that editors write.
pub fn secret_of(file: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.with_context(|| format!("{} cannot be read", file.display()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.trim().is_empty() {
        return Err(misused(format!(
            "{} is empty; put the secret into it",
            file.display()
        )));
    }
    if secret.contains(['\r', '\n']) {
        return Err(misused(format!(
            "{} has several lines; a secret is one",
            file.display()
        )));
    }
    Ok(secret.to_owned())
}

async fn find(settings: &Settings, db: &Db, name: &str) -> Result<Overview> {
    let site = Site {
        db,
        now: Clock::system().now(),
        configured: Configured::Settings(settings),
    };
    connections::find(&site, name).await.map_err(failed)
}

async fn show(settings: &Settings, db: &Db, arguments: &OneArguments) -> Result<()> {
    let it = find(settings, db, &arguments.name).await?;
    let secrets: Vec<String> = it
        .secrets
        .iter()
        .map(|secret| {
            let verified = secret.verified_at.map_or("never".to_owned(), zone::minute);
            let until = secret.until.map_or(String::new(), |until| {
                format!(", accepted until {}", zone::minute(until))
            });
            format!("{} (verified last: {verified}{until})", secret.fingerprint)
        })
        .collect();
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let rate = it
        .rate
        .map_or("as the provider's profile says".to_owned(), |rate| {
            rate.to_string()
        });
    let (whose, of) = match it.side {
        Side::Storefront => ("shops", it.shops.join(", ")),
        Side::Payment => ("account", or_none(&it.account)),
    };
    let paid_by = match it.side {
        Side::Storefront => it.payments.as_deref().unwrap_or(DEFAULT),
        Side::Payment => "-",
    };
    let facts = Table::facts([
        ("WHAT", "VALUE".to_owned()),
        ("name", it.name.clone()),
        ("provider", it.provider.clone()),
        (whose, of),
        ("paid by", paid_by.to_owned()),
        ("posts to", it.address.clone()),
        ("secrets", secrets.join("; ")),
        ("API", or_none(&it.api_url)),
        ("rate", rate),
        ("sender", or_none(&it.sender)),
        ("display name", or_none(&it.branding.display_name)),
        ("contact", or_none(&it.branding.contact)),
        (
            "language",
            it.branding
                .language
                .map_or("none", Language::tag)
                .to_owned(),
        ),
        ("logo", or_none(&it.branding.logo)),
        ("state", it.state.clone()),
        ("added", zone::minute(it.created_at)),
        ("changed", zone::minute(it.changed_at)),
    ]);
    table::show(arguments.json, &it, || facts.render())
}

async fn test(settings: &Settings, db: &Db, arguments: &OneArguments) -> Result<()> {
    let it = find(settings, db, &arguments.name).await?;
    // It needs what a worker needs that calls the provider.
    let config = Config::load(settings, Mode::Worker(Queue::Orders))?;
    let clock = Clock::system();
    let connections = registry::read(&config, db, &clock).await?;
    if it.state != "ok" && it.state != "paused" {
        bail!("{}: {}", it.name, it.state);
    }
    let Some(answer) = Clients::new(&connections, &clock).probe(&it.name).await else {
        bail!("{} has no API to be asked; its secret can be read", it.name);
    };
    let said = flow::accepts_token(answer);
    if arguments.json {
        let error = said.as_ref().err().map(ToString::to_string);
        table::print_json(
            &serde_json::json!({"name": it.name, "accepted": said.is_ok(), "error": error}),
        )?;
    }
    match said {
        Ok(()) if arguments.json => Ok(()),
        Ok(()) => table::print(&format!(
            "The API of {} answers and accepts its token.\n",
            it.name
        )),
        Err(why) => bail!("the API of {} {why}", it.name),
    }
}

async fn reseal(settings: &Settings, db: &Db, arguments: &ResealArguments) -> Result<()> {
    let means = Means {
        keys: &Config::secrets_keys(settings)?,
        cleartext: &Config::cleartext_hosts(settings),
    };
    let author = arguments.operator.author(settings, db).await?;
    let resealed = flow::reseal(db, author.by(Clock::system().now()), &means)
        .await
        .map_err(refused)?;
    terminal::err(
        "Every process must have the new key before the former one is removed from SECRETS_KEY.\n",
    );
    table::print(&format!(
        "{resealed} connections were encrypted with the newest key.\n"
    ))
}
