//! The `licenses` table. A licence belongs to a person or to an organization. A revoked licence
//! does not count, and is kept to be shown.
//!
//! Seats are counted under [`lock`], so that two operators who grant licences or add members at
//! the same time cannot both take the last seat.

use std::time::Duration;

use serde::Serialize;

use crate::sql::{Db, FromRow, Result, Row, Tx};
use domain::license::{Candidate, LicenseId, OrgId, Tier, UserId};
use domain::time::Timestamp;
use platform::clock::Clock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    User(UserId),
    Org(OrgId),
}

/// A licence to be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    pub tier: Tier,
    pub owner: Owner,
    /// None for a licence that never ends.
    pub expires_at: Option<Timestamp>,
    pub subscription_id: Option<&'a str>,
    /// The price, product or item of the subscription that carries the tier. None: the whole of it.
    pub subscription_item: Option<&'a str>,
}

/// A licence as it is stored, with the name of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct License {
    pub id: LicenseId,
    pub tier: Tier,
    /// The login of the person who has the licence.
    #[column("login")]
    pub user: Option<String>,
    /// The provider's number of that person's account. None before the first login.
    pub provider_id: Option<i64>,
    /// While the owner is an invitation by login: until when somebody can claim it.
    pub claimable_until: Option<Timestamp>,
    /// The name of the organization that has the licence.
    #[column("org_name")]
    pub org: Option<String>,
    #[with(is_suspended)]
    pub suspended: bool,
    pub expires_at: Option<Timestamp>,
    pub subscription_id: Option<String>,
    /// The price, product or item of the subscription that carries the tier. None: the whole of it.
    pub subscription_item: Option<String>,
    pub granted_at: Timestamp,
    pub updated_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

impl License {
    /// True when the licence was granted to an invitation that nobody can claim any more, so it
    /// belongs to nobody.
    pub fn is_unclaimable(&self, now: Timestamp) -> bool {
        self.claimable_until.is_some_and(|until| until <= now)
    }

    /// The subscription that extends it, with the item of it that carries the tier: `sub_1/price_2`.
    pub fn paid_by(&self) -> Option<String> {
        let id = self.subscription_id.as_ref()?;
        Some(match &self.subscription_item {
            None => id.clone(),
            Some(item) => format!("{id}/{item}"),
        })
    }

    /// The licence as a candidate that competes with others, with the grace period for one that a
    /// subscription extends. None for a revoked licence.
    pub fn candidate(&self, grace: Duration) -> Option<Candidate> {
        self.revoked_at.is_none().then(|| Candidate {
            id: self.id,
            tier: self.tier,
            org_name: self.org.clone(),
            suspended: self.suspended,
            expires_at: self.expires_at,
            grace: self
                .subscription_id
                .as_ref()
                .map_or(Duration::ZERO, |_| grace),
        })
    }
}

fn is_suspended(row: &Row) -> Result<bool> {
    Ok(row.get::<String>("status")? == "suspended")
}

/// Makes all other grants and additions wait until the transaction ends.
pub async fn lock(tx: &mut Tx) -> Result<()> {
    tx.query(
        "insert into license_changes (id, revision) values (1, 1)
         on conflict (id) do update set revision = license_changes.revision + 1",
    )
    .done()
    .await
}

/// Grants a licence, whatever other licences its owner has; the best one counts. A caller who
/// would rather extend an existing licence finds it with [`of_owner`].
pub async fn grant(tx: &mut Tx, clock: &Clock, grant: &Grant<'_>) -> Result<LicenseId> {
    let id = clock.id();
    let (user, org) = match grant.owner {
        Owner::User(user) => (Some(user), None),
        Owner::Org(org) => (None, Some(org)),
    };
    tx.query(
        "insert into licenses (id, tier, user_id, org_id, status, expires_at, subscription_id,
                               subscription_item, granted_at, updated_at)
         values ($1, $2, $3, $4, 'active', $5, $6, $8, $7, $7)",
    )
    .bind(id)
    .bind(grant.tier.into_str())
    .bind(user)
    .bind(org)
    .bind(grant.expires_at.map(|at| at.0))
    .bind(grant.subscription_id)
    .bind(clock.now().0)
    .bind(grant.subscription_item)
    .execute()
    .await?;
    Ok(id)
}

/// Revokes a licence. False when there is none with this id, or when it was revoked before.
pub async fn revoke(tx: &mut Tx, id: LicenseId, now: Timestamp) -> Result<bool> {
    const CHANGE: &str = "update licenses set revoked_at = $2, updated_at = $2
                         where id = $1 and revoked_at is null";
    tx.query(CHANGE).bind(id).bind(now.0).changed_one().await
}

