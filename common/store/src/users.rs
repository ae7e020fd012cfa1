//! The `users` table. A person is known by the identity provider's number of the account
//! (`provider_id`). A login is only the name that the account had when it was last seen.
//!
//! An operator may name a person by login before that person's first login. This makes an
//! invitation, which is a row without a number. The first account that appears with the login
//! claims the invitation and everything that was granted to it. From then on the number decides:
//! a person who renames the account keeps the licences, and a person who takes the old login gets
//! none of them. An account cannot claim an invitation if it cannot be the one that was meant:
//! 1. An account that we saw before the invitation. If it had had the login then, the grant would
//!    have been made to the account.
//! 2. An account that was made after the invitation. The former owner had given up the login by
//!    then.
//! 3. An account for which the provider does not say when it was made.
//! 4. Any account after [`CLAIM_PERIOD`].
//!
//! A person whom an operator also named by number, before the first login, has two rows. What was
//! given to the invitation then goes to the row with the number, if the account could have
//! claimed the invitation.
//!
//! An account that was renamed after we last saw it is not found by its new login. What is
//! granted to the new login makes an invitation, which this account does not claim, by rule 1.
//!
//! To name the login again renews an invitation that can still be claimed. An invitation that
//! lapsed is made anew: the grants to the old one belong to nobody any more and its seats are
//! free, but its organizations go to the new invitation, because an organization's owner only
//! decides which limits count. If an account comes too late but could otherwise have claimed the
//! invitation, the organizations go to that account.
//!
//! One gap remains: an older account, unknown to us, may take a login that its owner gave up in
//! between. Where the provider is asked who has the login now (`operators::accounts`), there is no
//! invitation and no gap.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::audit::By;
use crate::sql::{Db, Error, FromRow, Result, Tx};
use domain::account::Account;
use domain::license::UserId;
use domain::time::Timestamp;
use platform::clock::Clock;

use super::licenses;

/// How long an invitation by login can be claimed.
pub const CLAIM_PERIOD: Duration = Duration::from_hours(30 * 24);

/// How long somebody is remembered who has no licence and does not come back.
pub const KEPT: Duration = Duration::from_hours(365 * 24);

/// The time at which somebody was last seen is stored with this precision.
const SEEN_NOTED: Duration = Duration::from_hours(24);

/// A person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct User {
    pub id: UserId,
    /// None for a person who was invited by login and was not seen yet.
    pub provider_id: Option<i64>,
    pub login: String,
    /// False when another account has been seen with the login since.
    #[present("login_key")]
    pub holds_login: bool,
    /// For an invitation: until when it can be claimed.
    pub claimable_until: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
}

/// How an operator names a person: by login, `octocat`, or by the provider's number, `id:583231`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Login(String),
    ProviderId(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be a login like octocat, or id: and the number of the account, like id:583231")]
pub struct NotAName;

impl FromStr for Named {
    type Err = NotAName;

    fn from_str(text: &str) -> std::result::Result<Self, NotAName> {
        if let Some(id) = text.strip_prefix("id:") {
            let id = id.parse().ok().filter(|id| *id > 0);
            return id.map(Named::ProviderId).ok_or(NotAName);
        }
        let login = text.strip_prefix('@').unwrap_or(text);
        let fits = (1..=100).contains(&login.len())
            && login
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        fits.then(|| Named::Login(login.to_owned())).ok_or(NotAName)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Login(login) => f.write_str(login),
            Named::ProviderId(id) => write!(f, "id:{id}"),
        }
    }
}

/// Written as `octocat (1)`, and for an invitation as `octocat (not seen yet)`.
impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provider_id {
            Some(id) => write!(f, "{} ({id})", self.login),
            None => write!(f, "{} (not seen yet)", self.login),
        }
    }
}

/// A statement that reads persons with what a [`User`] has.
macro_rules! users {
    ($which:literal) => {
        concat!(
            "select users.id, users.provider_id, users.login, users.login_key,
                    users.claimable_until, users.seen_at ",
            $which
        )
    };
}
pub(super) use users;

