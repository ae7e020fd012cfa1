//! The providers that are connected beside those of the settings. And how a connection is added, given another secret,
//! paused and removed. No page ever shows a secret.

use std::time::Duration;

use crate::listing;
use axum::response::Response;
use domain::api_key::Role;
use domain::branding::Language;
use domain::pause::Target;
use lists::deeds::{ConnectionChanges, NewConnection};
use lists::form::Empty;
use lists::providers::{Connections, whose};
use operators::connections::{self as flow, Means, OVERLAP, Refused, Rotation, Wanted};
use operators::pauses;
use store::connections::{Overview, Side};

use crate::access::{Operator, Owner, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Input, Question};
use crate::error::Error;
use crate::pages::object::Object;
use lists::shown::Cell;

const HERE: &str = "/connections";
/// How long a pause from the page lasts.
const PAUSE: Duration = Duration::from_hours(1);

async fn all<R>(visit: &Visit<R>) -> Result<Vec<Overview>, Error> {
    let config = visit.config();
    let (keys, url) = (&config.secrets_keys, &config.public_url);
    Ok(flow::overviews(visit.db(), keys, url, visit.now()).await?)
}

/// The connection that a path names.
async fn named<R>(visit: &Visit<R>) -> Result<Overview, Error> {
    let name = visit.path("name");
    let found = all(visit).await?.into_iter().find(|it| it.name == name);
    found.ok_or(Error::Unknown("connection"))
}

