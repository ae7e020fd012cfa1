//! Licence tiers, which of a person's licences counts, and how many seats and organizations each
//! tier covers (docs/login.md). Pure.
//!
//! The period of a subscription ends before the next one is paid: the provider charges an hour
//! later, and keeps trying for days when that fails. So a licence that a subscription extends
//! stays active for a grace period (`LICENSE_GRACE_DAYS`) after its end. No other licence has a
//! grace period.
//!
//! Which licence counts does not depend on the sequence in which they are read: active licences
//! come before inactive ones, then the higher rank, then a personal licence before an
//! organization's, and then names and ids decide.

use std::cmp::Reverse;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::names::{Unknown, unknown};
use crate::time::Timestamp;

pub type LicenseId = Uuid;
pub type OrgId = Uuid;
/// Waybill's own id of a user. The identity provider's number of an account is a `provider_id`.
pub type UserId = Uuid;

/// What a licence is for, lowest first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unknown::<Tier>)]
pub enum Tier {
    Free,
    Alpha,
    Pro,
    Enterprise,
}

impl Tier {
    pub const ALL: [Tier; 4] = *Tier::VARIANTS.as_array().unwrap();

    pub fn terms(self) -> &'static Terms {
        match self {
            Tier::Free => &TERMS[0],
            Tier::Alpha => &TERMS[1],
            Tier::Pro => &TERMS[2],
            Tier::Enterprise => &TERMS[3],
        }
    }

    pub fn rank(self) -> u8 {
        self.terms().rank
    }

    pub fn max_users(self) -> Option<u64> {
        self.terms().max_users
    }

    pub fn max_orgs(self) -> Option<u64> {
        self.terms().max_orgs
    }
}

/// What a tier has, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TierTerms)]
pub struct Terms {
    pub tier: Tier,
    /// Of someone's tiers the one with the highest rank counts.
    #[schema(example = 3)]
    pub rank: u8,
    #[schema(value_type = Vec<String>)]
    pub features: &'static [&'static str],
    /// How many members an organization with this tier may have. None: any number.
    #[schema(example = 25)]
    pub max_users: Option<u64>,
    /// How many organizations one customer may have with this tier. None: any number.
    #[schema(example = 3)]
    pub max_orgs: Option<u64>,
    /// As people read it.
    #[schema(example = "$199/mo")]
    pub price: &'static str,
}

/// Every tier, the lowest first. This is the only table of what the tiers have and cost.
pub const TERMS: [Terms; 4] = [
    Terms {
        tier: Tier::Free,
        rank: 1,
        features: &["Basic templates", "CLI access"],
        max_users: Some(1),
        max_orgs: Some(0),
        price: "$0/mo",
    },
    Terms {
        tier: Tier::Alpha,
        rank: 2,
        features: &["All templates", "priority support", "alpha features"],
        max_users: Some(5),
        max_orgs: Some(1),
        price: "invite-only",
    },
    Terms {
        tier: Tier::Pro,
        rank: 3,
        features: &["All features", "custom templates", "integration support"],
        max_users: Some(25),
        max_orgs: Some(3),
        price: "$199/mo",
    },
    Terms {
        tier: Tier::Enterprise,
        rank: 4,
        features: &["Unlimited", "on-premise", "dedicated support", "SLA"],
        max_users: None,
        max_orgs: None,
        price: "custom",
    },
];

/// What a licence is worth now. In the order in which equals are preferred.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    ToSchema,
    Display,
    IntoStaticStr,
)]
#[schema(as = LicenseStatus)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Status {
    Active,
    Expired,
    Suspended,
}

impl Status {
    /// The tier that a person may use with a licence of `tier`. A licence that is not active
    /// gives only the free tier, which everyone has.
    pub fn usable(self, tier: Tier) -> Tier {
        match self {
            Status::Active => tier,
            Status::Expired | Status::Suspended => Tier::Free,
        }
    }
}

/// A licence that a person has, personally or through an organization, and that was not revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: LicenseId,
    pub tier: Tier,
    /// The name of the organization that has the licence. None for a personal licence.
    pub org_name: Option<String>,
    pub suspended: bool,
    /// None for a licence that never ends.
    pub expires_at: Option<Timestamp>,
    /// How long the licence stays active after its end. Zero for a licence that no subscription
    /// extends.
    pub grace: Duration,
}