const BY_LOGIN: &str = users!("from users where login_key = $1");
const BY_PROVIDER_ID: &str = users!("from users where provider_id = $1");

/// The person that an operator names, if we know one.
pub async fn find(tx: &mut Tx, named: &Named) -> Result<Option<User>> {
    let query = match named {
        Named::Login(login) => tx.query(BY_LOGIN).bind(key(login)),
        Named::ProviderId(id) => tx.query(BY_PROVIDER_ID).bind(*id),
    };
    query
        .fetch_optional()
        .await?
        .as_ref()
        .map(User::from_row)
        .transpose()
}

/// The person that an operator names. Someone we do not know is invited, an invitation that can
/// be claimed is renewed, and an invitation that nobody claimed in time is made anew.
pub async fn find_or_invite(tx: &mut Tx, clock: &Clock, named: &Named) -> Result<User> {
    let now = clock.now();
    let mut lapsed = None;
    if let Some(user) = find(tx, named).await? {
        renew(tx, user.id, now).await?;
    }
    // The row is read again, because it was renewed, or claimed just now.
    if let Some(user) = find(tx, named).await? {
        if user.provider_id.is_some() || user.claimable_until.is_some_and(|until| until > now) {
            return Ok(user);
        }
        // What was granted to the lapsed invitation cannot be claimed with the new one.
        lapsed = give_up_login(tx, &key(&user.login), now).await?;
    }
    let (login, login_key, provider_id, claimable_until) = match named {
        Named::Login(login) => {
            let until = now.plus(CLAIM_PERIOD).0;
            (login.clone(), Some(key(login)), None, Some(until))
        }
        // The login is not known before the account is seen, so the number stands in its place.
        Named::ProviderId(id) => (format!("#{id}"), None, Some(*id), None),
    };
    tx.query(
        "insert into users (id, provider_id, login, login_key, claimable_until, created_at)
         values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(clock.id())
    .bind(provider_id)
    .bind(login)
    .bind(login_key)
    .bind(claimable_until)
    .bind(now.0)
    .execute()
    .await?;
    let user = find(tx, named).await?.ok_or(Error::RowNotFound)?;
    if let Some(lapsed) = lapsed {
        give_orgs(tx, lapsed.id, user.id).await?;
    }
    Ok(user)
}

/// Gives an invitation the full [`CLAIM_PERIOD`] again. The time when it was made does not
/// change, so an account that is younger than the invitation still cannot claim it. An invitation
/// that lapsed is left alone.
async fn renew(tx: &mut Tx, invitation: UserId, now: Timestamp) -> Result<()> {
    tx.query(
        "update users set claimable_until = $2
         where id = $1 and provider_id is null and claimable_until > $3",
    )
    .bind(invitation)
    .bind(now.plus(CLAIM_PERIOD).0)
    .bind(now.0)
    .done()
    .await
}

/// The person of an account that was seen before, found by the account's number alone. This
/// writes nothing, so it can be used for an account from a cache, whose login may belong to
/// somebody else by now.
pub async fn known(db: &Db, provider_id: i64) -> Result<Option<UserId>> {
    let row = db.query(BY_PROVIDER_ID).bind(provider_id).fetch_optional();
    row.await?.map(|row| row.get("id")).transpose()
}

/// The person of an account that was just seen: a known person, one who claims an invitation, or
/// a new one. Nothing is written if nothing has changed, but for the time, once a day.
pub async fn seen(db: &Db, clock: &Clock, account: &Account) -> Result<UserId> {
    let row = db.query(BY_PROVIDER_ID).bind(account.provider_id);
    if let Some(row) = row.fetch_optional().await? {
        let user = User::from_row(&row)?;
        let seen_at = user.seen_at.unwrap_or(Timestamp(0));
        let is_noted = clock.now().since(seen_at) < SEEN_NOTED;
        if user.login == account.login && user.holds_login && is_noted {
            return Ok(user.id);
        }
    }
    match save_alone(db, clock, account).await {
        // Another replica has inserted somebody with this login at this moment. Where that is the same account,
        // PostgreSQL may find that its login is taken before it finds whose row it is. By now that row is there.
        Err(Error::Database(error)) if error.is_unique_violation() => {
            save_alone(db, clock, account).await
        }
        saved => saved,
    }
}

async fn save_alone(db: &Db, clock: &Clock, account: &Account) -> Result<UserId> {
    let mut tx = db.begin().await?;
    let id = save(&mut tx, clock, account).await?;
    tx.commit().await?;
    Ok(id)
}

/// The person of an account of which the provider has just said that it has this login.
pub async fn see(tx: &mut Tx, clock: &Clock, account: &Account) -> Result<User> {
    save(tx, clock, account).await?;
    let user = find(tx, &Named::ProviderId(account.provider_id)).await?;
    user.ok_or(Error::RowNotFound)
}

async fn save(tx: &mut Tx, clock: &Clock, account: &Account) -> Result<UserId> {
    let now = clock.now();
    let login_key = key(&account.login);
    let known = find(tx, &Named::ProviderId(account.provider_id)).await?;
    match &known {
        None if claim(tx, account, now).await? => {
            let claimed = find(tx, &Named::ProviderId(account.provider_id)).await?;
            return Ok(claimed.ok_or(Error::RowNotFound)?.id);
        }
        Some(user) if user.seen_at.is_none() => merge(tx, account, user.id, now).await?,
        _ => {}
    }
    let is_new = known.as_ref().is_none_or(|user| user.seen_at.is_none());
    let lapsed = give_up_login(tx, &login_key, now).await?;
    // Another replica may have inserted the account just now. Then its row is updated.
    let row = tx
        .query(
            "insert into users (id, provider_id, login, login_key, created_at, seen_at)
             values ($1, $2, $3, $4, $5, $5)
             on conflict (provider_id) do update
             set login = excluded.login, login_key = excluded.login_key,
                 seen_at = excluded.seen_at
             returning id",
        )
        .bind(clock.id())
        .bind(account.provider_id)
        .bind(account.login.as_str())
        .bind(login_key)
        .bind(now.0)
        .fetch_one()
        .await?;
    let id = row.get("id")?;
    let is_meant = |lapsed: &Lapsed| {
        account
            .made_at
            .is_some_and(|made| made <= lapsed.invited_at)
    };
    if let Some(lapsed) = lapsed.filter(|lapsed| is_new && is_meant(lapsed)) {
        give_orgs(tx, lapsed.id, id).await?;
    }
    Ok(id)
}

/// Lets the account claim the invitation by its login. False when there is none that it can
/// claim.
async fn claim(tx: &mut Tx, account: &Account, now: Timestamp) -> Result<bool> {
    let Some(made_at) = account.made_at else {
        return Ok(false);
    };
    tx.query(
        "update users set provider_id = $1, login = $2, seen_at = $3, claimable_until = null
         where login_key = $4 and provider_id is null
           and claimable_until > $3 and created_at >= $5",
    )
    .bind(account.provider_id)
    .bind(account.login.as_str())
    .bind(now.0)
    .bind(key(&account.login))
    .bind(made_at.0)
    .changed_one()
    .await
}

/// Moves what was given to the invitation by this login to the person whom an operator named by
/// number, if the account could have claimed the invitation. The invitation is deleted.
async fn merge(tx: &mut Tx, account: &Account, person: UserId, now: Timestamp) -> Result<()> {
    let Some(made_at) = account.made_at else {
        return Ok(());
    };
    // With this lock, a grant to the invitation in another transaction is either finished now, or
    // finds no invitation afterwards.
    licenses::lock(tx).await?;
    let row = tx
        .query(
            "update users set login_key = null
             where login_key = $1 and provider_id is null
               and claimable_until > $2 and created_at >= $3
             returning id",
        )
        .bind(key(&account.login))
        .bind(now.0)
        .bind(made_at.0)
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(()) };
    let invitation: UserId = row.get("id")?;
    give_orgs(tx, invitation, person).await?;
    for statement in [
        "update licenses set user_id = $2 where user_id = $1",
        "update org_members set user_id = $2
         where user_id = $1
           and org_id not in (select org_id from org_members where user_id = $2)",
    ] {
        let query = tx.query(statement).bind(invitation);
        query.bind(person).execute().await?;
    }
    for statement in [
        "delete from org_members where user_id = $1",
        "delete from users where id = $1",
    ] {
        tx.query(statement).bind(invitation).execute().await?;
    }
    Ok(())
}

