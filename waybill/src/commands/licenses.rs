//! `waybill licenses` grants, changes and shows licences, and explains which tier a person has and
//! why. The audit says who changed a licence.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{Config, Settings};
use domain::license::{
    LicenseId, Resolved, Status, TERMS, Tier, Why, check_orgs, check_seats, resolve,
};
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::zone;
use serde::Serialize;
use serde_json::{Value, json};
use store::audit::By;
use store::licenses::{self, Customer, Grant, License, Owner};
use store::orgs::{self, Org};
use store::sql::{self, Tx};
use store::subscriptions;
use store::users::{self, Named, User};

use crate::commands::operator::Operator;
use crate::commands::{database, misused};
use crate::table::{self, Table};
use crate::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Grant a licence to a person or an organization
    ///
    /// You may name a person who has not logged in yet by login. The licence then belongs to the
    /// first account that logs in with this login within 30 days, and stays with that account when
    /// it is renamed. Granting again begins the 30 days anew. To name an account without doubt,
    /// give `id:` and the account's number, which the provider shows for every account.
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
    List {
        /// List revoked licences too
        #[arg(long)]
        all: bool,
        /// Only licences that nobody can claim any more: they were granted by login, and nobody
        /// logged in with the login in time
        #[arg(long)]
        unclaimable: bool,
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
    /// Show the features, limits and price of each tier
    Tiers {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
    /// A person: a login, or `id:` and the number of the account
    #[arg(long, required_unless_present = "org", conflicts_with = "org")]
    user: Option<Named>,
    /// An organization, made with `waybill orgs create`
    #[arg(long, value_name = "NAME")]
    org: Option<String>,
    /// The tier
    #[arg(long, value_parser = words::tier())]
    tier: Tier,
    /// The licence ends after this many days. Without --days and --until it never ends
    #[arg(long, conflicts_with = "until", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    /// The licence ends then: a day, which means its end in UTC, or a time like
    /// 2027-01-31T12:00:00+01:00
    #[arg(long, value_name = "DAY|TIME", value_parser = Timestamp::end_of)]
    until: Option<Timestamp>,
    /// The payment provider's subscription whose paid invoices extend the licence
    #[arg(long, value_name = "ID")]
    subscription: Option<String>,
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
        Command::List {
            all,
            unclaimable,
            json,
        } => list(settings, all, unclaimable, json).await,
        Command::Show { user, json } => show(settings, &user, json).await,
        Command::Tiers { json } => tiers(json),
    }
}

/// The current time, and how long a subscription's licence stays active after its end.
#[derive(Clone, Copy)]
pub struct When {
    pub now: Timestamp,
    pub grace: Duration,
}

impl When {
    pub fn now(settings: &Settings) -> Result<Self> {
        Ok(When {
            now: Clock::system().now(),
            grace: Config::license_grace(settings)?,
        })
    }

    pub fn is_active(self, license: &License) -> bool {
        let candidate = license.candidate(self.grace);
        candidate.is_some_and(|one| one.status(self.now) == Status::Active)
    }
}

