//! `/api/endpoints`: where events are sent as webhooks, for programs with an API key
//! (docs/webhooks.md). The command `waybill endpoints` does the same.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use domain::api_key::Shops;
use domain::endpoint::ROTATION;
use domain::event::Pattern;
use domain::time::Timestamp;
use operators::endpoints::{self as flow, Change, Seen, TEST_PATIENCE, Tested, WantedEndpoint};
use providers::endpoints::AddressError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::endpoints::{self, Endpoint};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::App;
use crate::api_key::{EndpointsRead, EndpointsWrite, Holder, Needs};
use crate::author::{Author, finished};
use crate::body::Given;
use crate::error::Error;
use crate::openapi::bodies;
use crate::openapi::operation::{Input, Operation, delete, get, post, tagged};

/// The largest body of a request.
const LARGEST_BODY: usize = 16 * 1024;

pub fn routes() -> Vec<Operation> {
    let list = get("/api/endpoints", list)
        .is("listEndpoints", "Where events are sent")
        .about("The addresses to which they are sent as webhooks, and RabbitMQ, if there is one.")
        .answers::<EndpointList>(200, "The endpoints, the oldest first.");
    let url = "https://shop.example/hooks/waybill";
    let all = json!({"url": url});
    let some = json!({"url": url, "types": ["order.*", "payment.#"], "since_seconds": 3600});
    let add = post("/api/endpoints", add)
        .is("addEndpoint", "Send events to an address as webhooks")
        .about(
            "Webhooks are signed as in Standard Webhooks, with the `secret` of the answer, which is shown this \
             one time. The endpoint gets the events that happen from now on, or those of the last \
             `since_seconds` too.",
        )
        .takes(&bodies::one("EndpointRequest", [("all", all), ("some", some)]))
        .answers::<NewEndpoint>(201, "The endpoint and its secret.")
        .errors(&[
            Error::EndpointTypes,
            Error::EndpointTooLong,
            Error::TooManyEndpoints,
            Error::EndpointAddress(AddressError::NotAUrl),
            Error::EndpointAddress(AddressError::Credentials),
            Error::EndpointAddress(AddressError::Cleartext),
            Error::EndpointAddress(AddressError::Private),
        ]);
    let show = get("/api/endpoints/{id}", show)
        .is("getEndpoint", "An endpoint")
        .answers::<Endpoint>(200, "The endpoint.");
    let remove = delete("/api/endpoints/{id}", remove)
        .is("removeEndpoint", "Remove an endpoint and what waits for it")
        .answers_content(204, "It is removed.", &json!({}))
        .errors(&[Error::EndpointIsBroker]);
    let pause = post("/api/endpoints/{id}/pause", pause)
        .is(
            "pauseEndpoint",
            "Send no events to an endpoint until it is resumed",
        )
        .answers::<Endpoint>(200, "The endpoint as it is then.");
    let resume = post("/api/endpoints/{id}/resume", resume)
        .is("resumeEndpoint", "Send events to an endpoint again")
        .about("It begins with those that wait, which are due at once.")
        .answers::<Endpoint>(200, "The endpoint as it is then.");
    let rotate = post("/api/endpoints/{id}/rotate", rotate)
        .is("rotateEndpoint", "Give an endpoint another secret")
        .about("For a day webhooks are signed with both secrets.")
        .answers::<RotatedSecret>(200, "The new secret.")
        .errors(&[Error::EndpointIsBroker]);
    let test = post("/api/endpoints/{id}/test", test)
        .is("testEndpoint", "Send a test event to an endpoint")
        .about("The event's type is `endpoint.test`. A worker sends it, as it sends all others. The answer comes after at most \
                20 seconds.")
        .answers::<EndpointTest>(200, "Whether the endpoint accepted it.");
    tagged(
        "Events",
        [list, add, show, remove, pause, resume, rotate, test],
    )
}

