//! What is done to API keys.

use domain::api_key::{self, Role, Scope, State};
use operators::api_keys::{self as flow, MOST_DAYS, WantedKey};
use serde_json::json;
use store::api_keys::{self, ApiKeyEntry};
use uuid::Uuid;

use super::{About, CHANGED, Deed, Desk, Done, Looked, Refused, SHOWN, Secret, Site};
use crate::people::key_state;
use crate::shown::Cell;
use crate::words;

const CREATED: &str = "The key was made.";
const REVOKED: &str = "The key was revoked. It opens nothing any more.";

/// Make a key and show it; it is shown only this once, because only its hash is stored
///
/// Without --scope and --shop the key opens all of the API, also what later versions add, and not the console. Give each
/// program a key of its own with only the scopes and shops that it needs, so that you can revoke each key separately.
#[derive(Clone, Debug, clap::Args)]
pub struct Create {
    /// A name that says what the key is for
    pub name: String,
    /// A scope of the key. Give it several times for several scopes. Without it the key has all
    /// scopes but those of the console
    #[arg(long, value_name = "SCOPE", value_parser = words::scope())]
    pub scope: Vec<Scope>,
    /// A shop domain whose orders and privacy requests the key opens. Give it several times for
    /// several shops. Orders of checkouts belong to the shop `checkout`. Without it the key opens
    /// all shops
    #[arg(long, value_name = "DOMAIN", value_parser = api_key::shop)]
    pub shop: Vec<String>,
    /// The key ends after this many days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DAYS)))]
    pub expires_in_days: Option<u32>,
    /// The number of an account at GitHub, whose holder may sign in to the console with the rights of this key.
    /// https://api.github.com/users/LOGIN says it as `id`
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    pub account: Option<i64>,
}

fn page(id: Uuid) -> String {
    format!("/keys/{id}")
}

impl Deed for Create {
    const ABOUT: About = About::new("keys create", Role::Owner, "Make a key")
        .like("NAME --scope SCOPE")
        .asks("Make a key", "Make it")
        .undone_by("keys revoke");
    const SAYS: &'static [&'static str] = &[CREATED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (db, id, now) = (desk.site.db, desk.id, desk.by.now);
        let shown_before = || Done::new(SHOWN, page(id), json!({"id": id}));
        let is_there = async || api_keys::find(db, id, now).await.map(|it| it.is_some());
        if is_there().await? {
            return Ok(shown_before());
        }
        let new = WantedKey {
            id,
            name: &self.name,
            scopes: self.scope,
            shops: self.shop,
            days: self.expires_in_days,
            account: self.account,
        };
        let made = match flow::create(db, desk.by, desk.clock, new).await {
            Ok(made) => made,
            // Two forms were sent at the same moment, and the other one was first.
            Err(flow::Refused::Database(_)) if is_there().await? => return Ok(shown_before()),
            Err(flow::Refused::Database(error)) => return Err(error.into()),
            Err(why @ flow::Refused::Checkout) => {
                return Err(Refused::Wrong(why.to_string()).option("--shop checkout"));
            }
            Err(why) => return Err(Refused::Wrong(why.to_string())),
        };
        let json = json!({
            "id": id,
            "name": self.name,
            "key": made.key,
            "scopes": made.rights.scopes,
            "shops": made.rights.shops,
            "expires_at": made.expires_at,
            "account": self.account,
        });
        let [scopes, shops] = made.rights.in_words();
        let account = self.account.map_or(String::new(), |number| {
            format!(" With it account {number} signs in to the console.")
        });
        let done = Done::new(CREATED, page(id), json).text(format!("{}\n", made.key));
        Ok(Done {
            advice: Some(format!(
                "Keep it now: it cannot be shown again. Send it as `Authorization: Bearer {}..`\n\
                 It opens: {scopes}. Shops: {shops}.{account}\n",
                &made.key[..6]
            )),
            secret: Some(Secret {
                title: "The key was made",
                about: "Whoever has it may do what it opens.".to_owned(),
                secret: made.key,
            }),
            ..done
        })
    }
}

/// Revoke a key at once and for good
///
/// It opens nothing any more from then on. Whoever signed in to the console with it is signed out, also you if it
/// is yours.
#[derive(Clone, Debug, clap::Args)]
pub struct Revoke {
    /// The id of the key, from `waybill keys list`, or its name
    #[arg(value_name = "ID OR NAME")]
    pub id: String,
}

impl Deed for Revoke {
    const ABOUT: About = About::new("keys revoke", Role::Owner, "Revoke")
        .of("id")
        .asks("Revoke this key for good?", "Revoke it for good")
        .for_good();
    const SAYS: &'static [&'static str] = &[REVOKED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        let it = meant(site, target).await?;
        let [scopes, _] = it.rights.in_words();
        Ok(Looked {
            facts: vec![
                ("Name", Cell::text(it.name)),
                ("State", key_state(it.state)),
                ("Scopes", Cell::text(scopes)),
                ("Last used", Cell::maybe_time(it.last_used_at)),
            ],
            ..Looked::default()
        })
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let ApiKeyEntry { id, name, .. } = meant(&desk.site, &self.id).await?;
        let is_revoked = flow::revoke(desk.site.db, desk.by, id).await?;
        let json = json!({"id": id, "name": name, "changed": is_revoked});
        Ok(if is_revoked {
            let text = format!("Key {id} ({name}) is revoked; it opens nothing any more.\n");
            Done::new(REVOKED, page(id), json).text(text)
        } else {
            let text = format!("Key {id} ({name}) was revoked before.\n");
            Done::new(CHANGED, page(id), json).text(text)
        })
    }
}

/// The key with this id, or the only one of this name that was not revoked.
async fn meant(site: &Site<'_>, wanted: &str) -> Result<ApiKeyEntry, Refused> {
    let mut keys = api_keys::list(site.db, site.now).await?;
    let id = Uuid::parse_str(wanted).ok();
    if let Some(at) = keys.iter().position(|key| Some(key.id) == id) {
        return Ok(keys.swap_remove(at));
    }
    keys.retain(|key| key.name == wanted);
    // A key that was revoked before does not make the name of another key ambiguous.
    if keys.iter().any(|key| key.state != State::Revoked) {
        keys.retain(|key| key.state != State::Revoked);
    } else {
        keys.truncate(1);
    }
    if keys.len() > 1 {
        let ids: Vec<String> = keys.iter().map(|key| format!("  {}", key.id)).collect();
        return Err(Refused::Impossible(format!(
            "{} keys are named {wanted:?}; revoke the one you mean by its id:\n{}",
            keys.len(),
            ids.join("\n")
        )));
    }
    keys.pop().ok_or_else(|| {
        let why = format!("there is no key {wanted:?} here; `waybill keys list --all` shows them");
        Refused::Unknown("key", why)
    })
}
