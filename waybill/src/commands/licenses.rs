//! `waybill licenses`: who may use what, and why.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use common::clock::{Clock, Timestamp};
use common::config::Settings;
use common::license::{LicenseId, Resolved, Status, Tier, Why, check_orgs, check_seats, resolve};
use common::sql::Tx;
use common::store::licenses::{self, Grant, License, Owner};
use common::store::orgs;
use common::store::subscriptions;
use common::store::users::{self, Named, User};
use serde_json::{Value, json};

use crate::commands::{database, misused};
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Grant a licence to a person or an organization
    ///
    /// A person who has not logged in yet may be named by login: the licence belongs to the
    /// first account that logs in with it within 30 days, and stays with that account when it
    /// is renamed. `id:` and the account's number, which the provider shows for every account,
    /// leaves no doubt whom you mean.
    Grant(GrantArguments),
    /// End a licence for good
    Revoke {
        /// Its id, from `waybill licenses list`
        id: LicenseId,
    },
    /// Put a licence out of force until it is resumed
    Suspend {
        /// Its id, from `waybill licenses list`
        id: LicenseId,
    },
    /// Put a suspended licence back in force
    Resume {
        /// Its id, from `waybill licenses list`
        id: LicenseId,
    },
    /// List licences
    List {
        /// Also those that were revoked
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show which tier a person has, and why
    Show {
        /// A login, or `id:` and the number of the account
        user: Named,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub struct GrantArguments {
    /// A person: a login, or `id:` and the number of the account
    #[arg(long, required_unless_present = "org", conflicts_with = "org")]
    user: Option<Named>,
    /// An organization, made with `waybill orgs create`
    #[arg(long, value_name = "NAME")]
    org: Option<String>,
    /// free, alpha, pro, enterprise
    #[arg(long)]
    tier: Tier,
    /// End it after so many days. Without --days and --until it never ends
    #[arg(long, conflicts_with = "until", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    /// End it then: a day, or a time like 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// The payment provider's subscription whose paid invoices extend it
    #[arg(long, value_name = "ID")]
    subscription: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    match command {
        Command::Grant(arguments) => grant(settings, arguments).await,
        Command::Revoke { id } => change(settings, id, Change::Revoke).await,
        Command::Suspend { id } => change(settings, id, Change::Suspend).await,
        Command::Resume { id } => change(settings, id, Change::Resume).await,
        Command::List { all, json } => list(settings, all, json).await,
        Command::Show { user, json } => show(settings, &user, json).await,
    }
}

async fn grant(settings: &Settings, arguments: GrantArguments) -> Result<()> {
    let clock = Clock::system();
    let now = clock.now();
    let days = |days| now.plus(Duration::from_hours(u64::from(days) * 24));
    let expires_at = arguments.until.or(arguments.days.map(days));
    if expires_at.is_some_and(|at| at <= now) {
        return Err(misused("--until is over already"));
    }
    let db = database(settings).await?;
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let expires_at = match &arguments.subscription {
        None => expires_at,
        Some(id) => Some(paid_until(&mut tx, id, expires_at).await?),
    };
    let (owner, title) = match (&arguments.user, &arguments.org) {
        (Some(user), _) => {
            let user = users::find_or_invite(&mut tx, &clock, user).await?;
            (Owner::User(user.id), user.to_string())
        }
        (None, Some(name)) => {
            let org = with_room(&mut tx, name, &arguments, now).await?;
            (Owner::Org(org.id), org.name)
        }
        (None, None) => {
            return Err(misused(
                "name a person with --user or an organization with --org",
            ));
        }
    };
    let wanted = Grant {
        tier: arguments.tier,
        owner,
        expires_at,
        subscription_id: arguments.subscription.as_deref(),
    };
    let id = licenses::grant(&mut tx, &clock, &wanted).await?;
    tx.commit().await?;
    db.close().await;
    if arguments.json {
        return table::print_json(&json!({
            "id": id, "tier": arguments.tier, "owner": title, "expires_at": expires_at,
        }));
    }
    let until = expires_at.map_or("for good".to_owned(), |at| format!("until {at}"));
    table::print(&format!(
        "Licence {id}: {title} has {} {until}.\nWho is logged in sees it within 10 seconds.\n",
        arguments.tier
    ))
}

/// Until when a subscription is paid for: as the operator says, or as its invoices say, which
/// may have come before.
async fn paid_until(tx: &mut Tx, subscription: &str, said: Option<Timestamp>) -> Result<Timestamp> {
    let paid = subscriptions::load(tx, vec![subscription.to_owned()]).await?;
    let paid = paid.get(subscription).and_then(|it| it.record.period_end);
    said.max(paid.map(Timestamp::from_unix_seconds))
        .ok_or_else(|| {
            misused(format!(
                "no paid invoice of {subscription} is known, and a licence that never ends is not \
             extended; say with --days or --until how long it is paid for"
            ))
        })
}

/// The organization, if it may have the tier.
async fn with_room(
    tx: &mut Tx,
    name: &str,
    arguments: &GrantArguments,
    now: Timestamp,
) -> Result<orgs::Org> {
    let tier = arguments.tier;
    let org = orgs::find(tx, name).await?.with_context(|| no_org(name))?;
    let subscription = arguments.subscription.as_deref();
    let others = licenses::orgs_of_customer(tx, org.id, tier, org.owner_id, subscription).await?;
    check_orgs(tier, &others)?;
    // What is granted is active, so of the others only active ones count.
    let licenses = licenses::of_org(tx, org.id).await?;
    let others = licenses.iter().filter_map(License::candidate);
    let active = others.filter(|other| other.status(now) == Status::Active);
    let highest = active.map(|other| other.tier).chain([tier]).max();
    let members = orgs::members(tx, org.id).await?.len();
    check_seats(&org.name, highest, members)?;
    Ok(org)
}

pub fn no_org(name: &str) -> String {
    format!("there is no organization {name} here; make it with `waybill orgs create {name}`")
}

#[derive(Clone, Copy)]
enum Change {
    Revoke,
    Suspend,
    Resume,
}

async fn change(settings: &Settings, id: LicenseId, change: Change) -> Result<()> {
    let now = Clock::system().now();
    let db = database(settings).await?;
    let mut tx = db.begin().await?;
    let done = match change {
        Change::Revoke => licenses::revoke(&mut tx, id, now).await?,
        Change::Suspend => licenses::suspend(&mut tx, id, now).await?,
        Change::Resume => licenses::resume(&mut tx, id, now).await?,
    };
    tx.commit().await?;
    let all = licenses::list(&db).await?;
    db.close().await;
    let Some(license) = all.iter().find(|license| license.id == id) else {
        bail!("there is no licence {id} here; `waybill licenses list` shows them");
    };
    let state = state(license, now);
    if !done {
        bail!("licence {id} is {state}; nothing was changed");
    }
    table::print(&format!("Licence {id} of {} is {state}.\n", owner(license)))
}

async fn list(settings: &Settings, all: bool, json: bool) -> Result<()> {
    let db = database(settings).await?;
    let licenses = licenses::list(&db).await?;
    db.close().await;
    let licenses: Vec<License> = licenses
        .into_iter()
        .filter(|license| all || license.revoked_at.is_none())
        .collect();
    if json {
        return table::print_json(&licenses);
    }
    let now = Clock::system().now();
    let mut table = Table::new(["LICENCE", "TIER", "STATE", "OF", "UNTIL", "SUBSCRIPTION"]);
    for license in &licenses {
        table.row([
            license.id.to_string(),
            license.tier.to_string(),
            state(license, now).to_owned(),
            owner(license),
            until(license),
            license
                .subscription_id
                .clone()
                .unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table::print(&table.render())
}

async fn show(settings: &Settings, named: &Named, json: bool) -> Result<()> {
    let now = Clock::system().now();
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
    let candidates: Vec<_> = licenses.iter().filter_map(License::candidate).collect();
    let resolved = resolve(&candidates, now);
    if json {
        return table::print_json(&json!({
            "user": user,
            "tier": resolved.tier,
            "status": resolved.status,
            "org_name": resolved.org_name,
            "decided_by": match resolved.why {
                Why::NoLicense => Value::Null,
                Why::License(id) => json!(id),
            },
            "licenses": licenses,
        }));
    }
    table::print(&explain(named, user.as_ref(), &licenses, &resolved, now))
}

fn explain(
    named: &Named,
    user: Option<&User>,
    licenses: &[License],
    resolved: &Resolved,
    now: Timestamp,
) -> String {
    let title = user.map_or_else(
        || format!("{named} (not known here: never logged in, nothing granted)"),
        ToString::to_string,
    );
    let mut facts = Table::new(["user", &title]);
    facts.row(["tier".into(), resolved.tier.to_string()]);
    facts.row(["status".into(), resolved.status.to_string()]);
    let org = resolved.org_name.clone();
    facts.row(["organization".into(), org.unwrap_or_else(|| "-".to_owned())]);
    facts.row(["why".into(), why(licenses, resolved, now)]);
    if let Some(until) = user.and_then(|user| user.claimable_until) {
        let what = if until > now {
            format!("by the first account that logs in with this login, until {until}")
        } else {
            format!("no longer, since {until}: grant again, or to `id:` and the account's number")
        };
        facts.row(["claimed".into(), what]);
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
            state(license, now).to_owned(),
            owner(license),
            until(license),
        ]);
    }
    format!("{}\n{}", facts.render(), table.render())
}

fn why(licenses: &[License], resolved: &Resolved, now: Timestamp) -> String {
    let Why::License(id) = resolved.why else {
        return "there is no licence, and free is everyone's".to_owned();
    };
    let with = |status| {
        let all = licenses.iter().filter_map(License::candidate);
        all.filter(|one| (one.status(now) == Status::Active) == status)
            .count()
    };
    let (active, inactive) = (with(true), with(false));
    match (resolved.status, active, inactive) {
        (Status::Active, 1, 0) => format!("licence {id}, the only one"),
        (Status::Active, 1, _) => format!("licence {id}, the only one that is active"),
        (Status::Active, ..) => format!("licence {id}, the highest of {active} that are active"),
        (_, _, 1) => format!("licence {id}, the only one, which is {}", resolved.status),
        _ => format!("licence {id}, the highest of {inactive}; none is active"),
    }
}

fn state(license: &License, now: Timestamp) -> &'static str {
    license
        .candidate()
        .map_or("revoked", |candidate| candidate.status(now).as_str())
}

fn owner(license: &License) -> String {
    match (&license.org, &license.user, license.provider_id) {
        (Some(org), ..) => format!("organization {org}"),
        (None, Some(login), Some(id)) => format!("{login} ({id})"),
        (None, Some(login), None) => format!("{login} (not seen yet)"),
        (None, None, _) => "-".to_owned(),
    }
}

fn until(license: &License) -> String {
    license
        .expires_at
        .map_or("for good".to_owned(), |at| at.to_string())
}
