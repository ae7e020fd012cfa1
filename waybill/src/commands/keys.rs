//! `waybill keys` manages the API keys of the commerce API. A key itself is shown only once, when
//! it is made. The audit says who made and who revoked each key.

use anyhow::{Result, bail};
use config::Settings;
use domain::api_key::{self, Scope, State};
use operators::api_keys::{self as flow, MOST_DAYS, Made, Refused, WantedKey};
use platform::clock::Clock;
use platform::terminal;
use serde_json::json;
use store::api_keys::{self, ApiKeyEntry};
use store::sql::Db;
use uuid::Uuid;

use crate::commands::operator::{Author, Operator};
use crate::commands::{database, misused, with_database};
use crate::table::{self, Listed};
use lists::people::Keys;
use lists::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a key and print it; it is printed only this once, because only its hash is stored
    ///
    /// Without --scope and --shop the key opens all of the API, also what later versions add, and not
    /// the console. Give each program a key of its own with only the scopes and shops that it needs,
    /// so that you can revoke each key separately.
    Create(CreateArguments),
    /// List keys with their scopes, their ends, and when they were last used
    List(Listed<Keys>),
    /// Revoke a key at once and for good
    Revoke {
        /// The id of the key, from `waybill keys list`, or its name
        #[arg(value_name = "ID OR NAME")]
        key: String,
        #[command(flatten)]
        operator: Operator,
    },
}

#[derive(clap::Args)]
pub struct CreateArguments {
    /// A name that says what the key is for
    name: String,
    /// A scope of the key. Give it several times for several scopes. Without it the key has all
    /// scopes but those of the console
    #[arg(long, value_name = "SCOPE", value_parser = words::scope())]
    scope: Vec<Scope>,
    /// A shop domain whose orders and privacy requests the key opens. Give it several times for
    /// several shops. Orders of checkouts belong to the shop `checkout`. Without it the key opens
    /// all shops
    #[arg(long, value_name = "DOMAIN", value_parser = api_key::shop)]
    shop: Vec<String>,
    /// The key ends after this many days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DAYS)))]
    expires_in_days: Option<u32>,
    /// The number of an account at GitHub, whose holder may sign in to the console with the rights of this key.
    /// https://api.github.com/users/LOGIN says it as `id`
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    account: Option<i64>,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    match command {
        Command::Create(arguments) => create(settings, arguments).await,
        Command::List(listed) => {
            with_database(settings, async |db| listed.print(db, &Keys).await).await
        }
        Command::Revoke { key, operator } => {
            let db = database(settings).await?;
            let author = operator.author(settings, &db).await?;
            let done = revoke(&db, &author, &key).await;
            db.close().await;
            table::print(&done?)
        }
    }
}

async fn create(settings: &Settings, arguments: CreateArguments) -> Result<()> {
    let clock = Clock::system();
    let db = database(settings).await?;
    let author = arguments.operator.author(settings, &db).await?;
    let CreateArguments { name, json, .. } = &arguments;
    let id = clock.id();
    let new = WantedKey {
        id,
        name,
        scopes: arguments.scope.clone(),
        shops: arguments.shop.clone(),
        days: arguments.expires_in_days,
        account: arguments.account,
    };
    let made = flow::create(&db, author.by(clock.now()), &clock, new).await;
    db.close().await;
    let Made {
        key,
        rights,
        expires_at,
    } = made.map_err(|refused| match refused {
        Refused::Database(error) => error.into(),
        Refused::Checkout => misused(format!("{refused}: --shop checkout")),
        Refused::Name(_) | Refused::Account => misused(refused.to_string()),
    })?;
    if *json {
        return table::print_json(&json!({
            "id": id,
            "name": name,
            "key": key,
            "scopes": rights.scopes,
            "shops": rights.shops,
            "expires_at": expires_at,
            "account": arguments.account,
        }));
    }
    table::print(&format!("{key}\n"))?;
    let [scopes, shops] = rights.in_words();
    let account = arguments.account;
    let account = account.map_or(String::new(), |number| {
        format!(" With it account {number} signs in to the console.")
    });
    terminal::err(&format!(
        "Keep it now: it cannot be shown again. Send it as `Authorization: Bearer {}..`\n\
         It opens: {scopes}. Shops: {shops}.{account}\n",
        &key[..6]
    ));
    Ok(())
}

async fn revoke(db: &Db, author: &Author, wanted: &str) -> Result<String> {
    let now = Clock::system().now();
    let keys = api_keys::list(db, now).await?;
    let id = Uuid::parse_str(wanted).ok();
    let mut meant: Vec<&ApiKeyEntry> = keys.iter().filter(|key| Some(key.id) == id).collect();
    if meant.is_empty() {
        meant = keys.iter().filter(|key| key.name == wanted).collect();
        // A key that was revoked before does not make the name of another key ambiguous.
        meant.sort_by_key(|key| key.state == State::Revoked);
        meant.truncate(
            meant
                .partition_point(|key| key.state != State::Revoked)
                .max(1),
        );
    }
    let key = match meant.as_slice() {
        [key] => *key,
        [] => bail!("there is no key {wanted:?} here; `waybill keys list --all` shows them"),
        several => {
            let ids: Vec<String> = several.iter().map(|key| format!("  {}", key.id)).collect();
            bail!(
                "{} keys are named {wanted:?}; revoke the one you mean by its id:\n{}",
                several.len(),
                ids.join("\n")
            );
        }
    };
    Ok(if flow::revoke(db, author.by(now), key.id).await? {
        format!(
            "Key {} ({}) is revoked; it opens nothing any more.\n",
            key.id, key.name
        )
    } else {
        format!("Key {} ({}) was revoked before.\n", key.id, key.name)
    })
}
