//! The `orgs` and `org_members` tables. Waybill manages the members itself, because the scopes
//! that it requests from the identity provider do not list organizations.

use serde::Serialize;
use unicode_normalization::UnicodeNormalization as _;

use crate::sql::{Db, FromRow, Result, Tx};
use crate::users::users;
use domain::license::{OrgId, UserId};
use domain::time::Timestamp;
use platform::clock::Clock;

use super::users::{self, Named, User};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct Org {
    pub id: OrgId,
    pub name: String,
    pub owner_id: Option<UserId>,
    pub created_at: Timestamp,
}

/// Makes an organization. None when one with this name exists; case does not matter.
pub async fn create(
    tx: &mut Tx,
    clock: &Clock,
    name: &str,
    owner: Option<UserId>,
) -> Result<Option<Org>> {
    tx.query(
        "insert into orgs (id, name, name_key, owner_id, created_at)
         values ($1, $2, $3, $4, $5) on conflict (name_key) do nothing
         returning id, name, owner_id, created_at",
    )
    .bind(clock.id())
    .bind(composed(name))
    .bind(key(name))
    .bind(owner)
    .bind(clock.now().0)
    .first(Org::from_row)
    .await
}

pub async fn find(tx: &mut Tx, name: &str) -> Result<Option<Org>> {
    tx.query("select id, name, owner_id, created_at from orgs where name_key = $1")
        .bind(key(name))
        .first(Org::from_row)
        .await
}

/// Gives an organization another name. False when another one has it.
pub async fn rename(tx: &mut Tx, org: OrgId, name: &str) -> Result<bool> {
    tx.query(
        "update orgs set name = $2, name_key = $3
         where id = $1 and not exists (
             select 1 from orgs as others where others.name_key = $3 and others.id <> $1
         )",
    )
    .bind(org)
    .bind(composed(name))
    .bind(key(name))
    .changed_one()
    .await
}

/// Removes an organization, with its licences and memberships. The caller holds `licenses::lock`.
pub async fn remove(tx: &mut Tx, org: OrgId) -> Result<()> {
    for statement in [
        "delete from org_members where org_id = $1",
        "delete from licenses where org_id = $1",
        "delete from orgs where id = $1",
    ] {
        tx.query(statement).bind(org).execute().await?;
    }
    Ok(())
}

/// The name with each letter and its accents as one character, where there is one: both ways to write it look
/// the same.
fn composed(name: &str) -> String {
    name.nfc().collect()
}

/// What names that look the same have in common, by which organizations are sorted.
pub fn key(name: &str) -> String {
    composed(name).to_lowercase()
}

/// Organizations by name, those whose key comes after this one.
pub async fn page(db: &Db, after: &str, limit: i64) -> Result<Vec<Org>> {
    db.query(
        "select id, name, owner_id, created_at from orgs
         where name_key > $1 order by name_key limit $2",
    )
    .bind(after)
    .bind(limit)
    .all(Org::from_row)
    .await
}

/// The owner of an organization.
pub async fn owner(tx: &mut Tx, org: &Org) -> Result<Option<User>> {
    let Some(owner) = org.owner_id else {
        return Ok(None);
    };
    tx.query(users!("from users where users.id = $1"))
        .bind(owner)
        .first(User::from_row)
        .await
}

/// Makes a user the owner of an organization, in place of its former owner.
pub async fn set_owner(tx: &mut Tx, org: OrgId, owner: UserId) -> Result<()> {
    tx.query("update orgs set owner_id = $2 where id = $1")
        .bind(org)
        .bind(owner)
        .done()
        .await
}

/// The members, by login.
pub async fn members(tx: &mut Tx, org: OrgId) -> Result<Vec<User>> {
    tx.query(users!(
        "from org_members join users on users.id = org_members.user_id
         where org_members.org_id = $1 order by users.login, users.id"
    ))
    .bind(org)
    .all(User::from_row)
    .await
}

/// The member that an operator names. This may also be an invitation that lost its login while it
/// was being added: nothing else finds it, and it takes a seat.
pub async fn member(tx: &mut Tx, org: OrgId, named: &Named) -> Result<Option<User>> {
    let members = members(tx, org).await?;
    let found = users::find(tx, named).await?;
    let person = members
        .iter()
        .find(|member| found.as_ref().is_some_and(|user| user.id == member.id));
    let lost = members.iter().find(|member| {
        let Named::Login(login) = named else {
            return false;
        };
        member.provider_id.is_none()
            && !member.holds_login
            && member.login.eq_ignore_ascii_case(login)
    });
    Ok(person.or(lost).cloned())
}

/// Adds a member. False when the person is a member already.
pub async fn add_member(tx: &mut Tx, org: OrgId, user: UserId, now: Timestamp) -> Result<bool> {
    tx.query(
        "insert into org_members (org_id, user_id, added_at) values ($1, $2, $3)
         on conflict (org_id, user_id) do nothing",
    )
    .bind(org)
    .bind(user)
    .bind(now.0)
    .changed_one()
    .await
}

/// Removes a member. False when the person was not a member.
pub async fn remove_member(tx: &mut Tx, org: OrgId, user: UserId) -> Result<bool> {
    tx.query("delete from org_members where org_id = $1 and user_id = $2")
        .bind(org)
        .bind(user)
        .changed_one()
        .await
}
