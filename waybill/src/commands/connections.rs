//! `waybill connections`: the providers that are connected, beside those that the settings name (docs/connect.md).

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use config::{Config, Mode, Settings};
use domain::branding::Language;
use domain::connection::DEFAULT;
use domain::job::Queue;
use domain::pause::Target;
use operators::connections::{self as flow, Changes, Means, NewApi, Refused, Rotation, Wanted};
use operators::pauses;
use platform::clock::Clock;
use platform::token::Token;
use platform::{terminal, zone};
use process::clients::Clients;
use process::registry;
use store::connections::{Connection, Overview, Side};
use store::sql::Db;

use crate::commands::operator::Operator;
use crate::commands::{misused, with_database};
use crate::table::{self, Listed, Table};
use lists::age;
use lists::deeds::{ConnectionChanges, NewConnection};
use lists::providers::Connections;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Connect a provider: its secret, its shops or its account, and its API
    ///
    /// With --shop it is a storefront, and without a payment provider. The secret proves these shops, and no other: a
    /// delivery that is signed with it and names another shop is refused. All processes know it within a second.
    /// SECRETS_KEY must be set, for this command and for the service; the secrets are encrypted with it.
    Add(AddArguments),
    /// List the connections, and when each verified a delivery last
    List(Listed<Connections>),
    /// Show one connection, and where its provider posts to
    Show(OneArguments),
    /// Change what buyers see of its shops, who writes to them, and how much is taken. An empty text takes a value away
    Change(ChangeArguments),
    /// Give a connection another secret or API. The former secret is accepted for three days more
    Rotate(RotateArguments),
    /// Let what came by a connection wait, and the calls to its provider, for at most seven days. Deliveries are accepted
    Pause(PauseArguments),
    /// Let it go on
    Resume(NamedArguments),
    /// Remove a connection with its secrets. What came by it is worked on all the same
    Remove(NamedArguments),
    /// Ask the provider whether it accepts the token of a connection. Exit code 1 when it does not
    Test(OneArguments),
    /// Encrypt all secrets with the newest key of SECRETS_KEY, so that the former one can be removed
    Reseal(ResealArguments),
}

