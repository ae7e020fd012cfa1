//! The API keys and endpoints of an installation as a file has them, to set up another installation alike.

use domain::api_key::{self, Rights, Scope, Shops};
use domain::endpoint::{Secret, State};
use domain::event::Pattern;
use domain::time::Timestamp;
use platform::clock::Clock;
use providers::endpoints::Allowed;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::api_keys::{self, Exported};
use store::audit::By;
use store::endpoints::{self, MOST_ENDPOINTS};
use store::event_head;
use store::sql::{self, Db};
use uuid::Uuid;

use crate::endpoints::{LONGEST_URL, MOST_TYPES};

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum NotImported {
    #[error("the endpoint {0} of the file cannot be added: {1}")]
    Endpoint(Uuid, String),
    #[error("the API key {0} of the file cannot be added: {1}")]
    Key(Uuid, String),
    #[error(
        "the API key {0} of the file, named {1:?}, opens the console: {2}. If whoever has it may sign in here too, add \
         --console"
    )]
    Console(Uuid, String, String),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// An endpoint in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedEndpoint {
    pub id: Uuid,
    pub url: String,
    /// The patterns of types whose events it gets.
    pub types: Vec<String>,
    /// Whether it gets none until it is resumed.
    pub is_paused: bool,
    /// Missing unless it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Keys that may be used, and endpoints, the oldest first.
pub struct Setup {
    pub keys: Vec<Exported>,
    pub endpoints: Vec<ExportedEndpoint>,
}

/// Reads what there is. With `secrets` also those with which webhooks are signed.
pub async fn export(db: &Db, by: By<'_>, secrets: bool) -> sql::Result<Setup> {
    let mut exported = Vec::new();
    for endpoint in endpoints::of_webhooks(db).await? {
        let secret = if secrets {
            let found = endpoints::with_secrets(db, by.keys, endpoint.id, by.now).await?;
            found.and_then(|(_, secrets)| secrets.first().map(Secret::reveal))
        } else {
            None
        };
        exported.push(ExportedEndpoint {
            id: endpoint.id,
            url: endpoint.url,
            types: endpoint.types.iter().map(ToString::to_string).collect(),
            is_paused: endpoint.state == State::Paused,
            secret,
        });
    }
    Ok(Setup {
        keys: api_keys::exported(db, by.now).await?,
        endpoints: exported,
    })
}

/// What became of a key or an endpoint of the file.
pub struct Imported {
    pub id: Uuid,
    pub name: String,
    /// What a key opens, and the account whose holder signs in to the console with it.
    pub opens: Option<(Rights, Option<i64>)>,
    /// False when it was there already.
    pub is_added: bool,
    /// A secret that was made because the file has none. It is shown this one time.
    pub secret: Option<Secret>,
}

