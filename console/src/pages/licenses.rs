//! Licences: who has which tier, and until when. A person is named by the number of the account, never by the login.

use axum::response::Response;
use lists::deeds::licenses::{Grant, Resume, Revoke, Suspend};
use lists::orgs::Organizations;
use lists::people::{self, Licenses, ListedLicense};
use lists::shown::Cell;
use operators::licenses::When;
use store::licenses::{self, License};

use crate::access::{Reader, Visit};
use crate::act::Act;
use crate::deed;
use crate::error::Error;
use crate::listing;
use crate::pages::object::Object;

const HERE: &str = "/licenses";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let list = Licenses {
        grace: visit.license_grace(),
        has_logins: false,
    };
    let mut listing = listing::read(&visit, &list).await?.listing;
    listing.acts = vec![deed::act::<Grant, _>(&visit, "", None)];
    Ok(listing.answer(&visit))
}

/// Organizations, whose members have their licences.
pub async fn organizations(visit: Visit<Reader>) -> Result<Response, Error> {
    let list = Organizations {
        grace: visit.license_grace(),
        has_logins: false,
    };
    Ok(listing::read(&visit, &list).await?.listing.answer(&visit))
}

/// A licence as the console shows it: a person is named by the number of the account, and never by the login.
pub fn listed<R>(visit: &Visit<R>, mut license: License) -> ListedLicense {
    license.user = None;
    ListedLicense::of(license, when(visit))
}

fn when<R>(visit: &Visit<R>) -> When {
    When {
        now: visit.now(),
        grace: visit.license_grace(),
    }
}

async fn named(visit: &Visit<Reader>) -> Result<License, Error> {
    let id = visit.id()?;
    let found = licenses::show(visit.db(), id).await?;
    found.ok_or(Error::Unknown("licence"))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let it = listed(&visit, named(&visit).await?);
    let id = it.license.id;
    let object = Object {
        here: HERE,
        kind: "Licence",
        title: format!("{} of {}", it.license.tier, it.owner),
        facts: vec![
            ("State", people::license_state(&it)),
            ("Tier", Cell::text(it.license.tier.to_string())),
            ("Of", Cell::text(it.owner.as_str())),
            ("Until", Cell::maybe_time(it.license.expires_at)),
            ("With grace until", Cell::maybe_time(it.grace_until)),
            (
                "Can be claimed until",
                Cell::maybe_time(it.license.claimable_until),
            ),
            ("Subscription", people::subscription(&it.license)),
            ("Granted", Cell::time(it.license.granted_at)),
            ("Changed", Cell::time(it.license.updated_at)),
            ("Revoked", Cell::maybe_time(it.license.revoked_at)),
            ("Licence", Cell::code(id.to_string())),
        ],
        acts: acts(&visit, &it.license),
        commands: vec![("List all", "waybill licenses list --all".to_owned())],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

fn acts(visit: &Visit<Reader>, it: &License) -> Vec<Act> {
    let id = it.id.to_string();
    if it.revoked_at.is_some() {
        return Vec::new();
    }
    let change = if it.suspended {
        deed::act::<Resume, _>(visit, &id, None)
    } else {
        deed::act::<Suspend, _>(visit, &id, None)
    };
    vec![change, deed::act::<Revoke, _>(visit, &id, None)]
}
