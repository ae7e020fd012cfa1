//! `waybill orgs`: organizations and their members.

use anyhow::{Context, Result, bail};
use common::clock::{Clock, Timestamp};
use common::config::Settings;
use common::license::{Candidate, Tier, check_seats, seats_tier};
use common::sql::Db;
use common::store::licenses::{self, License};
use common::store::orgs;
use common::store::users::{self, Named};
use serde_json::{Value, json};

use crate::commands::licenses::no_org;
use crate::commands::{database, misused};
use crate::table::{self, Table};

const LONGEST_NAME: usize = 100;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make an organization
    Create {
        name: String,
        /// Whose it is: a login, or `id:` and the number of the account. A tier covers only so
        /// many organizations of one owner
        #[arg(long, value_name = "USER")]
        owner: Option<Named>,
    },
    /// Let a person have the organization's licences
    AddMember {
        org: String,
        /// A login, or `id:` and the number of the account
        user: Named,
    },
    /// Take the organization's licences from a person
    RemoveMember {
        org: String,
        /// A login, or `id:` and the number of the account
        user: Named,
    },
    /// List organizations, their members and seats
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    if let Command::Create { name, .. } = &command {
        check_name(name)?;
    }
    let db = database(settings).await?;
    match command {
        Command::Create { name, owner } => create(&db, &name, owner.as_ref()).await?,
        Command::AddMember { org, user } => add(&db, &org, &user).await?,
        Command::RemoveMember { org, user } => remove(&db, &org, &user).await?,
        Command::List { json } => list(&db, json).await?,
    }
    db.close().await;
    Ok(())
}

/// It is shown to its members and in tables.
fn check_name(name: &str) -> Result<()> {
    let fits = name.trim() == name
        && (1..=LONGEST_NAME).contains(&name.chars().count())
        && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(misused(format!(
        "the name of an organization is 1 to {LONGEST_NAME} characters, without line breaks or \
         spaces around it"
    )))
}

async fn create(db: &Db, name: &str, owner: Option<&Named>) -> Result<()> {
    let clock = Clock::system();
    let mut tx = db.begin().await?;
    let owner = match owner {
        Some(owner) => Some(users::find_or_invite(&mut tx, &clock, owner).await?.id),
        None => None,
    };
    let Some(org) = orgs::create(&mut tx, &clock, name, owner).await? else {
        bail!("there is an organization {name} already; choose another name");
    };
    tx.commit().await?;
    table::print(&format!(
        "Organization {0} is there. Next: waybill licenses grant --org '{0}' --tier pro, and\n\
         waybill orgs add-member '{0}' <login>\n",
        org.name
    ))
}

async fn add(db: &Db, name: &str, named: &Named) -> Result<()> {
    let clock = Clock::system();
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let org = orgs::find(&mut tx, name)
        .await?
        .with_context(|| no_org(name))?;
    let user = users::find_or_invite(&mut tx, &clock, named).await?;
    if !orgs::add_member(&mut tx, org.id, user.id, clock.now()).await? {
        bail!("{user} is a member of {} already", org.name);
    }
    let members = orgs::members(&mut tx, org.id).await?.len();
    let licenses = licenses::of_org(&mut tx, org.id).await?;
    let tier = tier(&licenses, clock.now());
    check_seats(&org.name, tier, members)?;
    tx.commit().await?;
    let seats = seats(tier);
    table::print(&format!(
        "{user} is a member of {}, which has {members} of {seats} seats taken.\n",
        org.name
    ))
}

async fn remove(db: &Db, name: &str, named: &Named) -> Result<()> {
    let mut tx = db.begin().await?;
    let org = orgs::find(&mut tx, name)
        .await?
        .with_context(|| no_org(name))?;
    let Some(member) = orgs::member(&mut tx, org.id, named).await? else {
        bail!(
            "{named} is no member of {}; `waybill orgs list` shows who is",
            org.name
        );
    };
    orgs::remove_member(&mut tx, org.id, member.id).await?;
    tx.commit().await?;
    table::print(&format!("{named} is no longer a member of {}.\n", org.name))
}

async fn list(db: &Db, json: bool) -> Result<()> {
    let now = Clock::system().now();
    let mut table = Table::new(["ORGANIZATION", "TIERS", "SEATS", "MEMBERS"]);
    let mut all: Vec<Value> = Vec::new();
    for org in orgs::list(db).await? {
        let mut tx = db.begin().await?;
        let members = orgs::members(&mut tx, org.id).await?;
        let licenses = licenses::of_org(&mut tx, org.id).await?;
        tx.rollback().await?;
        let names: Vec<String> = members.iter().map(ToString::to_string).collect();
        let tiers: Vec<Tier> = licenses.iter().map(|license| license.tier).collect();
        let shown: Vec<&str> = tiers.iter().map(|tier| tier.as_str()).collect();
        let or_none = |text: String| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text
            }
        };
        table.row([
            org.name.clone(),
            or_none(shown.join(", ")),
            format!("{}/{}", members.len(), seats(tier(&licenses, now))),
            or_none(names.join(", ")),
        ]);
        all.push(json!({
            "id": org.id, "name": org.name, "owner_id": org.owner_id,
            "created_at": org.created_at, "tiers": tiers, "members": members,
        }));
    }
    if json {
        return table::print_json(&all);
    }
    table::print(&table.render())
}

/// The tier that counts the seats.
fn tier(licenses: &[License], now: Timestamp) -> Option<Tier> {
    let candidates: Vec<Candidate> = licenses.iter().filter_map(License::candidate).collect();
    seats_tier(&candidates, now)
}

/// How many members the tier allows.
fn seats(tier: Option<Tier>) -> String {
    let most = tier.and_then(Tier::max_users);
    most.map_or("unlimited".to_owned(), |most| most.to_string())
}
