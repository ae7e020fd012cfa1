//! API keys: which there are and what each opens. A key itself is shown on the answer that makes it alone.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::{Scope, State};
use lists::deeds::keys::{Create, Revoke};
use lists::form::Empty;
use lists::people::{Keys, key_state};
use lists::shown::Cell;
use operators::api_keys::MOST_DAYS;
use store::api_keys::{self, ApiKeyEntry};
use uuid::Uuid;

use crate::access::{Reader, Visit, Write};
use crate::deed::{self, Doer};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing;
use crate::pages::object::Object;

const HERE: &str = "/keys";

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Keys).await?.listing;
    listing.acts = vec![deed::act::<Create, _>(&visit, "", None)];
    Ok(listing.answer(&visit))
}

fn account(key: &ApiKeyEntry) -> Cell {
    let account = key.account;
    account.map_or(Cell::None, |number| Cell::code(number.to_string()))
}

async fn named(visit: &Visit<Reader>) -> Result<ApiKeyEntry, Error> {
    let id = visit.id()?;
    let found = api_keys::find(visit.db(), id, visit.now()).await?;
    found.ok_or(Error::Unknown("key"))
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let it = named(&visit).await?;
    let mut acts = Vec::new();
    if it.state != State::Revoked {
        acts.push(deed::act::<Revoke, _>(&visit, &it.id.to_string(), None));
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

pub async fn ask_create(visit: Visit<Doer<Create>>) -> Result<Response, Error> {
    let page = CreatePage {
        frame: Frame::of(&visit, HERE),
        id: visit.new_id(),
        scopes: &Scope::ALL,
        most_days: MOST_DAYS,
    };
    Ok(Html(page.to_string()).into_response())
}

/// A form has a box for each scope. Nothing ticked is no key of all scopes, as it is for the command.
pub async fn create(write: Write<Doer<Create>>) -> Result<Response, Error> {
    let given = &write.fields;
    let chosen = |scope: &Scope| given.get(&format!("scope-{scope}")) == "yes";
    let mut scope: Vec<Scope> = Scope::ALL.into_iter().filter(chosen).collect();
    let opens_console = scope.iter().any(|it| matches!(it, Scope::Console(_)));
    match (given.get("all"), scope.is_empty()) {
        ("yes", _) if opens_console => {
            let why = "everything of the API does not open the console: choose each scope";
            return Err(Error::impossible(why));
        }
        ("yes", _) => scope.clear(),
        (_, true) => return Err(Error::impossible("choose what the key opens")),
        _ => {}
    }
    let create: Create = given.filled(Empty::LeftOut)?;
    deed::carry_out(write, Create { scope, ..create }).await
}