fn page(name: &str) -> String {
    format!("{HERE}/{name}")
}

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let config = visit.config();
    let list = Connections {
        keys: config.secrets_keys.clone(),
        public_url: config.public_url.clone(),
    };
    let mut listing = listing::read(&visit, &list).await?.listing;
    listing.acts = vec![Act::of(
        &visit,
        Role::Owner,
        "Connect another shop, or another account of a payment provider.",
        Button::asks("Add a connection", format!("{HERE}/add")),
        "waybill connections add NAME --provider P --shop DOMAIN --secret-file F".to_owned(),
    )];
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
    let act = |role, what, label, word: &str, asks| {
        let button = Button {
            asks,
            ..Button::does(
                label,
                format!("{}/{word}", page(&it.name)),
                vec![("id", visit.new_id().to_string())],
            )
        };
        Act::of(
            &visit,
            role,
            what,
            button,
            format!("waybill connections {word} {}", it.name),
        )
    };
    let pause = if it.state == "paused" {
        act(
            Role::Operator,
            "Let what waits go on.",
            "Resume",
            "resume",
            false,
        )
    } else {
        act(
            Role::Operator,
            "Let what came by it wait for an hour. Deliveries are accepted.",
            "Pause",
            "pause",
            false,
        )
    };
    let acts = vec![
        pause,
        act(
            Role::Owner,
            "Change what buyers see of its shops, and how much is taken. A page asks first.",
            "Change",
            "change",
            true,
        ),
        act(
            Role::Owner,
            "Give it another secret. A page asks first.",
            "Another secret",
            "rotate",
            true,
        ),
        act(
            Role::Owner,
            "Remove it with its secrets. A page asks first.",
            "Remove",
            "remove",
            true,
        ),
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

/// A field whose text the browser neither shows nor remembers.
fn hidden(name: &'static str, label: &'static str, help: &'static str) -> Input {
    Input {
        kind: "password",
        ..Input::text(name, label, help)
    }
}

pub async fn ask_add(visit: Visit<Owner>) -> Result<Response, Error> {
    let question = Question {
        here: HERE,
        title: "Add a connection".to_owned(),
        about: vec![
            "The secret proves the shops that are named here, and no other. All processes know it within a second.",
        ],
        to: Some(format!("{HERE}/add")),
        label: "Add it",
        form: act::form::<NewConnection>(&[]),
        inputs: vec![hidden(
            "secret",
            "Signing secret",
            "As the provider shows it.",
        )],
        back: HERE.to_owned(),
        command: "waybill connections add NAME --provider P --shop DOMAIN --secret-file F"
            .to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn add(write: Write<Owner>) -> Result<Response, Error> {
    let asked: NewConnection = write.fields.filled(Empty::LeftOut)?;
    let name = asked.name.clone();
    let wanted = Wanted {
        name: asked.name,
        provider: asked.provider,
        headers: asked.headers,
        shops: asked.shops,
        account: asked.account,
        payments: asked.payments,
        changes: asked.changes.into(),
        secret: write.fields.get("secret").trim().to_owned(),
        moves: asked.moves,
        ..Wanted::default()
    };
    let parts = write.parts();
    match flow::add(&parts.db, write.by(), &means(&write), wanted).await {
        Ok(()) => Ok(act::see(&page(&name), Done::ConnectionAdded)),
        // Sent again, or somebody else was first.
        Err(Refused::NameTaken) => Ok(act::see(&page(&name), Done::Changed)),
        Err(why) => Err(refused(why)),
    }
}

pub async fn ask_change(visit: Visit<Owner>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let (branding, rate) = (&it.branding, it.rate.map(|rate| rate.to_string()));
    let given = [
        ("rate", rate.as_deref()),
        ("sender", it.sender.as_deref()),
        ("display-name", branding.display_name.as_deref()),
        ("contact", branding.contact.as_deref()),
        ("language", branding.language.map(Language::tag)),
        ("logo", branding.logo.as_deref()),
    ];
    let given = given.map(|(name, value)| (name, value.unwrap_or_default()));
    let mut form = act::form::<ConnectionChanges>(&given);
    // A payment provider has no buyers.
    form.retain(|field| it.side == Side::Storefront || field.name == "rate");
    let question = Question {
        here: HERE,
        title: "Change this connection?".to_owned(),
        about: vec!["All processes know it within a second. Its provider does not notice."],
        facts: vec![
            ("Connection", Cell::text(it.name.as_str())),
            ("Shop or account", Cell::text(whose(&it))),
        ],
        to: Some(format!("{}/change", page(&it.name))),
        label: "Change it",
        form,
        back: page(&it.name),
        command: format!("waybill connections change {} --display-name NAME", it.name),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn change(write: Write<Owner>) -> Result<Response, Error> {
    let name = write.path("name").to_owned();
    // An empty text takes a value away.
    let asked: ConnectionChanges = write.fields.filled(Empty::Text)?;
    let changes = asked.into();
    match flow::change(&write.parts().db, write.by(), &name, &changes).await {
        Ok(_) => Ok(act::see(&page(&name), Done::ConnectionChanged)),
        Err(why) => Err(refused(why)),
    }
}

fn means<R>(write: &Write<R>) -> Means<'_> {
    let config = &write.parts().config;
    Means {
        keys: &config.secrets_keys,
        cleartext: &config.cleartext_allowed,
    }
}

fn refused(why: Refused) -> Error {
    match why {
        Refused::Unknown => Error::Unknown("connection"),
        Refused::Database(error) => error.into(),
        why => Error::impossible(why),
    }
}

pub async fn pause(write: Write<Operator>) -> Result<Response, Error> {
    let name = write.path("name").to_owned();
    let (parts, by) = (write.parts(), write.by());
    if !store::connections::is_standing(&parts.db, &name).await? {
        return Err(Error::Unknown("connection"));
    }
    let (id, until) = (write.fields.read("id")?, by.now.plus(PAUSE));
    match pauses::begin(&parts.db, by, id, Target::Connection(name.clone()), until).await {
        Ok(_) => Ok(act::see(&page(&name), Done::Begun)),
        Err(pauses::Refused::Database(error)) => Err(error.into()),
        Err(why) => Err(Error::impossible(why)),
    }
}

pub async fn resume(write: Write<Operator>) -> Result<Response, Error> {
    let name = write.path("name").to_owned();
    pauses::end(
        &write.parts().db,
        write.by(),
        &Target::Connection(name.clone()),
    )
    .await?;
    Ok(act::see(&page(&name), Done::Ended))
}

pub async fn ask_rotate(visit: Visit<Owner>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let question = Question {
        here: HERE,
        title: "Give this connection another secret?".to_owned(),
        about: vec![
            "The present one is accepted for three days more, as long as providers repeat a delivery.",
        ],
        facts: vec![
            ("Connection", Cell::text(it.name.as_str())),
            ("Shop or account", Cell::text(whose(&it))),
        ],
        to: Some(format!("{}/rotate", page(&it.name))),
        label: "Give it this secret",
        inputs: vec![hidden(
            "secret",
            "New signing secret",
            "As the provider shows it.",
        )],
        back: page(&it.name),
        command: format!("waybill connections rotate {} --secret-file F", it.name),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn rotate(write: Write<Owner>) -> Result<Response, Error> {
    let name = write.path("name").to_owned();
    let rotation = Rotation {
        secret: Some(write.fields.get("secret").trim().to_owned()),
        overlap: OVERLAP,
        ..Rotation::default()
    };
    let db = &write.parts().db;
    match flow::rotate(db, write.by(), &means(&write), &name, rotation).await {
        Ok(_) => Ok(act::see(&page(&name), Done::ConnectionRotated)),
        Err(why) => Err(refused(why)),
    }
}

pub async fn ask_remove(visit: Visit<Owner>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let question = Question {
        here: HERE,
        title: "Remove this connection with its secrets?".to_owned(),
        about: vec![
            "Its address answers 404 from then on. What came by it is worked on all the same, and calls to its provider \
             are refused.",
        ],
        facts: vec![
            ("Connection", Cell::text(it.name.as_str())),
            ("Shop or account", Cell::text(whose(&it))),
        ],
        to: Some(format!("{}/remove", page(&it.name))),
        label: "Remove it for good",
        back: page(&it.name),
        command: format!("waybill connections remove {}", it.name),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn remove(write: Write<Owner>) -> Result<Response, Error> {
    let name = write.path("name").to_owned();
    match flow::remove(&write.parts().db, write.by(), &name).await {
        // Sent again, it is still so that the connection is removed.
        Ok(()) | Err(Refused::Unknown) => Ok(act::see(HERE, Done::Removed)),
        Err(why) => Err(refused(why)),
    }
}
