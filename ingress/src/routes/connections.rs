//! `/api/connections`: the providers that are connected, for programs with an API key (docs/connect.md). The command
//! `waybill connections` does the same.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use domain::pause::{LONGEST, Target};
use operators::connections::{
    self as flow, Changes, Means, NewApi, OVERLAP, Refused, Rotation, Wanted,
};
use operators::pauses;
use platform::token::Token;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::connections::Overview;
use utoipa::{IntoParams, ToSchema};

use super::endpoints::OfAllShops;
use crate::App;
use crate::api_key::{ConnectionsRead, ConnectionsWrite};
use crate::author::{Author, finished};
use crate::body::Given;
use crate::error::{DetailBody, Error};
use crate::openapi::bodies;
use crate::openapi::operation::{Input, Operation, delete, get, patch, post, tagged};

/// The largest body of a request.
const LARGEST_BODY: usize = 64 * 1024;
/// How long a pause lasts where nothing is said.
const PAUSE: u32 = 3600;

pub fn routes() -> Vec<Operation> {
    let list = get("/api/connections", list)
        .is("listConnections", "The providers that are connected")
        .about("Beside those that the settings name. No secret is ever shown.")
        .answers::<ConnectionList>(200, "The connections, by name.");
    let storefront = json!({
        "name": "shop-b", "provider": "shopify", "shops": ["shop-b.example"],
        "secret": "the client secret of the app", "payments": "stripe-b",
    });
    let payment = json!({
        "name": "stripe-b", "provider": "stripe", "account": "acct_1", "secret": "whsec_..",
        "api_url": "https://api.stripe.com", "api_token": "sk_live_..",
    });
    let add = post("/api/connections", add)
        .is("addConnection", "Connect a provider")
        .about(
            "With `shops` it is a storefront, and without a payment provider. The secret proves these shops, and \
             no other. All processes know it within a second.",
        )
        .takes(&bodies::one(
            "ConnectionRequest",
            [("storefront", storefront), ("payment provider", payment)],
        ))
        .answers::<Overview>(201, "The connection.")
        .errors(&CHANGES)
        .errors(&[Error::ConnectionTaken]);
    let show = get("/api/connections/{name}", show)
        .is("getConnection", "A connection")
        .answers::<Overview>(200, "The connection.");
    let branding = json!({
        "display_name": "Shop B", "contact": "help@shop-b.example", "language": "de",
        "logo": "https://shop-b.example/logo.svg",
    });
    let change = patch("/api/connections/{name}", change)
        .is(
            "changeConnection",
            "Change what buyers see of its shops, and how much is taken",
        )
        .about("What is missing or null stays as it is, and an empty text takes a value away.")
        .takes(&bodies::one(
            "ConnectionChanges",
            [("branding", branding), ("rate", json!({"rate": 20}))],
        ))
        .answers::<Overview>(200, "The connection as it is then.")
        .errors(&CHANGES)
        .errors(&[Error::ConnectionTaken]);
    let secret = json!({"secret": "the new secret", "overlap_seconds": 86_400});
    let token = json!({"api_url": "https://shop-b.example", "api_token": "the new token"});
    let rotate = post("/api/connections/{name}/rotate", rotate)
        .is(
            "rotateConnection",
            "Give a connection another secret or API",
        )
        .about("The former secret is accepted for `overlap_seconds` more, by default three days.")
        .takes(&bodies::one(
            "RotationRequest",
            [("secret", secret), ("API", token)],
        ))
        .answers::<Overview>(200, "The connection as it is then.")
        .errors(&CHANGES);
    let pause = post("/api/connections/{name}/pause", pause)
        .is("pauseConnection", "Let what came by a connection wait")
        .about("For an hour, or for `seconds`, at most seven days. Deliveries are accepted all the same.")
        .takes(&bodies::one("PauseRequest", [("two hours", json!({"seconds": 7200}))]))
        .answers::<Overview>(200, "The connection as it is then.")
        .errors(&CHANGES);
    let resume = post("/api/connections/{name}/resume", resume)
        .is("resumeConnection", "Let it go on")
        .answers::<Overview>(200, "The connection as it is then.");
    let test = post("/api/connections/{name}/test", test)
        .is(
            "testConnection",
            "Ask its provider whether it accepts the token",
        )
        .answers::<ConnectionTest>(200, "What the provider said.");
    let remove = delete("/api/connections/{name}", remove)
        .is("removeConnection", "Remove a connection with its secrets")
        .about("What came by it is worked on all the same.")
        .answers_content(204, "It is removed.", &json!({}));
    tagged(
        "Connections",
        [list, add, show, change, rotate, pause, resume, test, remove],
    )
}

