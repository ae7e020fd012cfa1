//! Licences: who has which tier, and until when. And how one is granted, suspended, resumed and revoked. A person
//! is named by the number of the account, never by the login.

use crate::listing;
use axum::response::Response;
use domain::api_key::Role;
use domain::license::LicenseId;
use domain::time::Timestamp;
use lists::deeds::Grant;
use lists::form::Empty;
use lists::orgs::Organizations;
use lists::people::{self, Licenses, ListedLicense};
use operators::licenses::{self as flow, Change, Outcome, Refused, Wanted, When};
use store::licenses::{self, License};

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Question};
use crate::error::Error;
use crate::pages::object::Object;
use lists::shown::Cell;

const HERE: &str = "/licenses";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let list = Licenses {
        grace: visit.license_grace(),
        has_logins: false,
    };
    let mut listing = listing::read(&visit, &list).await?.listing;
    listing.acts = vec![Act::of(
        &visit,
        Role::Operator,
        "Give a person or an organization a tier.",
        Button::asks("Grant a licence", format!("{HERE}/grant")),
        "waybill licenses grant --tier TIER".to_owned(),
    )];
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

fn page(id: LicenseId) -> String {
    format!("{HERE}/{id}")
}

async fn named<R>(visit: &Visit<R>) -> Result<License, Error> {
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
    let act = act::of_one(visit, Role::Operator, "licenses", it.id);
    if it.revoked_at.is_some() {
        return Vec::new();
    }
    let change = if it.suspended {
        act("Make it active again.", "Resume", "resume", false)
    } else {
        act(
            "Let it not count until it is resumed.",
            "Suspend",
            "suspend",
            false,
        )
    };
    vec![
        change,
        act(
            "End it for good. A page asks first.",
            "Revoke",
            "revoke",
            true,
        ),
    ]
}

pub async fn ask_grant(visit: Visit<Operator>) -> Result<Response, Error> {
    let question = Question {
        here: HERE,
        title: "Grant a licence".to_owned(),
        about: vec![
            "Name a person or an organization. Whoever has an active licence of this tier gets no second one: \
             it is lengthened, if this one is for longer.",
        ],
        to: Some(format!("{HERE}/grant")),
        label: "Grant it",
        // The days are counted from now, however often the form is sent.
        fields: vec![("now", visit.now().0.to_string())],
        form: act::form::<Grant>(&[]),
        back: HERE.to_owned(),
        command: "waybill licenses grant --user LOGIN --tier TIER --days DAYS".to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn grant(write: Write<Operator>) -> Result<Response, Error> {
    let from: i64 = write.fields.read("now")?;
    let asked: Grant = write.fields.filled(Empty::LeftOut)?;
    let nobody = || Error::impossible("name a person or an organization");
    let parts = write.parts();
    let wanted = Wanted {
        to: asked.to().ok_or_else(nobody)?,
        tier: asked.tier,
        expires_at: asked.expires_at(Timestamp(from)),
        provider: parts.config.identity.as_ref(),
        subscription: asked.subscription.as_deref(),
        item: asked.item.as_deref(),
    };
    let granted = flow::grant(&parts.db, write.by(), &parts.clock, &wanted, when(&write)).await;
    let granted = granted.map_err(refused)?;
    let done = match granted.outcome {
        Outcome::Granted | Outcome::Lengthened => Done::Granted,
        Outcome::Unchanged => Done::Changed,
    };
    Ok(act::see(&page(granted.id), done))
}

fn refused(why: Refused) -> Error {
    match why {
        Refused::Unknown(_) => Error::Unknown("licence"),
        Refused::Database(error) => error.into(),
        why => Error::impossible(why),
    }
}

pub async fn suspend(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Suspend, Done::Suspended).await
}

pub async fn resume(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Resume, Done::LicenceResumed).await
}

pub async fn ask_revoke(visit: Visit<Operator>) -> Result<Response, Error> {
    let it = listed(&visit, named(&visit).await?);
    let id = it.license.id;
    let question = Question {
        here: HERE,
        title: "Revoke this licence for good?".to_owned(),
        about: vec!["It counts no more within ten seconds, and cannot be resumed."],
        facts: vec![
            ("Of", Cell::text(it.owner.as_str())),
            ("Tier", Cell::text(it.license.tier.to_string())),
            ("State", people::license_state(&it)),
            ("Until", Cell::maybe_time(it.license.expires_at)),
        ],
        to: Some(format!("{}/revoke", page(id))),
        label: "Revoke it for good",
        back: page(id),
        command: format!("waybill licenses revoke {id}"),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn revoke(write: Write<Operator>) -> Result<Response, Error> {
    change(&write, Change::Revoke, Done::LicenceRevoked).await
}

async fn change(write: &Write<Operator>, change: Change, done: Done) -> Result<Response, Error> {
    let id = write.id()?;
    let changed = flow::change(&write.parts().db, write.by(), id, change, when(write)).await;
    let done = match changed {
        Ok(_) => done,
        Err(Refused::Unchanged(..)) => Done::Changed,
        Err(why) => return Err(refused(why)),
    };
    Ok(act::see(&page(id), done))
}