async fn grant(settings: &Settings, arguments: GrantArguments) -> Result<()> {
    let clock = Clock::system();
    let when = When::now(settings)?;
    let now = when.now;
    let days = |days| now.plus(Duration::from_hours(u64::from(days) * 24));
    let expires_at = arguments.until.or(arguments.days.map(days));
    if expires_at.is_some_and(|at| at <= now) {
        return Err(misused("--until is over already"));
    }
    let db = database(settings).await?;
    let author = arguments.operator.author(settings, &db).await?;
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let expires_at = match &arguments.subscription {
        None => expires_at,
        Some(id) => Some(paid_until(&mut tx, id, expires_at).await?),
    };
    let (owner, title, claimable_until) = match (&arguments.user, &arguments.org) {
        (Some(user), _) => {
            let user = users::find_or_invite(&mut tx, &clock, user).await?;
            (Owner::User(user.id), user.to_string(), user.claimable_until)
        }
        (None, Some(name)) => {
            let org = with_room(&mut tx, name, &arguments, when).await?;
            (Owner::Org(org.id), org.name, None)
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
    let granted = give(&mut tx, &clock, author.by(now), &wanted, when).await?;
    tx.commit().await?;
    db.close().await;
    if arguments.json {
        return table::print_json(&json!({
            "id": granted.id, "tier": arguments.tier, "owner": title,
            "expires_at": granted.expires_at, "outcome": granted.outcome,
            "claimable_until": claimable_until,
        }));
    }
    table::print(&grant_summary(
        &granted,
        &title,
        arguments.tier,
        claimable_until,
    ))
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Granted,
    /// The existing licence was lengthened.
    Lengthened,
    /// The existing licence already lasts as long as the grant.
    Unchanged,
}

struct Granted {
    id: LicenseId,
    expires_at: Option<Timestamp>,
    outcome: Outcome,
}

/// Grants a licence. If the owner already has an active licence of the same tier and subscription,
/// that one is lengthened instead, if the grant is for longer. A second licence would add nothing,
/// and an operator who revoked only one of the two would believe that the owner no longer has the
/// tier.
async fn give(
    tx: &mut Tx,
    clock: &Clock,
    by: By<'_>,
    wanted: &Grant<'_>,
    when: When,
) -> Result<Granted> {
    let known = licenses::of_owner(tx, wanted.owner).await?;
    let known = known.into_iter().find(|license| {
        license.tier == wanted.tier
            && license.subscription_id.as_deref() == wanted.subscription_id
            && when.is_active(license)
    });
    let granted = match known {
        None => Granted {
            id: licenses::grant(tx, clock, wanted).await?,
            expires_at: wanted.expires_at,
            outcome: Outcome::Granted,
        },
        Some(known) if is_longer(wanted.expires_at, known.expires_at) => {
            licenses::lengthen(tx, known.id, wanted.expires_at, when.now).await?;
            Granted {
                id: known.id,
                expires_at: wanted.expires_at,
                outcome: Outcome::Lengthened,
            }
        }
        Some(known) => Granted {
            id: known.id,
            expires_at: known.expires_at,
            outcome: Outcome::Unchanged,
        },
    };
    let action = match granted.outcome {
        Outcome::Granted => "license.granted",
        Outcome::Lengthened => "license.lengthened",
        Outcome::Unchanged => return Ok(granted),
    };
    let (user_id, org_id) = match wanted.owner {
        Owner::User(user) => (Some(user), None),
        Owner::Org(org) => (None, Some(org)),
    };
    let details = json!({
        "tier": wanted.tier, "user_id": user_id, "org_id": org_id,
        "expires_at": granted.expires_at, "subscription_id": wanted.subscription_id,
    });
    by.note(tx, action, granted.id, details).await?;
    Ok(granted)
}

/// Whether the first end is later than the second. `None`: the licence never ends.
fn is_longer(one: Option<Timestamp>, other: Option<Timestamp>) -> bool {
    match (one, other) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(one), Some(other)) => one > other,
    }
}

fn grant_summary(
    granted: &Granted,
    title: &str,
    tier: Tier,
    claimable_until: Option<Timestamp>,
) -> String {
    let Granted { id, outcome, .. } = granted;
    let until = granted.expires_at.map_or("for good".to_owned(), |at| {
        format!("until {}", zone::time(at))
    });
    let what = match outcome {
        Outcome::Granted => format!("Licence {id}: {title} has {tier} {until}."),
        Outcome::Lengthened => format!(
            "Licence {id} was there and is lengthened: {title} has {tier} {until}. There is no \
             second one."
        ),
        Outcome::Unchanged => format!(
            "Licence {id} is there already: {title} has {tier} {until}. There is no second one."
        ),
    };
    let who = match claimable_until {
        Some(until) => format!(
            "It belongs to the first account that logs in with this login until {}; then \
             nobody can\nclaim it, unless you grant it again before.",
            zone::time(until)
        ),
        None => "Who is logged in sees it within 10 seconds.".to_owned(),
    };
    format!("{what}\n{who}\n")
}

