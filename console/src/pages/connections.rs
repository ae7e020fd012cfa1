//! The providers that are connected beside those of the settings. No page ever shows a secret.

use axum::response::Response;
use domain::branding::Language;
use lists::deeds::connections::{Add, Change, Pause, Remove, Resume, Rotate};
use lists::providers::{Connections, whose};
use lists::shown::Cell;
use operators::connections as flow;
use store::connections::Overview;

use crate::access::{Reader, Visit};
use crate::deed;
use crate::error::Error;
use crate::listing;
use crate::pages::object::Object;

const HERE: &str = "/connections";

/// The connection that a path names.
async fn named(visit: &Visit<Reader>) -> Result<Overview, Error> {
    let config = visit.config();
    let (keys, url) = (&config.secrets_keys, &config.public_url);
    let all = flow::overviews(visit.db(), keys, url, visit.now()).await?;
    let found = all.into_iter().find(|it| it.name == visit.path("name"));
    found.ok_or(Error::Unknown("connection"))
}

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let config = visit.config();
    let list = Connections {
        keys: config.secrets_keys.clone(),
        public_url: config.public_url.clone(),
    };
    let mut listing = listing::read(&visit, &list).await?.listing;
    listing.acts = vec![deed::act::<Add, _>(&visit, "", None)];
    Ok(listing.answer(&visit))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let secrets: Vec<&str> = it
        .secrets
        .iter()
        .map(|it| it.fingerprint.as_str())
        .collect();
    let former = it.secrets.iter().find_map(|it| it.until);
    let pause = if it.state == "paused" {
        deed::act::<Resume, _>(&visit, &it.name, None)
    } else {
        deed::act::<Pause, _>(&visit, &it.name, None)
    };
    let acts = vec![
        pause,
        deed::act::<Change, _>(&visit, &it.name, None),
        deed::act::<Rotate, _>(&visit, &it.name, None),
        deed::act::<Remove, _>(&visit, &it.name, None),
    ];
    let object = Object {
        here: HERE,
        kind: "Connection",
        title: it.name.clone(),
        facts: vec![
            ("State", Cell::text(it.state.as_str())),
            ("Provider", Cell::text(it.provider.as_str())),
            ("Shop or account", Cell::text(whose(&it))),
            (
                "Its orders are paid by",
                Cell::maybe(it.payments.as_deref()),
            ),
            ("Writes to its buyers", Cell::maybe(it.sender.as_deref())),
            (
                "Its buyers see",
                Cell::maybe(it.branding.display_name.as_deref()),
            ),
            ("They may ask", Cell::maybe(it.branding.contact.as_deref())),
            (
                "Language of their pages",
                Cell::maybe(it.branding.language.map(Language::tag)),
            ),
            ("Logo", Cell::maybe(it.branding.logo.as_deref())),
            ("The provider posts to", Cell::code(it.address.as_str())),
            ("API", Cell::maybe(it.api_url.as_deref())),
            (
                "Fingerprints of its secrets",
                Cell::text(secrets.join(", ")),
            ),
            (
                "The former secret is accepted until",
                Cell::maybe_time(former),
            ),
            ("Added", Cell::time(it.created_at)),
            ("Changed", Cell::time(it.changed_at)),
        ],
        acts,
        commands: vec![("Show it", format!("waybill connections show {}", it.name))],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}
