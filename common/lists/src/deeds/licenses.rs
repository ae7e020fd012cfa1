//! What is done to licences.

use std::time::Duration;

use domain::api_key::Role;
use domain::license::{LicenseId, Tier};
use domain::time::Timestamp;
use operators::licenses::{self as flow, Change, Granted, Outcome, To, Wanted, When};
use platform::zone;
use serde_json::json;
use store::licenses::{self, License};
use store::users::Named;

use super::{About, CHANGED, Deed, Desk, Done, Looked, Refused, Site};
use crate::people::{ListedLicense, license_state, owner};
use crate::shown::Cell;
use crate::words;

const GRANTED: &str = "The licence was granted. Who is logged in sees it within ten seconds.";
const SUSPENDED: &str = "The licence is suspended. It does not count until it is resumed.";
const RESUMED: &str = "The licence counts again.";
const REVOKED: &str = "The licence was revoked for good.";

/// Grant a licence to a person or an organization
///
/// If the owner already has an active licence of this tier and subscription, no second one is made; the licence is
/// lengthened if the grant is for longer.
///
/// The identity provider is asked which account has the login now, and the licence stays with that account when it is
/// renamed. If the provider cannot be asked, the licence of a person who has not logged in yet belongs to the first
/// account that logs in with this login within 30 days; granting again begins the 30 days anew. To name an account
/// without doubt, give `id:` and the account's number, which the provider shows for every account.
#[derive(Clone, Debug, clap::Args)]
pub struct Grant {
    /// A person: a login, or `id:` and the number of the account. A login that nobody has used yet can claim
    /// the licence within 30 days
    #[arg(long, required_unless_present = "org", conflicts_with = "org")]
    pub user: Option<Named>,
    /// An organization, made with `waybill orgs create`
    #[arg(long, value_name = "NAME")]
    pub org: Option<String>,
    /// The tier; `waybill licenses tiers` says what each has
    #[arg(long, value_parser = words::tier())]
    pub tier: Tier,
    /// The licence ends after this many days. Without days and a time it never ends
    #[arg(long, conflicts_with = "until", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: Option<u32>,
    /// The licence ends then: a day, which means its end in UTC, or a time like
    /// 2027-01-31T12:00:00+01:00
    #[arg(long, value_name = "DAY|TIME", value_parser = Timestamp::end_of)]
    pub until: Option<Timestamp>,
    /// The payment provider's subscription whose paid invoices extend the licence
    #[arg(long, value_name = "ID")]
    pub subscription: Option<String>,
    /// The price, product or item of that subscription that carries the tier, if it has several
    #[arg(long, value_name = "ID", requires = "subscription")]
    pub item: Option<String>,
}

fn page(id: LicenseId) -> String {
    format!("/licenses/{id}")
}

fn when(site: &Site<'_>) -> Result<When, Refused> {
    Ok(When {
        now: site.now,
        grace: site.configured.license_grace()?,
    })
}

impl From<flow::Refused> for Refused {
    fn from(refused: flow::Refused) -> Self {
        match refused {
            flow::Refused::Unknown(_) => Refused::Unknown("licence", refused.to_string()),
            flow::Refused::Unchanged(id, _) => Refused::Changed(page(id), refused.to_string()),
            flow::Refused::Over => Refused::Wrong("until: it is over already".to_owned()),
            flow::Refused::Unpaid(_) => Refused::Wrong(format!("{refused}, with days or until")),
            flow::Refused::Database(error) => error.into(),
            refused => Refused::Impossible(refused.to_string()),
        }
    }
}