/// The end of a licence with a subscription: what the operator says, or what the invoices say that
/// came before the grant, whichever is later.
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

/// Finds the organization, and fails if it may not have the tier.
async fn with_room(tx: &mut Tx, name: &str, arguments: &GrantArguments, when: When) -> Result<Org> {
    let tier = arguments.tier;
    let org = orgs::find(tx, name).await?.with_context(|| no_org(name))?;
    let customer = Customer {
        owner: org.owner_id,
        subscription_id: arguments.subscription.as_deref(),
    };
    check_orgs(tier, &others(tx, &org, tier, customer, when).await?)?;
    // The granted licence is active, so only active licences of other organizations count.
    let licenses = licenses::of_org(tx, org.id).await?;
    let active = licenses.iter().filter(|license| when.is_active(license));
    let highest = active.map(|other| other.tier).chain([tier]).max();
    let members = orgs::members(tx, org.id).await?.len();
    check_seats(&org.name, highest, members)?;
    Ok(org)
}

/// The names of the customer's other organizations that have an active licence of the tier.
pub async fn others(
    tx: &mut Tx,
    org: &Org,
    tier: Tier,
    customer: Customer<'_>,
    when: When,
) -> sql::Result<Vec<String>> {
    let licenses = licenses::of_customers_others(tx, org.id, tier, customer).await?;
    let active = licenses.iter().filter(|license| when.is_active(license));
    let mut names: Vec<String> = active.filter_map(|license| license.org.clone()).collect();
    names.dedup();
    Ok(names)
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

impl Change {
    /// The name of this change as the audit has it.
    fn action(self) -> &'static str {
        match self {
            Change::Revoke => "license.revoked",
            Change::Suspend => "license.suspended",
            Change::Resume => "license.resumed",
        }
    }
}

async fn change(settings: &Settings, chosen: Chosen, change: Change) -> Result<()> {
    let when = When::now(settings)?;
    let (id, now) = (chosen.id, when.now);
    let db = database(settings).await?;
    let author = chosen.operator.author(settings, &db).await?;
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let done = match change {
        Change::Revoke => licenses::revoke(&mut tx, id, now).await?,
        Change::Suspend => licenses::suspend(&mut tx, id, now).await?,
        Change::Resume => licenses::resume(&mut tx, id, now).await?,
    };
    let Some(license) = licenses::find(&mut tx, id).await? else {
        bail!("there is no licence {id} here; `waybill licenses list` shows them");
    };
    let state = state(&license, when);
    if !done {
        bail!("licence {id} is {state}; nothing was changed");
    }
    if matches!(change, Change::Resume) {
        check_resumed(&mut tx, &license, when).await?;
    }
    let by = author.by(now);
    by.note(&mut tx, change.action(), id, json!({"tier": license.tier}))
        .await?;
    tx.commit().await?;
    db.close().await;
    table::print(&format!(
        "Licence {id} of {} is {state}.\n",
        owner(&license, now)
    ))
}

/// Checks the limits when a licence is resumed. While it was suspended it did not count for its
/// customer, so another organization may have a licence in its place.
async fn check_resumed(tx: &mut Tx, license: &License, when: When) -> Result<()> {
    let Some(name) = license.org.as_ref().filter(|_| when.is_active(license)) else {
        return Ok(());
    };
    let org = orgs::find(tx, name).await?.with_context(|| no_org(name))?;
    let customer = Customer {
        owner: org.owner_id,
        subscription_id: license.subscription_id.as_deref(),
    };
    let others = others(tx, &org, license.tier, customer, when).await?;
    Ok(check_orgs(license.tier, &others)?)
}

