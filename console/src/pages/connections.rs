//! The providers that are connected beside those of the settings. And how a connection is added, given another secret,
//! paused and removed. No page ever shows a secret.

use std::time::Duration;

use crate::listing;
use axum::response::Response;
use domain::api_key::Role;
use domain::branding::Language;
use domain::pause::Target;
use lists::providers::{Connections, whose};
use operators::connections::{self as flow, Changes, Means, OVERLAP, Refused, Rotation, Wanted};
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
        inputs: vec![
            Input::text(
                "name",
                "Name",
                "Lower-case letters, digits and hyphens. It is never changed.",
            ),
            Input::text(
                "provider",
                "Provider",
                "shopify, woocommerce, generic, standard-webhooks; of payments stripe, generic or standard-webhooks.",
            ),
            Input::text(
                "shops",
                "Shops",
                "Their domains, with spaces between. Empty: it is a payment provider.",
            ),
            Input::text(
                "account",
                "Account",
                "Of a payment provider whose events name the account.",
            ),
            Input::text(
                "payments",
                "Paid by",
                "Of shops: the connection whose payments pay for their orders. Empty: that of the settings.",
            ),
            Input::text(
                "sender",
                "Writes to its buyers",
                "Of shops: the sender of mails, such as Shop <orders@shop.example>. Empty: that of the settings.",
            ),
            hidden("secret", "Signing secret", "As the provider shows it."),
        ],
        back: HERE.to_owned(),
        command: "waybill connections add NAME --provider P --shop DOMAIN --secret-file F"
            .to_owned(),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

fn given(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub async fn add(write: Write<Owner>) -> Result<Response, Error> {
    let fields = &write.fields;
    let name = fields.get("name").trim().to_owned();
    let wanted = Wanted {
        name: name.clone(),
        provider: fields.get("provider").trim().to_owned(),
        shops: fields
            .get("shops")
            .split_whitespace()
            .map(ToOwned::to_owned)
            .collect(),
        account: given(fields.get("account")),
        payments: given(fields.get("payments")),
        changes: Changes {
            sender: given(fields.get("sender")),
            ..Changes::default()
        },
        secret: fields.get("secret").trim().to_owned(),
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
    let text = |name, label, help, value: Option<&str>| Input {
        value: value.unwrap_or_default().to_owned(),
        ..Input::text(name, label, help)
    };
    let branding = &it.branding;
    let rate = it.rate.map(|rate| rate.to_string());
    let mut inputs = vec![Input {
        kind: "number",
        ..text(
            "rate",
            "Deliveries a second",
            "At most so many are taken; 0: no limit. Empty: as it is.",
            rate.as_deref(),
        )
    }];
    if it.side == Side::Storefront {
        inputs.extend([
            text(
                "sender",
                "Writes to its buyers",
                "The sender of mails, such as Shop <orders@shop.example>. Empty: that of the settings.",
                it.sender.as_deref(),
            ),
            text(
                "display_name",
                "Name",
                "The shop as its buyers know it. Empty: the name of the sender, or the domain.",
                branding.display_name.as_deref(),
            ),
            text(
                "contact",
                "Contact",
                "Whom buyers may ask: an e-mail address, or a page. Empty: the sender.",
                branding.contact.as_deref(),
            ),
            text(
                "language",
                "Language",
                "en, de, fr or es. It is that of the pages of buyers in whose own there are no texts.",
                branding.language.map(Language::tag),
            ),
            text(
                "logo",
                "Logo",
                "The address of a picture, which buyers' pages load.",
                branding.logo.as_deref(),
            ),
        ]);
    }
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
        inputs,
        back: page(&it.name),
        command: format!("waybill connections change {} --display-name NAME", it.name),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn change(write: Write<Owner>) -> Result<Response, Error> {
    let name = write.path("name").to_owned();
    let fields = &write.fields;
    // A payment provider's form has no fields of buyers.
    let text = |field| fields.has(field).then(|| fields.get(field).to_owned());
    let changes = Changes {
        rate: fields.within("rate", 0..=u32::MAX)?,
        sender: text("sender"),
        display_name: text("display_name"),
        contact: text("contact"),
        language: text("language"),
        logo: text("logo"),
    };
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