/// Forgets a person, with licences and memberships. The caller holds [`licenses::lock`], so nothing is granted
/// meanwhile.
pub async fn forget(tx: &mut Tx, user: UserId) -> Result<()> {
    for statement in [
        "update orgs set owner_id = null where owner_id = $1",
        "update api_keys set account = null
         where account = (select provider_id from users where id = $1)",
        "delete from org_members where user_id = $1",
        "delete from licenses where user_id = $1",
        "delete from users where id = $1",
    ] {
        tx.query(statement).bind(user).execute().await?;
    }
    Ok(())
}

/// Persons who were not seen since a time and have had no licence since then, neither of their own nor through
/// an organization. One whose account names a key is an operator.
const UNSEEN: &str = "select id from users
    where coalesce(seen_at, created_at) <= $1
      and not exists (select 1 from org_members where org_members.user_id = users.id)
      and not exists (select 1 from orgs where orgs.owner_id = users.id)
      and not exists (select 1 from api_keys where api_keys.account = users.provider_id)
      and not exists (
          select 1 from licenses
          where licenses.user_id = users.id and licenses.revoked_at is null
            and (licenses.expires_at is null or licenses.expires_at > $1)
      )
    order by coalesce(seen_at, created_at)
    limit $2";

/// Forgets at most `limit` persons without a licence who were not seen within [`KEPT`], with an entry in the audit
/// for each.
pub async fn forget_unseen(db: &Db, by: By<'_>, limit: i64) -> Result<u64> {
    let since = by.now.minus(KEPT).0;
    if !db.query(UNSEEN).bind(since).bind(1_i64).is_any().await? {
        return Ok(0);
    }
    let mut tx = db.begin().await?;
    licenses::lock(&mut tx).await?;
    let unseen = tx.query(UNSEEN).bind(since).bind(limit);
    let unseen: Vec<UserId> = unseen.all(|row| row.get("id")).await?;
    for id in &unseen {
        forget(&mut tx, *id).await?;
    }
    for id in &unseen {
        let details = json!({"unseen_since": Timestamp(since)});
        by.note(&mut tx, "user.forgotten", id, details).await?;
    }
    tx.commit().await?;
    Ok(unseen.len() as u64)
}

