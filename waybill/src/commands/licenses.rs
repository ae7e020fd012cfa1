//! `waybill licenses` grants, changes and shows licences, and explains which tier a person has and
//! why. The audit says who changed a licence.

use anyhow::Result;
use config::{Config, Settings};
use domain::license::{LicenseId, Resolved, Status, TERMS, Tier, Why, resolve};
use operators::licenses::{self as flow, Change, Granted, Outcome, Refused, Wanted, When};
use platform::clock::Clock;
use platform::zone;
use serde_json::{Value, json};
use store::licenses::{self, License};
use store::users::{self, Named, User};

use crate::commands::operator::Operator;
use crate::commands::{database, misused, with_database};
use crate::table::{self, Listed, Output, Rows as _, Table, or_none};
use lists::deeds::Grant;
use lists::people::{Licenses, ListedLicense, owner};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Grant a licence to a person or an organization
    ///
    /// The identity provider is asked which account has the login now, and the licence stays with
    /// that account when it is renamed. If the provider cannot be asked, the licence of a person who
    /// has not logged in yet belongs to the first account that logs in with this login within 30
    /// days; granting again begins the 30 days anew. To name an account without doubt, give `id:`
    /// and the account's number, which the provider shows for every account.
    ///
    /// If the owner already has an active licence of this tier and subscription, no second one is
    /// made; the licence is lengthened if the grant is for longer.
    Grant(GrantArguments),
    /// End a licence for good
    Revoke(Chosen),
    /// Suspend a licence until it is resumed
    Suspend(Chosen),
    /// Make a suspended licence active again
    Resume(Chosen),
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

#[derive(clap::Args)]
pub struct Chosen {
    /// The id of the licence, from `waybill licenses list`
    id: LicenseId,
    #[command(flatten)]
    operator: Operator,
}

#[derive(clap::Args)]
pub struct GrantArguments {
    #[command(flatten)]
    grant: Grant,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    match command {
        Command::Grant(arguments) => grant(settings, arguments).await,
        Command::Revoke(chosen) => change(settings, chosen, Change::Revoke).await,
        Command::Suspend(chosen) => change(settings, chosen, Change::Suspend).await,
        Command::Resume(chosen) => change(settings, chosen, Change::Resume).await,
        Command::List(listed) => {
            let list = Licenses {
                grace: Config::license_grace(settings)?,
                has_logins: true,
            };
            with_database(settings, async |db| listed.print(db, &list).await).await
        }
        Command::Show { user, json } => show(settings, &user, json).await,
        Command::Tiers(Output { json }) => tiers(json),
    }
}

/// The current time and the grace, which is a setting.
pub fn when(settings: &Settings) -> Result<When> {
    Ok(When {
        now: Clock::system().now(),
        grace: Config::license_grace(settings)?,
    })
}

async fn grant(settings: &Settings, arguments: GrantArguments) -> Result<()> {
    let clock = Clock::system();
    let when = when(settings)?;
    let wanted = &arguments.grant;
    let nobody = || misused("name a person with --user or an organization with --org");
    let provider = Config::identity_provider(settings)?;
    let db = database(settings).await?;
    let author = arguments.operator.author(settings, &db).await?;
    let wanted = Wanted {
        to: wanted.to().ok_or_else(nobody)?,
        provider: provider.as_ref(),
        tier: wanted.tier,
        expires_at: wanted.expires_at(when.now),
        subscription: wanted.subscription.as_deref(),
        item: wanted.item.as_deref(),
    };
    let granted = flow::grant(&db, author.by(when.now), &clock, &wanted, when).await;
    db.close().await;
    let granted = granted.map_err(|refused| match refused {
        Refused::Over => misused("--until is over already"),
        Refused::Unpaid(_) => misused(format!("{refused}, with --days or --until")),
        refused => refused.into(),
    })?;
    if arguments.json {
        return table::print_json(&json!({
            "id": granted.id, "tier": arguments.grant.tier, "owner": granted.owner,
            "expires_at": granted.expires_at, "outcome": granted.outcome,
            "claimable_until": granted.claimable_until, "doubt": granted.doubt,
        }));
    }
    table::print(&grant_summary(&granted, arguments.grant.tier))
}

fn grant_summary(granted: &Granted, tier: Tier) -> String {
    let (id, title) = (granted.id, &granted.owner);
    let until = granted.expires_at.map_or("for good".to_owned(), |at| {
        format!("until {}", zone::time(at))
    });
    let what = match granted.outcome {
        Outcome::Granted => format!("Licence {id}: {title} has {tier} {until}."),
        Outcome::Lengthened => format!(
            "Licence {id} was there and is lengthened: {title} has {tier} {until}. There is no \
             second one."
        ),
        Outcome::Unchanged => format!(
            "Licence {id} is there already: {title} has {tier} {until}. There is no second one."
        ),
    };
    let who = match granted.claimable_until {
        Some(until) => format!(
            "It belongs to the first account that logs in with this login until {}; then \
             nobody can\nclaim it, unless you grant it again before.",
            zone::time(until)
        ),
        None => "Who is logged in sees it within 10 seconds.".to_owned(),
    };
    let doubt = granted.doubt.as_deref().unwrap_or_default();
    format!("{what}\n{who}\n{doubt}")
}

async fn change(settings: &Settings, chosen: Chosen, change: Change) -> Result<()> {
    let when = when(settings)?;
    let db = database(settings).await?;
    let author = chosen.operator.author(settings, &db).await?;
    let changed = flow::change(&db, author.by(when.now), chosen.id, change, when).await;
    db.close().await;
    let license = changed?;
    table::print(&format!(
        "Licence {} of {} is {}.\n",
        license.id,
        owner(&license, when.now),
        when.state(&license)
    ))
}

async fn show(settings: &Settings, named: &Named, json: bool) -> Result<()> {
    let when = when(settings)?;
    let db = database(settings).await?;
    let mut tx = db.begin().await?;
    let user = users::find(&mut tx, named).await?;
    tx.rollback().await?;
    let mut licenses = match &user {
        Some(user) => licenses::of_user(&db, user.id).await?,
        None => Vec::new(),
    };
    db.close().await;
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