impl Candidate {
    /// When the grace period ends, if the licence has one.
    pub fn grace_until(&self) -> Option<Timestamp> {
        let grace = Some(self.grace).filter(|grace| !grace.is_zero())?;
        Some(self.expires_at?.plus(grace))
    }

    /// True when the licence is active only because of its grace period.
    pub fn is_in_grace(&self, now: Timestamp) -> bool {
        self.status(now) == Status::Active && self.expires_at.is_some_and(|at| at <= now)
    }

    /// The licence's status. A suspended licence is reported as suspended even when its time has
    /// run out too.
    pub fn status(&self, now: Timestamp) -> Status {
        let end = self.expires_at.map(|at| at.plus(self.grace));
        if self.suspended {
            Status::Suspended
        } else if end.is_some_and(|at| at <= now) {
            Status::Expired
        } else {
            Status::Active
        }
    }
}

/// What a person may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub tier: Tier,
    pub status: Status,
    /// The organization's name, when the tier comes from an organization's licence.
    pub org_name: Option<String>,
    pub why: Why,
}

/// Why a person has a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The person has no licence, and everyone has `free`.
    NoLicense,
    /// This licence decided.
    License(LicenseId),
}

/// The tier of a person who has these licences.
pub fn resolve(candidates: &[Candidate], now: Timestamp) -> Resolved {
    let winner = candidates.iter().min_by_key(|candidate| {
        let status = candidate.status(now);
        (
            status != Status::Active,
            Reverse(candidate.tier.rank()),
            candidate.org_name.is_some(),
            status,
            candidate.org_name.as_deref(),
            candidate.id,
        )
    });
    match winner {
        None => Resolved {
            tier: Tier::Free,
            status: Status::Active,
            org_name: None,
            why: Why::NoLicense,
        },
        Some(winner) => Resolved {
            tier: winner.tier,
            status: winner.status(now),
            org_name: winner.org_name.clone(),
            why: Why::License(winner.id),
        },
    }
}

/// Why a licence cannot be granted or a member cannot be added, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error(
        "{org} would have {members} members and {tier} has seats for {seats}; remove members \
         or grant a higher tier"
    )]
    Seats {
        org: String,
        tier: Tier,
        seats: u64,
        members: u64,
    },
    #[error("{0} is for persons; grant an organization alpha, pro or enterprise")]
    PersonsOnly(Tier),
    #[error(
        "{tier} covers {most} of a customer's organizations, which it does already: {others}; \
         revoke one of those licences or grant a higher tier"
    )]
    Orgs {
        tier: Tier,
        most: u64,
        others: String,
    },
}

/// The tier that decides how many seats an organization with these licences has, which is also
/// the tier that its members get from them. None when there is no licence.
pub fn seats_tier(candidates: &[Candidate], now: Timestamp) -> Option<Tier> {
    let resolved = resolve(candidates, now);
    (resolved.why != Why::NoLicense).then_some(resolved.tier)
}

/// How many seats an organization lacks for its members. There can be more members than seats,
/// because members stay when a licence ends. Zero without a licence.
pub fn seats_lacking(tier: Option<Tier>, members: usize) -> u64 {
    let seats = tier.and_then(Tier::max_users);
    seats.map_or(0, |seats| (members as u64).saturating_sub(seats))
}

/// Checks that an organization with this tier may have this many members. Without a licence any
/// number is allowed.
pub fn check_seats(org: &str, tier: Option<Tier>, members: usize) -> Result<(), NoRoom> {
    match tier.and_then(|tier| Some((tier, tier.max_users()?))) {
        Some((tier, seats)) if seats_lacking(Some(tier), members) > 0 => Err(NoRoom::Seats {
            org: org.to_owned(),
            tier,
            seats,
            members: members as u64,
        }),
        _ => Ok(()),
    }
}

/// Checks that a customer whose organizations in `others` already have the tier may have it for
/// one more organization.
pub fn check_orgs(tier: Tier, others: &[String]) -> Result<(), NoRoom> {
    match tier.max_orgs() {
        Some(0) => Err(NoRoom::PersonsOnly(tier)),
        Some(most) if others.len() as u64 >= most => Err(NoRoom::Orgs {
            tier,
            most,
            others: others.join(", "),
        }),
        _ => Ok(()),
    }
}