/// An invitation that nobody can claim any more.
#[derive(FromRow)]
struct Lapsed {
    id: UserId,
    #[column("created_at")]
    invited_at: Timestamp,
}

/// Takes the login away from the row that has it. If that row was an invitation, nobody can claim
/// it any more and it takes no seat; it is returned.
async fn give_up_login(tx: &mut Tx, login_key: &str, now: Timestamp) -> Result<Option<Lapsed>> {
    tx.query(
        "delete from org_members where user_id in
         (select id from users where login_key = $1 and provider_id is null)",
    )
    .bind(login_key)
    .execute()
    .await?;
    let row = tx
        .query(
            "update users
             set login_key = null,
                 claimable_until = case when claimable_until > $2 then $2
                                        else claimable_until end
             where login_key = $1
             returning id, provider_id, created_at",
        )
        .bind(login_key)
        .bind(now.0)
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(None) };
    if !row.is_null("provider_id")? {
        return Ok(None);
    }
    Lapsed::from_row(&row).map(Some)
}

/// Makes one user the owner of all organizations of another.
async fn give_orgs(tx: &mut Tx, from: UserId, to: UserId) -> Result<()> {
    tx.query("update orgs set owner_id = $2 where owner_id = $1")
        .bind(from)
        .bind(to)
        .done()
        .await
}

/// The login in lower case, because the provider compares logins without regard to case.
fn key(login: &str) -> String {
    login.to_lowercase()
}
