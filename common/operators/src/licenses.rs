//! How operators grant and change licences: each change with its entry in the audit.

use std::time::Duration;

use domain::license::{
    Candidate, LicenseId, NoRoom, Status, Tier, check_orgs, check_seats, seats_tier,
};
use domain::payment::subscription::Record;
use domain::time::Timestamp;
use platform::clock::Clock;
use providers::identity::IdentityProvider;
use serde::Serialize;
use serde_json::json;
use store::aggregates;
use store::audit::By;
use store::licenses::{self, Customer, Grant, License, Owner};
use store::orgs::{self, Org};
use store::sql::{self, Db, Tx};
use store::users::Named;

use crate::accounts::{Meant, Unclear};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("the licence would be over already")]
    Over,
    #[error(
        "no paid invoice of {0} is known, and a licence that never ends is not extended: say how long \
         it is paid for"
    )]
    Unpaid(String),
    #[error("there is no organization {0} here; make it with `waybill orgs create {0}`")]
    NoOrg(String),
    #[error("there is no licence {0} here; `waybill licenses list` shows them")]
    Unknown(LicenseId),
    #[error("licence {0} is {1}; nothing was changed")]
    Unchanged(LicenseId, String),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Person(#[from] Unclear),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// The current time, and how long a subscription's licence stays active after its end.
#[derive(Clone, Copy)]
pub struct When {
    pub now: Timestamp,
    pub grace: Duration,
}

impl When {
    pub fn is_active(self, license: &License) -> bool {
        let candidate = license.candidate(self.grace);
        candidate.is_some_and(|one| one.status(self.now) == Status::Active)
    }

    /// `active`, `expired`, `suspended` or `revoked`.
    pub fn status(self, license: &License) -> &'static str {
        license
            .candidate(self.grace)
            .map_or("revoked", |candidate| candidate.status(self.now).into_str())
    }

    /// The status in words for people; it also says if the licence is active only because of the
    /// grace.
    pub fn state(self, license: &License) -> String {
        let candidate = license.candidate(self.grace);
        let is_in_grace = candidate.is_some_and(|candidate| candidate.is_in_grace(self.now));
        let status = self.status(license);
        if is_in_grace {
            format!("{status}, in grace")
        } else {
            status.to_owned()
        }
    }

    /// The tier that decides how many seats an organization with these licences has.
    pub fn seats_tier(self, licenses: &[License]) -> Option<Tier> {
        let candidates: Vec<Candidate> = licenses
            .iter()
            .filter_map(|license| license.candidate(self.grace))
            .collect();
        seats_tier(&candidates, self.now)
    }
}

/// Whom a licence is granted to.
#[derive(Clone, Copy)]
pub enum To<'a> {
    User(&'a Named),
    /// The name of an organization.
    Org(&'a str),
}

/// A licence that somebody wants to grant.
pub struct Wanted<'a> {
    pub to: To<'a>,
    pub tier: Tier,
    /// The provider that says who has a login.
    pub provider: Option<&'a IdentityProvider>,
    /// None: it never ends, or as the subscription says.
    pub expires_at: Option<Timestamp>,
    pub subscription: Option<&'a str>,
    /// The price, product or item of the subscription that carries the tier.
    pub item: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Granted,
    /// The existing licence was lengthened.
    Lengthened,
    /// The existing licence already lasts as long as the grant.
    Unchanged,
}

pub struct Granted {
    pub id: LicenseId,
    /// Who has it, in words.
    pub owner: String,
    pub expires_at: Option<Timestamp>,
    pub outcome: Outcome,
    /// While the owner is an invitation by login: until when somebody can claim it.
    pub claimable_until: Option<Timestamp>,
    /// Why somebody else may be meant.
    pub doubt: Option<String>,
}

/// Grants a licence. If the owner already has an active licence of the same tier and subscription,
/// that one is lengthened instead, if the grant is for longer. A second licence would add nothing,
/// and an operator who revoked only one of the two would believe that the owner no longer has the
/// tier.
pub async fn grant(
    db: &Db,
    by: By<'_>,
    clock: &Clock,
    wanted: &Wanted<'_>,
    when: When,
) -> Result<Granted, Refused> {
    if wanted.expires_at.is_some_and(|at| at <= when.now) {
        return Err(Refused::Over);
    }
    let owner = match wanted.to {
        To::User(named) => Ok(Meant::ask(db, clock, wanted.provider, named).await?),
        To::Org(name) => Err(name),
    };
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let expires_at = match wanted.subscription {
        None => wanted.expires_at,
        Some(id) => Some(paid_until(&mut tx, (id, wanted.item), wanted.expires_at).await?),
    };
    let (owner, title, claimable_until, doubt) = match owner {
        Ok(meant) => {
            let user = meant.person(&mut tx, clock).await?;
            let (title, doubt) = (user.to_string(), meant.doubt(&user));
            (Owner::User(user.id), title, user.claimable_until, doubt)
        }
        Err(name) => {
            let org = with_room(&mut tx, name, wanted, when).await?;
            (Owner::Org(org.id), org.name, None, None)
        }
    };
    let grant = Grant {
        tier: wanted.tier,
        owner,
        expires_at,
        subscription_id: wanted.subscription,
        subscription_item: wanted.item,
    };
    let (id, expires_at, outcome) = give(&mut tx, clock, by, &grant, when).await?;
    tx.commit().await?;
    Ok(Granted {
        id,
        owner: title,
        expires_at,
        outcome,
        claimable_until,
        doubt,
    })
}

