//! `/api/endpoints`: where events are sent as webhooks, for programs with an API key
//! (docs/webhooks.md). The command `waybill endpoints` does the same.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::api_key::Shops;
use domain::endpoint::ROTATION;
use domain::event::Pattern;
use domain::time::Timestamp;
use operators::endpoints::{self as flow, Change, New, Seen};
use platform::task;
use serde::{Deserialize, Serialize};
use store::audit::By;
use store::endpoints::{self, Endpoint};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::App;
use crate::api_key::{EndpointsRead, EndpointsWrite, Holder, Needs};
use crate::body;
use crate::error::Error;

/// The largest body of a request.
const LARGEST_BODY: usize = 16 * 1024;

#[derive(Serialize, ToSchema)]
pub struct Endpoints {
    /// The oldest first.
    endpoints: Vec<Endpoint>,
}

/// The endpoint to be added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointRequest {
    url: String,
    #[serde(default)]
    types: Vec<String>,
    since_seconds: Option<u32>,
}

/// No Debug: the secret would be in it.
#[derive(Serialize, ToSchema)]
pub struct NewEndpoint {
    endpoint: Endpoint,
    /// What webhooks are verified with. It is shown this one time.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw..")]
    secret: String,
}

/// No Debug: the secret would be in it.
#[derive(Serialize, ToSchema)]
pub struct RotatedSecret {
    /// What webhooks are verified with from now on. It is shown this one time.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw..")]
    secret: String,
    /// Until when the former secret signs too.
    former_secret_until: Timestamp,
}

/// What an endpoint did with a test event.
#[derive(Serialize, ToSchema)]
pub struct EndpointTest {
    /// The id of the event.
    id: Uuid,
    accepted: bool,
    /// Why it was not accepted.
    error: Option<String>,
}

/// A key that opens all shops. An endpoint gets the events of all of them.
pub struct OfAllShops<N>(Holder<N>);

impl<N: Needs + Send> FromRequestParts<Arc<App>> for OfAllShops<N> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let holder = Holder::<N>::from_request_parts(parts, app).await?;
        match holder.shops {
            Shops(None) => Ok(OfAllShops(holder)),
            Shops(Some(_)) => Err(Error::EndpointShops),
        }
    }
}

/// The endpoint that a path names.
pub struct EndpointId(Uuid);

impl FromRequestParts<Arc<App>> for EndpointId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<Uuid>::from_request_parts(parts, app).await;
        path.map(|Path(id)| EndpointId(id))
            .map_err(|_| Error::EndpointNotFound)
    }
}

/// Lists all endpoints.
pub async fn list(
    _key: OfAllShops<EndpointsRead>,
    State(app): State<Arc<App>>,
) -> Result<Json<Endpoints>, Error> {
    let endpoints = endpoints::list(&app.db).await?;
    Ok(Json(Endpoints { endpoints }))
}

/// Shows an endpoint.
pub async fn show(
    _key: OfAllShops<EndpointsRead>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<Endpoint>, Error> {
    Ok(Json(flow::find(&app.db, id).await?))
}

/// Adds an endpoint, and answers with its secret.
pub async fn add(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read(&headers, body, LARGEST_BODY).await?;
    let request: EndpointRequest = body::parse(&body)?;
    let types = request.types.iter().map(|text| text.parse());
    let types = types
        .collect::<Result<Vec<Pattern>, _>>()
        .map_err(|_| Error::EndpointTypes)?;
    let author = Author::of(&app, &key);
    let added = finished(async move {
        let (app, by) = (&author.app, author.by());
        let new = New {
            id: app.clock.id(),
            url: &request.url,
            types,
            since: request
                .since_seconds
                .map(|it| Duration::from_secs(it.into())),
        };
        flow::add(&app.db, by, &app.clock, &app.config.endpoints, new).await
    });
    let (endpoint, secret) = added.await?;
    let new = NewEndpoint {
        endpoint,
        secret: secret.reveal(),
    };
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, Json(new)).into_response())
}

/// Sends no more events to an endpoint until it is resumed.
pub async fn pause(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<Endpoint>, Error> {
    change(&app, &key, id, Change::Pause).await?;
    Ok(Json(flow::find(&app.db, id).await?))
}

/// Sends events to an endpoint again.
pub async fn resume(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<Endpoint>, Error> {
    change(&app, &key, id, Change::Resume).await?;
    Ok(Json(flow::find(&app.db, id).await?))
}

/// Removes an endpoint.
pub async fn remove(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<StatusCode, Error> {
    change(&app, &key, id, Change::Remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives an endpoint another secret, and answers with it.
pub async fn rotate(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Response, Error> {
    let author = Author::of(&app, &key);
    let rotated = finished(async move {
        let (app, by) = (&author.app, author.by());
        flow::rotate(&app.db, by, &app.clock, id, ROTATION, Seen::Any).await
    });
    let (secret, former_secret_until) = rotated.await?;
    let rotated = RotatedSecret {
        secret: secret.reveal(),
        former_secret_until,
    };
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok((headers, Json(rotated)).into_response())
}

/// Sends a test event to an endpoint, and answers with what became of it.
pub async fn test(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<EndpointTest>, Error> {
    let author = Author::of(&app, &key);
    let tested = finished(async move {
        let (app, by) = (&author.app, author.by());
        let (event, webhook) = flow::test_event(&app.db, by, &app.clock, id).await?;
        let sent = app.endpoints().send(webhook).await;
        Ok((event, sent))
    });
    let (id, sent) = tested.await?;
    Ok(Json(EndpointTest {
        id,
        accepted: sent.is_ok(),
        error: sent.err().map(|failed| failed.to_string()),
    }))
}

async fn change(
    app: &Arc<App>,
    key: &OfAllShops<EndpointsWrite>,
    id: Uuid,
    change: Change,
) -> Result<bool, Error> {
    let author = Author::of(app, key);
    finished(async move { flow::change(&author.app.db, author.by(), id, change).await }).await
}

/// The holder of a key who changes something.
struct Author {
    app: Arc<App>,
    actor: String,
}

impl Author {
    fn of(app: &Arc<App>, key: &OfAllShops<EndpointsWrite>) -> Self {
        Author {
            app: app.clone(),
            actor: format!("key:{}", key.0.name),
        }
    }

    fn by(&self) -> By<'_> {
        By {
            keys: &self.app.keys,
            actor: &self.actor,
            now: self.app.clock.now(),
        }
    }
}

/// Runs a change in a task of its own, so that it goes on when the client disconnects.
async fn finished<T: Send + 'static>(
    work: impl Future<Output = Result<T, flow::Refused>> + Send + 'static,
) -> Result<T, Error> {
    let done = task::finish("change of an endpoint", work);
    Ok(done.await.ok_or(Error::Internal)??)
}
