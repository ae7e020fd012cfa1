//! The list of organizations.

use domain::license::{Tier, UserId, seats_lacking};
use domain::time::Timestamp;
use operators::licenses::When;
use serde::Serialize;
use store::sql::Db;
use store::users::User;
use store::{licenses, orgs};
use uuid::Uuid;

use crate::shown::Cell;
use crate::{Any, Column, Error, Extent, List, Page, Wanted, column, lesser, sentence};

/// Organizations, their members and seats.
#[derive(Clone, Copy, Debug)]
pub struct Organizations {
    /// How long a subscription's licence stays active after its end.
    pub grace: std::time::Duration,
    /// Without it people are named by the numbers of their accounts alone.
    pub has_logins: bool,
}

/// An organization with what counts for its seats.
#[derive(Clone, Debug, Serialize)]
pub struct Organization {
    pub id: Uuid,
    pub name: String,
    pub owner_id: Option<UserId>,
    pub owner: Option<User>,
    pub created_at: Timestamp,
    /// The tiers of its licences that are not revoked.
    pub tiers: Vec<Tier>,
    pub members: Vec<User>,
    /// How many members the tier that counts allows. Null: any number.
    pub seats: Option<u64>,
    /// How many members have no seat.
    pub seats_over: u64,
    #[serde(skip)]
    has_logins: bool,
}

impl List for Organizations {
    type Filter = Any;
    type Row = Organization;

    const PAGE: &'static str = "/orgs";
    const COMMAND: &'static str = "orgs list";
    const TITLE: &'static str = "Organizations";
    const ABOUT: &'static str = "By name. Members have the organization's licences.";
    const EMPTY: &'static str = "No organizations.";
    const MAKE: Option<&'static str> = Some("waybill orgs create NAME");
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<Organization>] = &[
        column("Organization", |it| Cell::text(it.name.as_str())),
        column("Owner", |it| {
            let owner = it.owner.as_ref();
            owner.map_or(Cell::None, |owner| Cell::text(it.person(owner)))
        }),
        column("Tiers", |it| {
            let tiers: Vec<&str> = it.tiers.iter().map(Tier::into_str).collect();
            Cell::text(tiers.join(", "))
        }),
        column("Seats", |it| Cell::text(it.taken())),
        lesser("Made", |it| Cell::time(it.created_at)),
        sentence("Members", |it| {
            let members: Vec<String> = it.members.iter().map(|user| it.person(user)).collect();
            Cell::text(members.join(", "))
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        _: &Any,
        wanted: Wanted<'_>,
    ) -> Result<Page<Organization>, Error> {
        let when = When {
            now: wanted.now,
            grace: self.grace,
        };
        let after = wanted.after.unwrap_or_default();
        let found = orgs::page(db, after, wanted.rows()).await?;
        let mut tx = db.snapshot().await?;
        let mut rows = Vec::with_capacity(found.len());
        for org in found {
            let mut owner = orgs::owner(&mut tx, &org).await?;
            let mut members = orgs::members(&mut tx, org.id).await?;
            if !self.has_logins {
                let people = members.iter_mut().chain(&mut owner);
                people.for_each(hide);
                members.sort_by_key(|it| (it.provider_id, it.id));
            }
            let licenses = licenses::of_org(&mut tx, org.id).await?;
            let counting = when.seats_tier(&licenses);
            rows.push(Organization {
                id: org.id,
                name: org.name,
                owner_id: org.owner_id,
                owner,
                created_at: org.created_at,
                tiers: licenses.iter().map(|license| license.tier).collect(),
                seats: counting.and_then(Tier::max_users),
                seats_over: seats_lacking(counting, members.len()),
                members,
                has_logins: self.has_logins,
            });
        }
        tx.rollback().await?;
        Ok(Page::full(rows, wanted, |it| orgs::key(&it.name)))
    }
}

/// Leaves the number of the account alone.
fn hide(person: &mut User) {
    person.login.clear();
    (person.seen_at, person.claimable_until) = (None, None);
}

impl Organization {
    fn person(&self, user: &User) -> String {
        match user.provider_id {
            _ if self.has_logins => user.to_string(),
            Some(id) => format!("account {id}"),
            None => "somebody who was not seen yet".to_owned(),
        }
    }

    /// How many seats are taken, of how many.
    fn taken(&self) -> String {
        let over = match self.seats_over {
            0 => String::new(),
            over => format!(" ({over} over)"),
        };
        format!("{}/{}{over}", self.members.len(), seats(self.seats))
    }
}

/// A number of seats in words.
pub fn seats(most: Option<u64>) -> String {
    most.map_or("unlimited".to_owned(), |most| most.to_string())
}