async fn give(
    tx: &mut Tx,
    clock: &Clock,
    by: By<'_>,
    wanted: &Grant<'_>,
    when: When,
) -> sql::Result<(LicenseId, Option<Timestamp>, Outcome)> {
    let known = licenses::of_owner(tx, wanted.owner).await?;
    let known = known.into_iter().find(|license| {
        license.tier == wanted.tier
            && license.subscription_id.as_deref() == wanted.subscription_id
            && license.subscription_item.as_deref() == wanted.subscription_item
            && when.is_active(license)
    });
    let (id, expires_at, outcome) = match known {
        None => {
            let id = licenses::grant(tx, clock, wanted).await?;
            (id, wanted.expires_at, Outcome::Granted)
        }
        Some(known) if is_longer(wanted.expires_at, known.expires_at) => {
            licenses::lengthen(tx, known.id, wanted.expires_at, when.now).await?;
            (known.id, wanted.expires_at, Outcome::Lengthened)
        }
        Some(known) => (known.id, known.expires_at, Outcome::Unchanged),
    };
    let action = match outcome {
        Outcome::Granted => "license.granted",
        Outcome::Lengthened => "license.lengthened",
        Outcome::Unchanged => return Ok((id, expires_at, outcome)),
    };
    let (user_id, org_id) = match wanted.owner {
        Owner::User(user) => (Some(user), None),
        Owner::Org(org) => (None, Some(org)),
    };
    let details = json!({
        "tier": wanted.tier, "user_id": user_id, "org_id": org_id,
        "expires_at": expires_at, "subscription_id": wanted.subscription_id,
        "subscription_item": wanted.subscription_item,
    });
    by.note(tx, action, id, details).await?;
    Ok((id, expires_at, outcome))
}

/// Whether the first end is later than the second. `None`: the licence never ends.
fn is_longer(one: Option<Timestamp>, other: Option<Timestamp>) -> bool {
    match (one, other) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(one), Some(other)) => one > other,
    }
}

/// The end of a licence with a subscription: what the operator says, or what the invoices say that
/// came before the grant, whichever is later.
async fn paid_until(
    tx: &mut Tx,
    (subscription, item): (&str, Option<&str>),
    said: Option<Timestamp>,
) -> Result<Timestamp, Refused> {
    let paid = aggregates::lock::<Record>(tx, vec![subscription.to_owned()]).await?;
    let paid = paid.get(subscription).and_then(|record| match item {
        None => record.paid_until(),
        Some(item) => record.paid_until_of(item),
    });
    said.max(paid.map(Timestamp::from_unix_seconds))
        .ok_or_else(|| {
            let of = item.map_or_else(String::new, |item| format!(" that bills {item}"));
            Refused::Unpaid(format!("{subscription}{of}"))
        })
}

/// Finds the organization, and fails if it may not have the tier.
async fn with_room(
    tx: &mut Tx,
    name: &str,
    wanted: &Wanted<'_>,
    when: When,
) -> Result<Org, Refused> {
    let tier = wanted.tier;
    let org = organization(tx, name).await?;
    let customer = Customer {
        owner: org.owner_id,
        subscription_id: wanted.subscription,
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

/// The organization with this name.
pub async fn organization(tx: &mut Tx, name: &str) -> Result<Org, Refused> {
    let found = orgs::find(tx, name).await?;
    found.ok_or_else(|| Refused::NoOrg(name.to_owned()))
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
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

/// Changes a licence, and returns it as it is then.
pub async fn change(
    db: &Db,
    by: By<'_>,
    id: LicenseId,
    change: Change,
    when: When,
) -> Result<License, Refused> {
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let now = when.now;
    let done = match change {
        Change::Revoke => licenses::revoke(&mut tx, id, now).await?,
        Change::Suspend => licenses::suspend(&mut tx, id, now).await?,
        Change::Resume => licenses::resume(&mut tx, id, now).await?,
    };
    let found = licenses::find(&mut tx, id).await?;
    let refused = match &found {
        None => Some(Refused::Unknown(id)),
        Some(license) if !done => Some(Refused::Unchanged(id, when.state(license))),
        Some(license) if change == Change::Resume => {
            check_resumed(&mut tx, license, when).await.err()
        }
        Some(_) => None,
    };
    let license = match (found, refused) {
        (Some(license), None) => license,
        (_, refused) => {
            tx.rollback().await?;
            return Err(refused.unwrap_or(Refused::Unknown(id)));
        }
    };
    by.note(&mut tx, change.action(), id, json!({"tier": license.tier}))
        .await?;
    tx.commit().await?;
    Ok(license)
}

/// Checks the limits when a licence is resumed. While it was suspended it did not count for its
/// customer, so another organization may have a licence in its place.
async fn check_resumed(tx: &mut Tx, license: &License, when: When) -> Result<(), Refused> {
    let Some(name) = license.org.as_ref().filter(|_| when.is_active(license)) else {
        return Ok(());
    };
    let org = organization(tx, name).await?;
    let customer = Customer {
        owner: org.owner_id,
        subscription_id: license.subscription_id.as_deref(),
    };
    let others = others(tx, &org, license.tier, customer, when).await?;
    Ok(check_orgs(license.tier, &others)?)
}
