//! `waybill orgs` manages organizations and their members. The audit says who changed them.

use anyhow::{Result, bail};
use config::{Config, Settings};
use domain::license::{Tier, check_orgs, check_seats};
use lists::orgs::{Organizations, seats};
use operators::accounts::Meant;
use operators::licenses::{When, organization, others};
use platform::clock::Clock;
use providers::identity::IdentityProvider;
use serde_json::json;
use store::audit::By;
use store::licenses::{self, Customer};
use store::orgs;
use store::sql::Db;
use store::users::Named;

use crate::commands::operator::{Author, Operator};
use crate::commands::{misused, with_database};
use crate::table::{self, Listed};

const LONGEST_NAME: usize = 100;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make an organization
    Create {
        name: String,
        /// The owner: a login, or `id:` and the number of the account. Each tier has a limit of
        /// organizations for one owner
        #[arg(long, value_name = "USER")]
        owner: Option<Named>,
        #[command(flatten)]
        operator: Operator,
    },
    /// Give an organization another name
    Rename {
        org: String,
        name: String,
        #[command(flatten)]
        operator: Operator,
    },
    /// Remove an organization with its licences; its members remain
    Remove {
        org: String,
        /// Remove it even if one of its licences is active
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// Set the owner of an organization
    SetOwner(OrgAndUser),
    /// Make a person a member, who then has the organization's licences
    AddMember(OrgAndUser),
    /// Remove a member, who then no longer has the organization's licences
    RemoveMember(OrgAndUser),
    /// List organizations, their members and seats
    List(Listed<Organizations>),
}

#[derive(clap::Args)]
pub struct OrgAndUser {
    org: String,
    /// A login, or `id:` and the number of the account
    user: Named,
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    if let Command::Create { name, .. } | Command::Rename { name, .. } = &command {
        check_name(name)?;
    }
    let when = super::licenses::when(settings)?;
    with_database(settings, async |db| match command {
        Command::Create {
            name,
            owner,
            operator,
        } => {
            let author = operator.author(settings, db).await?;
            let provider = Config::identity_provider(settings)?;
            create(db, &author, &name, owner.as_ref(), provider.as_ref()).await
        }
        Command::Rename {
            org,
            name,
            operator,
        } => {
            let author = operator.author(settings, db).await?;
            rename(db, author.by(when.now), &org, &name).await
        }
        Command::Remove { org, yes, operator } => {
            let author = operator.author(settings, db).await?;
            remove_org(db, author.by(when.now), &org, yes, when).await
        }
        Command::SetOwner(of) => set_owner(settings, db, &of, when).await,
        Command::AddMember(of) => add(settings, db, &of, when).await,
        Command::RemoveMember(of) => remove(settings, db, &of).await,
        Command::List(listed) => {
            let list = Organizations {
                grace: when.grace,
                has_logins: true,
            };
            listed.print(db, &list).await
        }
    })
    .await
}

/// Checks the name of an organization, which is shown to its members and in tables.
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

async fn create(
    db: &Db,
    author: &Author,
    name: &str,
    owner: Option<&Named>,
    provider: Option<&IdentityProvider>,
) -> Result<()> {
    let clock = Clock::system();
    let owner = match owner {
        Some(owner) => Some(Meant::ask(db, &clock, provider, owner).await?),
        None => None,
    };
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let (mut owner_id, mut doubt) = (None, None);
    if let Some(owner) = owner {
        let person = owner.person(&mut tx, &clock).await?;
        (owner_id, doubt) = (Some(person.id), owner.doubt(&person));
    }
    let Some(org) = orgs::create(&mut tx, &clock, name, owner_id).await? else {
        bail!("there is an organization {name} already; choose another name");
    };
    let by = author.by(clock.now());
    by.note(
        &mut tx,
        "org.created",
        org.id,
        json!({"owner_id": owner_id}),
    )
    .await?;
    tx.commit().await?;
    table::print(&format!(
        "Organization {0} is there. Next: waybill licenses grant --org '{0}' --tier pro, and\n\
         waybill orgs add-member '{0}' <login>\n{1}",
        org.name,
        doubt.unwrap_or_default()
    ))
}

async fn rename(db: &Db, by: By<'_>, org: &str, name: &str) -> Result<()> {
    let mut tx = db.begin().await?;
    let org = organization(&mut tx, org).await?;
    if !orgs::rename(&mut tx, org.id, name).await? {
        bail!("there is an organization {name} already; choose another name");
    }
    by.note(&mut tx, "org.renamed", org.id, json!({})).await?;
    tx.commit().await?;
    table::print(&format!("Organization {} is named {name} now.\n", org.name))
}