impl Deed for Grant {
    const ABOUT: About = About::new("licenses grant", Role::Operator, "Grant a licence")
        .like("--user LOGIN --tier TIER --days DAYS")
        .asks("Grant a licence", "Grant it")
        .undone_by("licenses revoke");
    const SAYS: &'static [&'static str] = &[GRANTED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let to = match (&self.user, &self.org) {
            (Some(user), _) => To::User(user),
            (None, Some(org)) => To::Org(org),
            (None, None) => {
                let why = "name a person or an organization";
                return Err(Refused::Wrong(why.to_owned()));
            }
        };
        let provider = desk.site.configured.identity_provider()?;
        let days = |days| {
            desk.asked_at
                .plus(Duration::from_hours(u64::from(days) * 24))
        };
        let wanted = Wanted {
            to,
            provider: provider.as_ref(),
            tier: self.tier,
            expires_at: self.until.or(self.days.map(days)),
            subscription: self.subscription.as_deref(),
            item: self.item.as_deref(),
        };
        let (db, when) = (desk.site.db, when(&desk.site)?);
        let granted = flow::grant(db, desk.by, desk.clock, &wanted, when).await?;
        let says = match granted.outcome {
            Outcome::Granted | Outcome::Lengthened => GRANTED,
            Outcome::Unchanged => CHANGED,
        };
        let json = json!({
            "id": granted.id, "tier": self.tier, "owner": granted.owner,
            "expires_at": granted.expires_at, "outcome": granted.outcome,
            "claimable_until": granted.claimable_until, "doubt": granted.doubt,
        });
        let done = Done::new(says, page(granted.id), json);
        Ok(done.text(summary(&granted, self.tier)))
    }
}

fn summary(granted: &Granted, tier: Tier) -> String {
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

/// Suspend a licence until it is resumed
///
/// It does not count meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub struct Suspend {
    /// The id of the licence, from `waybill licenses list`
    pub id: LicenseId,
}

impl Deed for Suspend {
    const ABOUT: About = About::new("licenses suspend", Role::Operator, "Suspend")
        .of("id")
        .undone_by("licenses resume");
    const SAYS: &'static [&'static str] = &[SUSPENDED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Suspend, SUSPENDED).await
    }
}

/// Make a suspended licence active again
#[derive(Clone, Debug, clap::Args)]
pub struct Resume {
    /// The id of the licence, from `waybill licenses list`
    pub id: LicenseId,
}

impl Deed for Resume {
    const ABOUT: About = About::new("licenses resume", Role::Operator, "Resume")
        .of("id")
        .undone_by("licenses suspend");
    const SAYS: &'static [&'static str] = &[RESUMED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Resume, RESUMED).await
    }
}

/// End a licence for good
///
/// It counts no more within ten seconds, and cannot be resumed.
#[derive(Clone, Debug, clap::Args)]
pub struct Revoke {
    /// The id of the licence, from `waybill licenses list`
    pub id: LicenseId,
}

impl Deed for Revoke {
    const ABOUT: About = About::new("licenses revoke", Role::Operator, "Revoke")
        .of("id")
        .asks("Revoke this licence for good?", "Revoke it for good")
        .for_good();
    const SAYS: &'static [&'static str] = &[REVOKED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        let it = listed(site, target).await?;
        Ok(Looked {
            facts: vec![
                ("Of", Cell::text(it.owner.as_str())),
                ("Tier", Cell::text(it.license.tier.to_string())),
                ("State", license_state(&it)),
                ("Until", Cell::maybe_time(it.license.expires_at)),
            ],
            ..Looked::default()
        })
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Revoke, REVOKED).await
    }
}

/// The licence with this id. A person is named by the number of the account, and never by the login.
async fn listed(site: &Site<'_>, id: &str) -> Result<ListedLicense, Refused> {
    let found = match id.parse() {
        Ok(id) => licenses::show(site.db, id).await?,
        Err(_) => None,
    };
    let unknown = || Refused::Unknown("licence", format!("there is no licence {id} here"));
    let license = found.ok_or_else(unknown)?;
    Ok(ListedLicense::of(
        License {
            user: None,
            ..license
        },
        when(site)?,
    ))
}

async fn change(
    desk: &Desk<'_>,
    id: LicenseId,
    change: Change,
    says: &'static str,
) -> Result<Done, Refused> {
    let when = when(&desk.site)?;
    let license = flow::change(desk.site.db, desk.by, id, change, when).await?;
    let (owner, state) = (owner(&license, when.now), when.state(&license));
    let json = json!({"id": id, "owner": owner, "state": state});
    let text = format!("Licence {id} of {owner} is {state}.\n");
    Ok(Done::new(says, page(id), json).text(text))
}
