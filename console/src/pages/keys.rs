//! API keys: which there are and what each opens, and how one is made and revoked. A key itself is shown on the
//! answer that makes it alone.

use crate::listing;
use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::{self, Role, Scope, State};
use lists::people::{Keys, key_state};
use operators::api_keys::{self as flow, MOST_DAYS, Refused, WantedKey};
use store::api_keys::{self, ApiKeyEntry};
use uuid::Uuid;

use crate::access::{Owner, Reader, Visit, Write};
use crate::act::{self, Act, Button, Done, Question, Secret};
use crate::error::Error;
use crate::frame::Frame;
use crate::pages::object::Object;
use lists::shown::Cell;

const HERE: &str = "/keys";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Keys).await?.listing;
    listing.acts = vec![Act::of(
        &visit,
        Role::Owner,
        "Give each person and each program a key of its own.",
        Button::asks("Make a key", format!("{HERE}/create")),
        "waybill keys create NAME --scope SCOPE".to_owned(),
    )];
    Ok(listing.answer(&visit))
}

fn page(id: Uuid) -> String {
    format!("{HERE}/{id}")
}

fn account(key: &ApiKeyEntry) -> Cell {
    let account = key.account;
    account.map_or(Cell::None, |number| Cell::code(number.to_string()))
}

async fn named<R>(visit: &Visit<R>) -> Result<ApiKeyEntry, Error> {
    let id = visit.id()?;
    let found = api_keys::find(visit.db(), id, visit.now()).await?;
    found.ok_or(Error::Unknown("key"))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let act = act::of_one(&visit, Role::Owner, "keys", it.id);
    let mut acts = Vec::new();
    if it.state != State::Revoked {
        let what = "Revoke it at once and for good. A page asks first.";
        acts.push(act(what, "Revoke", "revoke", true));
    }
    let [scopes, shops] = it.rights.in_words();
    let object = Object {
        here: HERE,
        kind: "Key",
        title: it.name.clone(),
        facts: vec![
            ("State", key_state(it.state)),
            ("Scopes", Cell::text(scopes)),
            ("Shops", Cell::text(shops)),
            ("Account", account(&it)),
            ("Created", Cell::time(it.created_at)),
            ("Expires", Cell::maybe_time(it.expires_at)),
            ("Revoked", Cell::maybe_time(it.revoked_at)),
            ("Last used", Cell::maybe_time(it.last_used_at)),
            ("Key", Cell::code(it.id.to_string())),
        ],
        acts,
        commands: vec![("List all", "waybill keys list --all".to_owned())],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

#[derive(Template)]
#[template(path = "key.html")]
struct CreatePage<'a> {
    frame: Frame<'a>,
    id: Uuid,
    scopes: &'a [Scope],
    most_days: u32,
}

pub async fn ask_create(visit: Visit<Owner>) -> Result<Response, Error> {
    let page = CreatePage {
        frame: Frame::of(&visit, HERE),
        id: visit.new_id(),
        scopes: &Scope::ALL,
        most_days: MOST_DAYS,
    };
    Ok(Html(page.to_string()).into_response())
}

/// The form brings the key's id, so sending it again makes no second one.
pub async fn create(write: Write<Owner>) -> Result<Response, Error> {
    let given = &write.fields;
    let id: Uuid = given.read("id")?;
    let chosen = |scope: &Scope| given.get(&format!("scope-{scope}")) == "yes";
    let mut scopes: Vec<Scope> = Scope::ALL.into_iter().filter(chosen).collect();
    let opens_console = scopes.iter().any(|it| matches!(it, Scope::Console(_)));
    match (given.get("all"), scopes.is_empty()) {
        ("yes", _) if opens_console => {
            let why = "everything of the API does not open the console: choose each scope";
            return Err(Error::impossible(why));
        }
        ("yes", _) => scopes.clear(),
        (_, true) => return Err(Error::impossible("choose what the key opens")),
        _ => {}
    }
    let shops: Result<Vec<String>, _> = given
        .get("shops")
        .split_whitespace()
        .map(api_key::shop)
        .collect();
    let shops = shops.map_err(Error::impossible)?;
    let days = given.within("days", 1..=MOST_DAYS)?;
    let account = match given.get("account") {
        "" => None,
        text => {
            let number: Option<i64> = text.parse().ok();
            let number = number.filter(|number| *number > 0);
            let why = "the account must be a number";
            Some(number.ok_or_else(|| Error::impossible(why))?)
        }
    };
    let parts = write.parts();
    let is_there = async || {
        let found = api_keys::find(&parts.db, id, write.now()).await;
        found.map(|it| it.is_some())
    };
    if is_there().await? {
        return Ok(act::see(&page(id), Done::Shown));
    }
    let new = WantedKey {
        id,
        name: given.get("name"),
        scopes,
        shops,
        days,
        account,
    };
    match flow::create(&parts.db, write.by(), &parts.clock, new).await {
        Ok(made) => {
            let shown = Secret {
                here: HERE,
                title: "The key was made",
                about: "Whoever has it may do what it opens.".to_owned(),
                secret: made.key,
                next: page(id),
            };
            Ok(shown.answer(&write))
        }
        // Two forms were sent at the same moment, and the other one was first.
        Err(Refused::Database(_)) if is_there().await? => Ok(act::see(&page(id), Done::Shown)),
        Err(Refused::Database(error)) => Err(error.into()),
        Err(why) => Err(Error::impossible(why)),
    }
}

pub async fn ask_revoke(visit: Visit<Owner>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let [scopes, _] = it.rights.in_words();
    let question = Question {
        here: HERE,
        title: format!("Revoke the key {} for good?", it.name),
        about: vec![
            "It opens nothing any more from then on. Whoever signed in with it is signed out. If it is the one \
             with which you signed in, this is your last act.",
        ],
        facts: vec![
            ("State", key_state(it.state)),
            ("Scopes", Cell::text(scopes)),
            ("Last used", Cell::maybe_time(it.last_used_at)),
        ],
        to: Some(format!("{}/revoke", page(it.id))),
        label: "Revoke it for good",
        back: page(it.id),
        command: format!("waybill keys revoke {}", it.id),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

pub async fn revoke(write: Write<Owner>) -> Result<Response, Error> {
    let it = named(&write).await?;
    let is_revoked = flow::revoke(&write.parts().db, write.by(), it.id).await?;
    let done = if is_revoked {
        Done::Revoked
    } else {
        Done::Changed
    };
    Ok(act::see(&page(it.id), done))
}
