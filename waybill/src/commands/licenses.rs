//! `waybill licenses` grants, changes and shows licences, and explains which tier a person has and
//! why. The audit says who changed a licence.

use anyhow::Result;
use config::{Config, Settings};
use domain::license::{Resolved, Status, TERMS, Why, resolve};
use operators::licenses::When;
use platform::clock::Clock;
use platform::zone;
use serde_json::{Value, json};
use store::licenses::{self, License};
use store::sql::Db;
use store::users::{self, Named, User};

use crate::commands::deed::Do;
use crate::commands::with_database;
use crate::table::{self, Listed, Output, Rows as _, Table, or_none};
use lists::deeds::licenses::{Grant, Resume, Revoke, Suspend};
use lists::people::{Licenses, ListedLicense, owner};

#[derive(clap::Subcommand)]
pub enum Command {
    Grant(Do<Grant>),
    Revoke(Do<Revoke>),
    Suspend(Do<Suspend>),
    Resume(Do<Resume>),
    /// List licences
    List(Listed<Licenses>),
    /// Show which tier a person has, and why
    Show {
        /// A login, or `id:` and the number of the account
        user: Named,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the features, limits and price of each tier
    Tiers(Output),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    if let Command::Tiers(Output { json }) = command {
        return tiers(json);
    }
    with_database(settings, async |db| match command {
        Command::Grant(deed) => deed.run(settings, db).await,
        Command::Revoke(deed) => deed.run(settings, db).await,
        Command::Suspend(deed) => deed.run(settings, db).await,
        Command::Resume(deed) => deed.run(settings, db).await,
        Command::List(listed) => {
            let list = Licenses {
                grace: Config::license_grace(settings)?,
                has_logins: true,
            };
            listed.print(db, &list).await
        }
        Command::Show { user, json } => show(settings, db, &user, json).await,
        Command::Tiers(Output { json }) => tiers(json),
    })
    .await
}

/// The current time and the grace, which is a setting.
pub fn when(settings: &Settings) -> Result<When> {
    Ok(When {
        now: Clock::system().now(),
        grace: Config::license_grace(settings)?,
    })
}

async fn show(settings: &Settings, db: &Db, named: &Named, json: bool) -> Result<()> {
    let when = when(settings)?;
    let mut tx = db.begin().await?;
    let user = users::find(&mut tx, named).await?;
    tx.rollback().await?;
    let mut licenses = match &user {
        Some(user) => licenses::of_user(db, user.id).await?,
        None => Vec::new(),
    };
    licenses.sort_unstable_by_key(|license| license.id);
    let candidates: Vec<_> = licenses
        .iter()
        .filter_map(|license| license.candidate(when.grace))
        .collect();
    let resolved = resolve(&candidates, when.now);
    if json {
        let listed = licenses.iter().cloned();
        let listed = listed.map(|license| ListedLicense::of(license, when));
        return table::print_json(&json!({
            "user": user,
            "tier": resolved.tier,
            "status": resolved.status,
            "org_name": resolved.org_name,
            "decided_by": match resolved.why {
                Why::NoLicense => Value::Null,
                Why::License(id) => json!(id),
            },
            "licenses": listed.collect::<Vec<_>>(),
        }));
    }
    table::print(&explain(named, user.as_ref(), &licenses, &resolved, when))
}

fn tiers(json: bool) -> Result<()> {
    let most = |most: Option<u64>| most.map_or("unlimited".to_owned(), |most| most.to_string());
    let table = TERMS.table(&[
        ("TIER", &|terms| terms.tier.to_string()),
        ("RANK", &|terms| terms.rank.to_string()),
        ("USERS", &|terms| most(terms.max_users)),
        ("ORGS", &|terms| most(terms.max_orgs)),
        ("PRICE", &|terms| terms.price.to_owned()),
        ("FEATURES", &|terms| terms.features.join(", ")),
    ]);
    table::show(json, &TERMS, || table.render())
}

fn explain(
    named: &Named,
    user: Option<&User>,
    licenses: &[License],
    resolved: &Resolved,
    when: When,
) -> String {
    let now = when.now;
    let title = user.map_or_else(
        || format!("{named} (not known here: never logged in, nothing granted)"),
        ToString::to_string,
    );
    let mut facts = Table::new(["user", &title]);
    facts.fact("tier", resolved.tier.to_string());
    facts.fact("status", resolved.status.to_string());
    facts.fact("organization", or_none(resolved.org_name.as_ref()));
    facts.fact("why", why(licenses, resolved, when));
    if let Some(until) = user.and_then(|user| user.claimable_until) {
        let at = zone::time(until);
        let what = if until > now {
            format!("by the first account that logs in with this login, until {at}")
        } else {
            format!("no longer, since {at}: grant again, or to `id:` and the account's number")
        };
        facts.fact("claimed", what);
    }
    if licenses.is_empty() {
        return facts.render();
    }
    let mut table = Table::new(["  LICENCE", "TIER", "STATE", "OF", "UNTIL"]);
    for license in licenses {
        let decides = resolved.why == Why::License(license.id);
        table.row([
            format!("{} {}", if decides { "*" } else { " " }, license.id),
            license.tier.to_string(),
            when.state(license),
            owner(license, now),
            until(license, when),
        ]);
    }
    format!("{}\n{}", facts.render(), table.render())
}

fn why(licenses: &[License], resolved: &Resolved, when: When) -> String {
    let Why::License(id) = resolved.why else {
        return "there is no licence, and free is everyone's".to_owned();
    };
    let kept = licenses.iter().filter(|one| one.revoked_at.is_none());
    let (active, inactive): (Vec<_>, Vec<_>) = kept.partition(|one| when.is_active(one));
    let (active, inactive) = (active.len(), inactive.len());
    match (resolved.status, active, inactive) {
        (Status::Active, 1, 0) => format!("licence {id}, the only one"),
        (Status::Active, 1, _) => format!("licence {id}, the only one that is active"),
        (Status::Active, ..) => format!("licence {id}, the highest of {active} that are active"),
        (_, _, 1) => format!("licence {id}, the only one, which is {}", resolved.status),
        _ => format!("licence {id}, the highest of {inactive}; none is active"),
    }
}

fn until(license: &License, when: When) -> String {
    let Some(at) = license.expires_at else {
        return "for good".to_owned();
    };
    let candidate = license.candidate(when.grace);
    match candidate.and_then(|candidate| candidate.grace_until()) {
        Some(grace) => format!("{}, with grace {}", zone::time(at), zone::time(grace)),
        None => zone::time(at),
    }
}