/// The errors of what changes a connection.
const CHANGES: [Error; 2] = [Error::ConnectionWrong, Error::NoSecretsKey];

#[derive(Serialize, ToSchema)]
pub struct ConnectionList {
    connections: Vec<Overview>,
}

// No Debug: the secrets would be in it.
/// The connection to be added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionRequest {
    name: String,
    provider: String,
    #[serde(default)]
    shops: Vec<String>,
    account: Option<String>,
    payments: Option<String>,
    headers: Option<String>,
    rate: Option<u32>,
    sender: Option<String>,
    display_name: Option<String>,
    contact: Option<String>,
    language: Option<String>,
    logo: Option<String>,
    secret: String,
    api_url: Option<String>,
    api_token: Option<String>,
    #[serde(default)]
    moves: bool,
}

// No Debug: the secrets would be in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotationRequest {
    secret: Option<String>,
    api_url: Option<String>,
    api_token: Option<String>,
    overlap_seconds: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    seconds: Option<u32>,
}

/// What a provider said of a token.
#[derive(Serialize, ToSchema)]
pub struct ConnectionTest {
    accepted: bool,
    /// Why it was not accepted.
    error: Option<String>,
}

/// The connection that a path names.
#[derive(IntoParams)]
#[into_params(names("name"))]
pub struct Name(
    /// The connection's name.
    #[param(example = "shop-b")]
    String,
);

impl Input for Name {
    fn describe(operation: Operation) -> Operation {
        operation
            .in_path::<Name>()
            .errors(&[Error::ConnectionNotFound])
    }
}

impl FromRequestParts<Arc<App>> for Name {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        path.map(|Path(name)| Name(name))
            .map_err(|_| Error::ConnectionNotFound)
    }
}

pub async fn list(
    _key: OfAllShops<ConnectionsRead>,
    State(app): State<Arc<App>>,
) -> Result<Json<ConnectionList>, Error> {
    let connections = all(&app).await?;
    Ok(Json(ConnectionList { connections }))
}

pub async fn show(
    _key: OfAllShops<ConnectionsRead>,
    State(app): State<Arc<App>>,
    Name(name): Name,
) -> Result<Json<Overview>, Error> {
    Ok(Json(one(&app, &name).await?))
}

pub async fn add(
    key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Given(request): Given<ConnectionRequest, LARGEST_BODY>,
) -> Result<Response, Error> {
    let name = request.name.clone();
    let wanted = Wanted {
        name: request.name,
        provider: request.provider,
        headers: request.headers,
        shops: request.shops,
        account: request.account,
        payments: request.payments,
        changes: Changes {
            rate: request.rate,
            sender: request.sender,
            display_name: request.display_name,
            contact: request.contact,
            language: request.language,
            logo: request.logo,
        },
        secret: request.secret,
        api: match api(request.api_url, request.api_token) {
            Ok(api) => api,
            Err(why) => return refused(why),
        },
        moves: request.moves,
    };
    let author = Author::of(&app, key.name());
    let added = finished(async move {
        flow::add(&author.app.db, author.by(), &means(&author.app), wanted).await
    });
    match added.await? {
        Ok(()) => Ok((StatusCode::CREATED, Json(one(&app, &name).await?)).into_response()),
        Err(why) => refused(why),
    }
}

pub async fn change(
    key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Name(name): Name,
    Given(changes): Given<Changes, LARGEST_BODY>,
) -> Result<Response, Error> {
    let (author, of) = (Author::of(&app, key.name()), name.clone());
    let changed =
        finished(async move { flow::change(&author.app.db, author.by(), &of, &changes).await });
    match changed.await? {
        Ok(_) => Ok(Json(one(&app, &name).await?).into_response()),
        Err(why) => refused(why),
    }
}

pub async fn rotate(
    key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Name(name): Name,
    Given(request): Given<RotationRequest, LARGEST_BODY>,
) -> Result<Response, Error> {
    let overlap = request.overlap_seconds;
    let rotation = Rotation {
        secret: request.secret,
        api: match api(request.api_url, request.api_token) {
            Ok(api) => api,
            Err(why) => return refused(why),
        },
        overlap: overlap.map_or(OVERLAP, |seconds| Duration::from_secs(seconds.into())),
    };
    let author = Author::of(&app, key.name());
    let of = name.clone();
    let rotated = finished(async move {
        flow::rotate(
            &author.app.db,
            author.by(),
            &means(&author.app),
            &of,
            rotation,
        )
        .await
    });
    match rotated.await? {
        Ok(_) => Ok(Json(one(&app, &name).await?).into_response()),
        Err(why) => refused(why),
    }
}