async fn remove_org(db: &Db, by: By<'_>, org: &str, is_sure: bool, when: When) -> Result<()> {
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let org = organization(&mut tx, org).await?;
    let licenses = licenses::of_org(&mut tx, org.id).await?;
    let active = licenses.iter().filter(|it| when.is_active(it)).count();
    if active > 0 && !is_sure {
        bail!(
            "{} has licences that are active ({active}), which would go too: add --yes",
            org.name
        );
    }
    orgs::remove(&mut tx, org.id).await?;
    let details = json!({"active_licenses": active});
    by.note(&mut tx, "org.removed", org.id, details).await?;
    tx.commit().await?;
    table::print(&format!("Organization {} is removed.\n", org.name))
}

/// Sets the owner. The organization then counts among those of the new owner, so for each of its
/// active tiers the new owner's limit must have room.
async fn set_owner(settings: &Settings, db: &Db, of: &OrgAndUser, when: When) -> Result<()> {
    let author = of.operator.author(settings, db).await?;
    let clock = Clock::system();
    let provider = Config::identity_provider(settings)?;
    let meant = Meant::ask(db, &clock, provider.as_ref(), &of.user).await?;
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let org = organization(&mut tx, &of.org).await?;
    let owner = meant.person(&mut tx, &clock).await?;
    if org.owner_id == Some(owner.id) {
        bail!("{} is {owner}'s already; nothing was changed", org.name);
    }
    for license in licenses::of_org(&mut tx, org.id).await? {
        if !when.is_active(&license) {
            continue;
        }
        let customer = Customer {
            owner: Some(owner.id),
            subscription_id: None,
        };
        let others = others(&mut tx, &org, license.tier, customer, when).await?;
        check_orgs(license.tier, &others)?;
    }
    orgs::set_owner(&mut tx, org.id, owner.id).await?;
    let details = json!({"owner_id": owner.id, "owner_id_before": org.owner_id});
    let by = author.by(when.now);
    by.note(&mut tx, "org.owner_set", org.id, details).await?;
    tx.commit().await?;
    let doubt = meant.doubt(&owner).unwrap_or_default();
    table::print(&format!("{} is {owner}'s.\n{doubt}", org.name))
}

async fn add(settings: &Settings, db: &Db, of: &OrgAndUser, when: When) -> Result<()> {
    let author = of.operator.author(settings, db).await?;
    let clock = Clock::system();
    let provider = Config::identity_provider(settings)?;
    let meant = Meant::ask(db, &clock, provider.as_ref(), &of.user).await?;
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let org = organization(&mut tx, &of.org).await?;
    let user = meant.person(&mut tx, &clock).await?;
    if !orgs::add_member(&mut tx, org.id, user.id, when.now).await? {
        // The operator named the login again, which renews its invitation.
        tx.commit().await?;
        bail!("{user} is a member of {} already", org.name);
    }
    let members = orgs::members(&mut tx, org.id).await?.len();
    let licenses = licenses::of_org(&mut tx, org.id).await?;
    let tier = when.seats_tier(&licenses);
    check_seats(&org.name, tier, members)?;
    let by = author.by(when.now);
    by.note(
        &mut tx,
        "org.member_added",
        org.id,
        json!({"user_id": user.id}),
    )
    .await?;
    tx.commit().await?;
    let seats = seats(tier.and_then(Tier::max_users));
    let doubt = meant.doubt(&user).unwrap_or_default();
    table::print(&format!(
        "{user} is a member of {}, which has {members} of {seats} seats taken.\n{doubt}",
        org.name
    ))
}

async fn remove(settings: &Settings, db: &Db, of: &OrgAndUser) -> Result<()> {
    let author = of.operator.author(settings, db).await?;
    let named = &of.user;
    let mut tx = db.begin().await?;
    let org = organization(&mut tx, &of.org).await?;
    let Some(member) = orgs::member(&mut tx, org.id, named).await? else {
        bail!(
            "{named} is no member of {}; `waybill orgs list` shows who is",
            org.name
        );
    };
    orgs::remove_member(&mut tx, org.id, member.id).await?;
    let by = author.by(Clock::system().now());
    let details = json!({"user_id": member.id});
    by.note(&mut tx, "org.member_removed", org.id, details)
        .await?;
    tx.commit().await?;
    table::print(&format!("{named} is no longer a member of {}.\n", org.name))
}