/// A licence as a list shows it.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    license: &'a License,
    /// `active`, `expired`, `suspended`, `revoked`
    status: &'static str,
    /// Until when it stays active after its end, for a licence with a subscription.
    grace_until: Option<Timestamp>,
    /// It belongs to nobody, and nobody can claim it.
    unclaimable: bool,
}

impl<'a> Listed<'a> {
    fn of(license: &'a License, when: When) -> Self {
        let candidate = license.candidate(when.grace);
        Listed {
            license,
            status: status(license, when),
            grace_until: candidate.and_then(|candidate| candidate.grace_until()),
            unclaimable: license.is_unclaimable(when.now),
        }
    }
}

async fn list(settings: &Settings, all: bool, unclaimable: bool, json: bool) -> Result<()> {
    let when = When::now(settings)?;
    let db = database(settings).await?;
    let licenses = licenses::list(&db).await?;
    db.close().await;
    let licenses: Vec<License> = licenses
        .into_iter()
        .filter(|license| all || license.revoked_at.is_none())
        .filter(|license| !unclaimable || license.is_unclaimable(when.now))
        .collect();
    if json {
        let listed = licenses.iter().map(|license| Listed::of(license, when));
        return table::print_json(&listed.collect::<Vec<_>>());
    }
    let mut table = Table::new(["LICENCE", "TIER", "STATE", "OF", "UNTIL", "SUBSCRIPTION"]);
    for license in &licenses {
        table.row([
            license.id.to_string(),
            license.tier.to_string(),
            state(license, when),
            owner(license, when.now),
            until(license, when),
            license
                .subscription_id
                .clone()
                .unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table::print(&table.render())
}

async fn show(settings: &Settings, named: &Named, json: bool) -> Result<()> {
    let when = When::now(settings)?;
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
        let listed = licenses.iter().map(|license| Listed::of(license, when));
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
    if json {
        return table::print_json(&TERMS);
    }
    let most = |most: Option<u64>| most.map_or("unlimited".to_owned(), |most| most.to_string());
    let mut table = Table::new(["TIER", "RANK", "USERS", "ORGS", "PRICE", "FEATURES"]);
    for terms in TERMS {
        table.row([
            terms.tier.to_string(),
            terms.rank.to_string(),
            most(terms.max_users),
            most(terms.max_orgs),
            terms.price.to_owned(),
            terms.features.join(", "),
        ]);
    }
    table::print(&table.render())
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
    facts.row(["tier".into(), resolved.tier.to_string()]);
    facts.row(["status".into(), resolved.status.to_string()]);
    let org = resolved.org_name.clone();
    facts.row(["organization".into(), org.unwrap_or_else(|| "-".to_owned())]);
    facts.row(["why".into(), why(licenses, resolved, when)]);
    if let Some(until) = user.and_then(|user| user.claimable_until) {
        let at = zone::time(until);
        let what = if until > now {
            format!("by the first account that logs in with this login, until {at}")
        } else {
            format!("no longer, since {at}: grant again, or to `id:` and the account's number")
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
            state(license, when),
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

fn status(license: &License, when: When) -> &'static str {
    license
        .candidate(when.grace)
        .map_or("revoked", |candidate| candidate.status(when.now).as_str())
}

/// The status in words for people; it also says if the licence is active only because of the
/// grace.
fn state(license: &License, when: When) -> String {
    let candidate = license.candidate(when.grace);
    let is_in_grace = candidate.is_some_and(|candidate| candidate.is_in_grace(when.now));
    let status = status(license, when);
    if is_in_grace {
        format!("{status}, in grace")
    } else {
        status.to_owned()
    }
}

fn owner(license: &License, now: Timestamp) -> String {
    match (&license.org, &license.user, license.provider_id) {
        (Some(org), ..) => format!("organization {org}"),
        (None, Some(login), Some(id)) => format!("{login} ({id})"),
        (None, Some(login), None) if license.is_unclaimable(now) => {
            format!("{login} (nobody can claim it)")
        }
        (None, Some(login), None) => format!("{login} (not seen yet)"),
        (None, None, _) => "-".to_owned(),
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