/// Suspends a licence. False when there is none with this id that is active and not revoked.
pub async fn suspend(tx: &mut Tx, id: LicenseId, now: Timestamp) -> Result<bool> {
    const CHANGE: &str = "update licenses set status = 'suspended', updated_at = $2
                         where id = $1 and status = 'active' and revoked_at is null";
    tx.query(CHANGE).bind(id).bind(now.0).changed_one().await
}

/// Ends a suspension. False when there is no licence with this id that is suspended and not
/// revoked.
pub async fn resume(tx: &mut Tx, id: LicenseId, now: Timestamp) -> Result<bool> {
    const CHANGE: &str = "update licenses set status = 'active', updated_at = $2
                         where id = $1 and status = 'suspended' and revoked_at is null";
    tx.query(CHANGE).bind(id).bind(now.0).changed_one().await
}

/// The items of a subscription that licences name.
pub async fn items_of(tx: &mut Tx, subscription_id: &str) -> Result<Vec<String>> {
    tx.query(
        "select distinct subscription_item from licenses
         where subscription_id = $1 and subscription_item is not null and revoked_at is null
         order by subscription_item",
    )
    .bind(subscription_id)
    .all(|row| row.get("subscription_item"))
    .await
}

/// Extends the licences of a subscription, or of one of its items, that was paid until `until`. None of them is shortened,
/// and one that never ends stays so. A suspended licence is extended too and stays suspended. A revoked licence is left alone.
pub async fn extend(
    tx: &mut Tx,
    (subscription_id, item): (&str, Option<&str>),
    until: Timestamp,
    now: Timestamp,
) -> Result<()> {
    tx.query(
        "update licenses set expires_at = $2, updated_at = $3
         where subscription_id = $1 and revoked_at is null and expires_at < $2
           and coalesce(subscription_item, '') = coalesce($4, '')",
    )
    .bind(subscription_id)
    .bind(until.0)
    .bind(now.0)
    .bind(item)
    .done()
    .await
}

/// Shortens the licences that end where the subscription or its item did. What an operator has lengthened stays.
pub async fn shorten(
    tx: &mut Tx,
    (subscription_id, item): (&str, Option<&str>),
    was: Timestamp,
    until: Timestamp,
    now: Timestamp,
) -> Result<()> {
    tx.query(
        "update licenses set expires_at = $3, updated_at = $4
         where subscription_id = $1 and revoked_at is null and expires_at = $2
           and coalesce(subscription_item, '') = coalesce($5, '')",
    )
    .bind(subscription_id)
    .bind(was.0)
    .bind(until.0)
    .bind(now.0)
    .bind(item)
    .done()
    .await
}

/// Extends a licence that was granted again. None for `until` means that it never ends. The
/// caller holds [`lock`], so nobody shortens the licence in the meantime.
pub async fn lengthen(
    tx: &mut Tx,
    id: LicenseId,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Result<()> {
    let query = match until {
        Some(until) => tx
            .query(
                "update licenses set expires_at = $3, updated_at = $2
                 where id = $1 and revoked_at is null and expires_at < $3",
            )
            .bind(id)
            .bind(now.0)
            .bind(until.0),
        None => tx
            .query(
                "update licenses set expires_at = null, updated_at = $2
                 where id = $1 and revoked_at is null",
            )
            .bind(id)
            .bind(now.0),
    };
    query.done().await
}

/// The beginning of a statement that reads licences with what [`License::from_row`] needs: those of
/// persons, of organizations, or of both.
macro_rules! licenses {
    (persons) => {
        licenses!("users.login, users.provider_id, users.claimable_until, null as org_name")
    };
    (orgs) => {
        licenses!(
            "null as login, null as provider_id, null as claimable_until, orgs.name as org_name"
        )
    };
    (both) => {
        licenses!("users.login, users.provider_id, users.claimable_until, orgs.name as org_name")
    };
    ($owner:literal) => {
        concat!(
            "select licenses.id, licenses.tier, licenses.status, licenses.expires_at,
                    licenses.subscription_id, licenses.subscription_item, licenses.granted_at, licenses.updated_at,
                    licenses.revoked_at, ",
            $owner,
            " "
        )
    };
}

/// One licence.
pub async fn find(tx: &mut Tx, id: LicenseId) -> Result<Option<License>> {
    tx.query(concat!(
        licenses!(both),
        "from licenses
         left join users on users.id = licenses.user_id
         left join orgs on orgs.id = licenses.org_id
         where licenses.id = $1"
    ))
    .bind(id)
    .first(License::from_row)
    .await
}

/// Every licence, the oldest first.
pub async fn list(db: &Db) -> Result<Vec<License>> {
    db.query(concat!(
        licenses!(both),
        "from licenses
         left join users on users.id = licenses.user_id
         left join orgs on orgs.id = licenses.org_id
         order by licenses.id"
    ))
    .all(License::from_row)
    .await
}

/// One licence, for reading alone.
pub async fn show(db: &Db, id: LicenseId) -> Result<Option<License>> {
    db.query(concat!(
        licenses!(both),
        "from licenses
         left join users on users.id = licenses.user_id
         left join orgs on orgs.id = licenses.org_id
         where licenses.id = $1"
    ))
    .bind(id)
    .first(License::from_row)
    .await
}

/// Which licences are listed.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Also those that were revoked.
    pub revoked: bool,
    /// Only those that nobody can claim any more at this time.
    pub unclaimable_at: Option<Timestamp>,
}