/// Adds what is not there yet, with an entry in the audit for each: all of it or nothing. Endpoints get the
/// events from now on. Keys that open the console are added only where that `is_asked`.
pub async fn import(
    db: &Db,
    by: By<'_>,
    clock: &Clock,
    allowed: &Allowed,
    setup: &Setup,
    is_asked: bool,
) -> Result<Vec<Imported>, NotImported> {
    let mut rights = Vec::new();
    for key in &setup.keys {
        let opens = check_key(key).map_err(|wrong| NotImported::Key(key.id, wrong))?;
        if !is_asked && (!opens.roles().is_empty() || key.account.is_some()) {
            let [scopes, _] = opens.in_words();
            return Err(NotImported::Console(key.id, key.name.clone(), scopes));
        }
        rights.push(opens);
    }
    let mut checked = Vec::new();
    for endpoint in &setup.endpoints {
        checked.push(check(allowed, endpoint)?);
    }
    let there = endpoints::of_webhooks(db).await?;
    let position = event_head::newest(db).await?;
    let mut imported = Vec::new();
    let mut tx = db.begin().await?;
    for (key, rights) in setup.keys.iter().zip(rights) {
        let is_added = api_keys::import(&mut tx, key).await?;
        if is_added {
            let details = json!({
                "imported": true, "scopes": rights.scopes, "shops": rights.shops,
                "expires_at": key.expires_at.map(Timestamp), "account": key.account,
            });
            by.note(&mut tx, "key.created", key.id, details).await?;
        }
        imported.push(Imported {
            id: key.id,
            name: key.name.clone(),
            opens: Some((rights, key.account)),
            is_added,
            secret: None,
        });
    }
    let mut count = there.len();
    for (endpoint, (types, given)) in setup.endpoints.iter().zip(checked) {
        let is_added = !there.iter().any(|it| it.id == endpoint.id);
        let made = given.is_none().then(|| Secret::new(clock.secret()));
        if let Some(secret) = given.as_ref().or(made.as_ref())
            && is_added
        {
            count += 1;
            if count > MOST_ENDPOINTS {
                tx.rollback().await?;
                let most = format!("there would be more than {MOST_ENDPOINTS}");
                return Err(NotImported::Endpoint(endpoint.id, most));
            }
            let row = endpoints::NewEndpoint {
                id: endpoint.id,
                url: &endpoint.url,
                types: &types,
                secret,
                position,
            };
            endpoints::insert(&mut tx, by.keys, row, by.now).await?;
            if endpoint.is_paused {
                endpoints::set_state(&mut tx, endpoint.id, State::Paused, by.now).await?;
            }
            let details = json!({"imported": true, "types": endpoint.types});
            by.note(&mut tx, "endpoint.added", endpoint.id, details)
                .await?;
        }
        imported.push(Imported {
            id: endpoint.id,
            name: endpoint.url.clone(),
            opens: None,
            is_added,
            secret: made.filter(|_| is_added),
        });
    }
    tx.commit().await?;
    Ok(imported)
}

/// Checks a key of a file, which anybody may have written, and returns what it opens.
fn check_key(key: &Exported) -> Result<Rights, String> {
    if key.name.trim().is_empty() || key.name.contains(char::is_control) {
        return Err("it has no name".to_owned());
    }
    let scope = |text: &str| {
        let known = text.parse::<Scope>();
        known.map_err(|wrong| format!("its scope {text:?}: {wrong}"))
    };
    let shop = |text: &str| {
        let known = api_key::shop(text);
        known.map_err(|wrong| format!("its shop {text:?}: {wrong}"))
    };
    let scopes = key.scopes.as_ref().map(|it| it.split(' ').map(scope));
    let shops = key.shops.as_ref().map(|it| it.split(' ').map(shop));
    Ok(Rights {
        scopes: scopes.map(Iterator::collect).transpose()?,
        shops: Shops(shops.map(Iterator::collect).transpose()?),
    })
}

/// Checks an endpoint of a file.
fn check(
    allowed: &Allowed,
    endpoint: &ExportedEndpoint,
) -> Result<(Vec<Pattern>, Option<Secret>), NotImported> {
    let of_file = |what: String| NotImported::Endpoint(endpoint.id, what);
    if endpoint.url.len() > LONGEST_URL || endpoint.types.len() > MOST_TYPES {
        return Err(of_file(
            "its address or the list of its types is too long".to_owned(),
        ));
    }
    let checked = allowed.check(&endpoint.url);
    checked.map_err(|wrong| of_file(wrong.to_string()))?;
    let types = endpoint.types.iter().map(|it| it.parse::<Pattern>());
    let types: Vec<Pattern> = types
        .collect::<Result<_, _>>()
        .map_err(|wrong| of_file(wrong.to_string()))?;
    if types.is_empty() {
        return Err(of_file("it has no types".to_owned()));
    }
    let secret = endpoint.secret.as_ref().map(|it| it.parse::<Secret>());
    let secret = secret.transpose();
    let secret =
        secret.map_err(|_| of_file("its secret is not of the form whsec_..".to_owned()))?;
    Ok((types, secret))
}