#[derive(clap::Args)]
pub struct AddArguments {
    #[command(flatten)]
    new: NewConnection,
    /// The file with the signing secret; - reads it from the input
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    #[command(flatten)]
    api: ApiArguments,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ChangeArguments {
    /// The name, from `waybill connections list`
    name: String,
    #[command(flatten)]
    changes: ConnectionChanges,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ApiArguments {
    /// The address of the provider's API
    #[arg(long, value_name = "URL", requires = "api_token_file")]
    api_url: Option<String>,
    /// The file with the token of the API
    #[arg(long, value_name = "FILE", requires = "api_url")]
    api_token_file: Option<PathBuf>,
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
pub struct NamedArguments {
    /// The name, from `waybill connections list`
    name: String,
    #[command(flatten)]
    operator: Operator,
}

#[derive(clap::Args)]
pub struct PauseArguments {
    /// The name, from `waybill connections list`
    name: String,
    /// For how long, such as 30m, 2h or 3d
    #[arg(long = "for", value_name = "AGE", value_parser = age::parse, default_value = "1h")]
    length: Duration,
    #[command(flatten)]
    operator: Operator,
}

#[derive(clap::Args)]
pub struct ResealArguments {
    #[command(flatten)]
    operator: Operator,
}

#[derive(clap::Args)]
pub struct RotateArguments {
    /// The name, from `waybill connections list`
    name: String,
    /// The file with the new signing secret; - reads it from the input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    api: ApiArguments,
    /// How long the former secret is accepted too: 1h, 2d, .. With 0s it ends at once
    #[arg(long, value_name = "AGE", value_parser = age::parse, default_value = "3d")]
    overlap: Duration,
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Add(arguments) => add(settings, db, arguments).await,
        Command::List(listed) => {
            let list = Connections {
                keys: Config::secrets_keys(settings)?,
                public_url: Config::public_url(settings)?,
            };
            listed.print(db, &list).await
        }
        Command::Show(arguments) => show(settings, db, &arguments).await,
        Command::Change(arguments) => change(settings, db, arguments).await,
        Command::Rotate(arguments) => rotate(settings, db, arguments).await,
        Command::Pause(arguments) => pause(settings, db, &arguments).await,
        Command::Resume(arguments) => resume(settings, db, &arguments).await,
        Command::Remove(arguments) => remove(settings, db, &arguments).await,
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

impl ApiArguments {
    fn read(&self) -> Result<Option<NewApi>> {
        let Some((url, file)) = self.api_url.as_ref().zip(self.api_token_file.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(NewApi {
            url: url.trim().trim_end_matches('/').to_owned(),
            token: Token::new(secret_of(file)?.trim()),
        }))
    }
}

/// What the settings say of how connections are kept.
struct Sealing {
    keys: Vec<Token>,
    cleartext: Vec<String>,
}

impl Sealing {
    fn read(settings: &Settings) -> Result<Self> {
        Ok(Sealing {
            keys: Config::secrets_keys(settings)?,
            cleartext: Config::cleartext_hosts(settings),
        })
    }

    fn means(&self) -> Means<'_> {
        Means {
            keys: &self.keys,
            cleartext: &self.cleartext,
        }
    }
}

async fn add(settings: &Settings, db: &Db, arguments: AddArguments) -> Result<()> {
    let sealing = Sealing::read(settings)?;
    let author = arguments.operator.author(settings, db).await?;
    let new = arguments.new;
    let name = new.name.clone();
    let wanted = Wanted {
        name: new.name,
        provider: new.provider,
        headers: new.headers,
        shops: new.shops,
        account: new.account,
        payments: new.payments,
        changes: new.changes.into(),
        secret: secret_of(&arguments.secret_file)?,
        api: arguments.api.read()?,
        moves: new.moves,
    };
    flow::add(
        db,
        author.by(Clock::system().now()),
        &sealing.means(),
        wanted,
    )
    .await
    .map_err(refused)?;
    let shown = find(settings, db, &name).await?;
    table::show(arguments.json, &shown, || {
        format!(
            "Connection {name} is added. Its provider posts to:\n{}\n",
            shown.address
        )
    })
}

async fn change(settings: &Settings, db: &Db, arguments: ChangeArguments) -> Result<()> {
    let changes = Changes::from(arguments.changes);
    if changes.is_empty() {
        return Err(misused(
            "what is to be changed? Give at least one value; an empty text takes a value away",
        ));
    }
    let author = arguments.operator.author(settings, db).await?;
    let (name, by) = (&arguments.name, author.by(Clock::system().now()));
    flow::change(db, by, name, &changes)
        .await
        .map_err(refused)?;
    let shown = find(settings, db, name).await?;
    table::show(arguments.json, &shown, || {
        format!("Connection {name} is changed. All processes know it within a second.\n")
    })
}

async fn all(settings: &Settings, db: &Db) -> Result<Vec<Overview>> {
    let keys = Config::secrets_keys(settings)?;
    let public_url = Config::public_url(settings)?;
    let now = Clock::system().now();
    Ok(flow::overviews(db, &keys, &public_url, now).await?)
}

async fn find(settings: &Settings, db: &Db, name: &str) -> Result<Overview> {
    let mut all = all(settings, db).await?.into_iter();
    all.find(|it| it.name == name)
        .ok_or_else(|| refused(Refused::Unknown))
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

async fn rotate(settings: &Settings, db: &Db, arguments: RotateArguments) -> Result<()> {
    let sealing = Sealing::read(settings)?;
    let author = arguments.operator.author(settings, db).await?;
    let rotation = Rotation {
        secret: arguments
            .secret_file
            .as_deref()
            .map(secret_of)
            .transpose()?,
        api: arguments.api.read()?,
        overlap: arguments.overlap,
    };
    let by = author.by(Clock::system().now());
    let Connection {
        name, former_until, ..
    } = flow::rotate(db, by, &sealing.means(), &arguments.name, rotation)
        .await
        .map_err(refused)?;
    let former = former_until.map_or(String::new(), |until| {
        format!(
            " The former secret is accepted until {}.",
            zone::minute(until)
        )
    });
    table::print(&format!("Connection {name} is changed.{former}\n"))
}

async fn pause(settings: &Settings, db: &Db, arguments: &PauseArguments) -> Result<()> {
    let it = find(settings, db, &arguments.name).await?;
    let clock = Clock::system();
    let author = arguments.operator.author(settings, db).await?;
    let now = clock.now();
    let until = now.plus(arguments.length);
    let target = Target::Connection(it.name);
    match pauses::begin(db, author.by(now), clock.id(), target, until).await {
        Ok(_) => table::print(&format!(
            "Connection {} is paused until {}.\n",
            arguments.name,
            zone::time(until)
        )),
        Err(pauses::Refused::Length) => Err(misused(format!("--for: {}", pauses::Refused::Length))),
        Err(pauses::Refused::Database(error)) => Err(error.into()),
    }
}

async fn resume(settings: &Settings, db: &Db, arguments: &NamedArguments) -> Result<()> {
    let author = arguments.operator.author(settings, db).await?;
    let target = Target::Connection(arguments.name.clone());
    if !pauses::end(db, author.by(Clock::system().now()), &target).await? {
        bail!("the connection {} is not paused", arguments.name);
    }
    table::print(&format!(
        "Connection {} goes on; what waited is due within some seconds.\n",
        arguments.name
    ))
}

async fn remove(settings: &Settings, db: &Db, arguments: &NamedArguments) -> Result<()> {
    let author = arguments.operator.author(settings, db).await?;
    flow::remove(db, author.by(Clock::system().now()), &arguments.name)
        .await
        .map_err(refused)?;
    table::print(&format!(
        "Connection {} is removed. Its address answers 404; take the webhooks away at the provider.\n",
        arguments.name
    ))
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
    let sealing = Sealing::read(settings)?;
    let author = arguments.operator.author(settings, db).await?;
    let resealed = flow::reseal(db, author.by(Clock::system().now()), &sealing.means())
        .await
        .map_err(refused)?;
    terminal::err(
        "Every process must have the new key before the former one is removed from SECRETS_KEY.\n",
    );
    table::print(&format!(
        "{resealed} connections were encrypted with the newest key.\n"
    ))
}