#[derive(Serialize, ToSchema)]
pub struct EndpointList {
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

// No Debug: the secret would be in it.
#[derive(Serialize, ToSchema)]
pub struct NewEndpoint {
    endpoint: Endpoint,
    /// What webhooks are verified with. It is shown this one time.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw..")]
    secret: String,
}

// No Debug: the secret would be in it.
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
    /// The id of the event, and of the job that sends it.
    id: Uuid,
    /// Null when no worker has said so far what became of it.
    accepted: Option<bool>,
    /// Why it was not accepted, or what to look at.
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

impl<N> OfAllShops<N> {
    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl<N: Needs> Input for OfAllShops<N> {
    fn describe(operation: Operation) -> Operation {
        operation
            .with::<Holder<N>>()
            .errors(&[Error::EndpointShops])
    }
}

/// The endpoint that a path names.
#[derive(IntoParams)]
#[into_params(names("id"))]
pub struct EndpointId(
    /// The endpoint's id.
    #[param(example = "01a3185c-5000-7cc3-98c4-dc0c0c07398f")]
    Uuid,
);

impl Input for EndpointId {
    fn describe(operation: Operation) -> Operation {
        operation
            .in_path::<EndpointId>()
            .errors(&[Error::EndpointNotFound])
    }
}

impl FromRequestParts<Arc<App>> for EndpointId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<Uuid>::from_request_parts(parts, app).await;
        path.map(|Path(id)| EndpointId(id))
            .map_err(|_| Error::EndpointNotFound)
    }
}

pub async fn list(
    _key: OfAllShops<EndpointsRead>,
    State(app): State<Arc<App>>,
) -> Result<Json<EndpointList>, Error> {
    let endpoints = endpoints::list(&app.db).await?;
    Ok(Json(EndpointList { endpoints }))
}

pub async fn show(
    _key: OfAllShops<EndpointsRead>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<Endpoint>, Error> {
    Ok(Json(flow::find(&app.db, id).await?))
}

pub async fn add(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    Given(request): Given<EndpointRequest, LARGEST_BODY>,
) -> Result<Response, Error> {
    let types = request.types.iter().map(|text| text.parse());
    let types = types
        .collect::<Result<Vec<Pattern>, _>>()
        .map_err(|_| Error::EndpointTypes)?;
    let author = Author::of(&app, key.name());
    let added = finished(async move {
        let (app, by) = (&author.app, author.by());
        let new = WantedEndpoint {
            id: app.clock.id(),
            url: &request.url,
            types,
            since: request
                .since_seconds
                .map(|it| Duration::from_secs(it.into())),
        };
        flow::add(&app.db, by, &app.clock, &app.config.endpoints, new).await
    });
    let (endpoint, secret) = added.await??;
    let new = NewEndpoint {
        endpoint,
        secret: secret.reveal(),
    };
    Ok((StatusCode::CREATED, Json(new)).into_response())
}

pub async fn pause(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<Endpoint>, Error> {
    change(&app, &key, id, Change::Pause).await?;
    Ok(Json(flow::find(&app.db, id).await?))
}

pub async fn resume(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<Endpoint>, Error> {
    change(&app, &key, id, Change::Resume).await?;
    Ok(Json(flow::find(&app.db, id).await?))
}

pub async fn remove(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<StatusCode, Error> {
    change(&app, &key, id, Change::Remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn rotate(
    key: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Response, Error> {
    let author = Author::of(&app, key.name());
    let rotated = finished(async move {
        let (app, by) = (&author.app, author.by());
        flow::rotate(&app.db, by, &app.clock, id, ROTATION, Seen::Any).await
    });
    let (secret, former_secret_until) = rotated.await??;
    let rotated = RotatedSecret {
        secret: secret.reveal(),
        former_secret_until,
    };
    Ok(Json(rotated).into_response())
}

pub async fn test(
    _: OfAllShops<EndpointsWrite>,
    State(app): State<Arc<App>>,
    EndpointId(id): EndpointId,
) -> Result<Json<EndpointTest>, Error> {
    let tested = finished(async move { flow::test(&app.db, &app.clock, id, TEST_PATIENCE).await });
    let Tested { id, outcome } = tested.await??;
    Ok(Json(EndpointTest {
        id,
        accepted: outcome.accepted(),
        error: outcome.error().map(ToOwned::to_owned),
    }))
}

async fn change(
    app: &Arc<App>,
    key: &OfAllShops<EndpointsWrite>,
    id: Uuid,
    change: Change,
) -> Result<bool, Error> {
    let author = Author::of(app, key.name());
    let changed =
        finished(async move { flow::change(&author.app.db, author.by(), id, change).await });
    Ok(changed.await??)
}