/// The newest licences that match and were granted before this one.
pub async fn page(db: &Db, filter: Filter, before: LicenseId, limit: i64) -> Result<Vec<License>> {
    db.query(concat!(
        licenses!(both),
        "from licenses
         left join users on users.id = licenses.user_id
         left join orgs on orgs.id = licenses.org_id
         where licenses.id < $1 and ($3 = 1 or licenses.revoked_at is null)
           and ($4 is null or users.claimable_until <= $4)
         order by licenses.id desc limit $2"
    ))
    .bind(before)
    .bind(limit)
    .bind(i64::from(filter.revoked))
    .bind(filter.unclaimable_at)
    .all(License::from_row)
    .await
}

/// The licences that a subscription extends, the newest first, at most `limit`.
pub async fn of_subscription(db: &Db, subscription: &str, limit: i64) -> Result<Vec<License>> {
    db.query(concat!(
        licenses!(both),
        "from licenses
         left join users on users.id = licenses.user_id
         left join orgs on orgs.id = licenses.org_id
         where licenses.subscription_id = $1
         order by licenses.id desc limit $2"
    ))
    .bind(subscription)
    .bind(limit)
    .all(License::from_row)
    .await
}

/// The licences of a person and of the person's organizations, including revoked ones.
pub async fn of_user(db: &Db, user: UserId) -> Result<Vec<License>> {
    db.query(concat!(
        licenses!(persons),
        "from licenses join users on users.id = licenses.user_id
         where licenses.user_id = $1
         union all
         ",
        licenses!(orgs),
        "from org_members
         join orgs on orgs.id = org_members.org_id
         join licenses on licenses.org_id = orgs.id
         where org_members.user_id = $1"
    ))
    .bind(user)
    .all(License::from_row)
    .await
}

/// The licences that decide a person's tier.
pub async fn candidates(db: &Db, user: UserId, grace: Duration) -> Result<Vec<Candidate>> {
    let licenses = of_user(db, user).await?;
    Ok(licenses
        .iter()
        .filter_map(|license| license.candidate(grace))
        .collect())
}

/// The licences of an owner that were not revoked.
pub async fn of_owner(tx: &mut Tx, owner: Owner) -> Result<Vec<License>> {
    match owner {
        Owner::Org(org) => of_org(tx, org).await,
        Owner::User(user) => of_user_alone(tx, user).await,
    }
}

async fn of_user_alone(tx: &mut Tx, user: UserId) -> Result<Vec<License>> {
    tx.query(concat!(
        licenses!(persons),
        "from licenses join users on users.id = licenses.user_id
         where licenses.user_id = $1 and licenses.revoked_at is null
         order by licenses.id"
    ))
    .bind(user)
    .all(License::from_row)
    .await
}

/// The licences of an organization that were not revoked.
pub async fn of_org(tx: &mut Tx, org: OrgId) -> Result<Vec<License>> {
    tx.query(concat!(
        licenses!(orgs),
        "from licenses join orgs on orgs.id = licenses.org_id
         where licenses.org_id = $1 and licenses.revoked_at is null
         order by licenses.id"
    ))
    .bind(org)
    .all(License::from_row)
    .await
}

/// The customer for whom organizations are counted together: the one who pays for them (by
/// subscription) or who owns them.
#[derive(Clone, Copy)]
pub struct Customer<'a> {
    pub owner: Option<UserId>,
    pub subscription_id: Option<&'a str>,
}

/// The licences of this tier that other organizations of the same customer have and that were not
/// revoked. Expired and suspended ones are included.
pub async fn of_customers_others(
    tx: &mut Tx,
    org: OrgId,
    tier: Tier,
    customer: Customer<'_>,
) -> Result<Vec<License>> {
    tx.query(concat!(
        licenses!(orgs),
        "from licenses join orgs on orgs.id = licenses.org_id
         where orgs.id <> $1 and licenses.tier = $2 and licenses.revoked_at is null
           and (licenses.subscription_id = $3 or orgs.owner_id = $4)
         order by orgs.name, licenses.id"
    ))
    .bind(org)
    .bind(tier.into_str())
    .bind(customer.subscription_id)
    .bind(customer.owner)
    .all(License::from_row)
    .await
}