pub async fn pause(
    key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Name(name): Name,
    Given(request): Given<PauseRequest, LARGEST_BODY>,
) -> Result<Json<Overview>, Error> {
    one(&app, &name).await?;
    let length = Duration::from_secs(request.seconds.unwrap_or(PAUSE).into());
    if length.is_zero() || length > LONGEST {
        return Err(Error::ConnectionWrong);
    }
    let author = Author::of(&app, key.name());
    let target = Target::Connection(name.clone());
    let paused = finished(async move {
        let (app, by) = (&author.app, author.by());
        let until = by.now.plus(length);
        pauses::begin(&app.db, by, app.clock.id(), target, until).await
    });
    match paused.await? {
        Ok(_) => Ok(Json(one(&app, &name).await?)),
        Err(pauses::Refused::Length) => Err(Error::ConnectionWrong),
        Err(pauses::Refused::Database(error)) => Err(error.into()),
    }
}

pub async fn resume(
    key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Name(name): Name,
) -> Result<Json<Overview>, Error> {
    one(&app, &name).await?;
    let author = Author::of(&app, key.name());
    let target = Target::Connection(name.clone());
    finished(async move { pauses::end(&author.app.db, author.by(), &target).await }).await??;
    Ok(Json(one(&app, &name).await?))
}

pub async fn remove(
    key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Name(name): Name,
) -> Result<Response, Error> {
    let author = Author::of(&app, key.name());
    let removed = finished(async move { flow::remove(&author.app.db, author.by(), &name).await });
    match removed.await? {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(why) => refused(why),
    }
}

pub async fn test(
    _key: OfAllShops<ConnectionsWrite>,
    State(app): State<Arc<App>>,
    Name(name): Name,
) -> Result<Json<ConnectionTest>, Error> {
    one(&app, &name).await?;
    let known = app.connections.now();
    let clients = &app.clients;
    let said = if let Some(connection) = known.storefront(&name) {
        match clients.storefront(connection) {
            Some(client) => {
                let shop = connection.shops.first().map_or("", String::as_str);
                flow::accepts_token(client.probe(shop).await)
            }
            None => Err("has no API, or its token cannot be read here".to_owned()),
        }
    } else if let Some(client) = known.payment(&name).and_then(|it| clients.payment_of(it)) {
        flow::accepts_token(client.probe().await)
    } else {
        Err("has no API, or its token cannot be read here".to_owned())
    };
    Ok(Json(ConnectionTest {
        accepted: said.is_ok(),
        error: said.err(),
    }))
}

async fn all(app: &App) -> Result<Vec<Overview>, Error> {
    let (config, now) = (&app.config, app.clock.now());
    let all = flow::overviews(&app.db, &config.secrets_keys, &config.public_url, now);
    Ok(all.await?)
}

async fn one(app: &App, name: &str) -> Result<Overview, Error> {
    let found = all(app).await?.into_iter().find(|it| it.name == name);
    found.ok_or(Error::ConnectionNotFound)
}

fn api(url: Option<String>, token: Option<String>) -> Result<Option<NewApi>, Refused> {
    match (url, token) {
        (None, None) => Ok(None),
        (Some(url), Some(token)) => Ok(Some(NewApi {
            url: url.trim().trim_end_matches('/').to_owned(),
            token: Token::new(token.trim()),
        })),
        _ => Err(Refused::HalfApi),
    }
}

/// The answer to a change that was refused. Its text says what to do.
fn refused(why: Refused) -> Result<Response, Error> {
    let error = match &why {
        Refused::Database(_) => {
            let Refused::Database(error) = why else {
                return Err(Error::Internal);
            };
            return Err(error.into());
        }
        Refused::Unknown => return Err(Error::ConnectionNotFound),
        Refused::NameTaken
        | Refused::NameUsed
        | Refused::InUse(_)
        | Refused::ShopTaken(..)
        | Refused::AccountTaken(..)
        | Refused::NoBuyers
        | Refused::Moves(..) => Error::ConnectionTaken,
        Refused::NoKey => Error::NoSecretsKey,
        _ => Error::ConnectionWrong,
    };
    let detail = why.to_string().into();
    Ok(error.with_body(Json(DetailBody { detail })))
}

/// What connections are sealed with here.
fn means(app: &App) -> Means<'_> {
    Means {
        keys: &app.config.secrets_keys,
        cleartext: &app.config.cleartext_allowed,
    }
}
