//! `waybill identity` shows to which identity provider's accounts the users belong. With it an
//! operator says whether a new provider address has the same accounts or other ones.

use anyhow::{Result, bail};
use config::Settings;
use platform::clock::Clock;
use serde_json::json;
use store::identity_provider;
use store::sql::Db;

use crate::commands::operator::Operator;
use crate::commands::{misused, with_database};
use crate::table;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show to which identity provider's accounts the users belong
    Show,
    /// Record that the same accounts are now at a new address
    Moved(Arguments),
    /// Record that a new address has other accounts, and put the known ones aside with their
    /// licences
    ///
    /// If you name a provider whose accounts were put aside before, these accounts are used again.
    Replaced(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The address of the provider, as GITHUB_URL will have it from now on
    url: String,
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let said = with_database(settings, async |db| match command {
        Command::Show => show(db).await,
        Command::Moved(arguments) => change(settings, db, &arguments, false).await,
        Command::Replaced(arguments) => change(settings, db, &arguments, true).await,
    });
    table::print(&said.await?)
}

async fn show(db: &Db) -> Result<String> {
    Ok(match identity_provider::recorded(db).await? {
        Some(name) => format!("{name}\n"),
        None => "none: nobody has started with GITHUB_CLIENT_ID set\n".to_owned(),
    })
}

async fn change(
    settings: &Settings,
    db: &Db,
    arguments: &Arguments,
    are_others: bool,
) -> Result<String> {
    let name = identity_provider::name(&arguments.url);
    let is_url = arguments.url.starts_with("http://") || arguments.url.starts_with("https://");
    if !is_url && name != identity_provider::STAND_IN {
        return Err(misused(
            "the address must be http:// or https:// and a host",
        ));
    }
    let Some(former) = identity_provider::recorded(db).await? else {
        bail!("no provider is recorded yet: start with GITHUB_URL set, and it is");
    };
    if former == name {
        bail!("the accounts are those of {name} already");
    }
    let clock = Clock::system();
    let author = arguments.operator.author(settings, db).await?;
    let mut tx = db.begin().await?;
    let aside = if are_others {
        identity_provider::replaced(&mut tx, &clock, &former, &name).await?
    } else {
        identity_provider::moved(&mut tx, &clock, &name).await?;
        0
    };
    let action = if are_others {
        "identity.replaced"
    } else {
        "identity.moved"
    };
    let details = json!({"former": former, "put_aside": aside});
    let by = author.by(clock.now());
    by.note(&mut tx, action, &name, details).await?;
    tx.commit().await?;
    Ok(if are_others {
        format!(
            "{aside} accounts of {former} are put aside, and those of {name} take their place; \
             restart ingress with GITHUB_URL={name}\n"
        )
    } else {
        format!("the accounts are at {name} now; restart ingress with GITHUB_URL={name}\n")
    })
}
