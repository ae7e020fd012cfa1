//! `/api/privacy` lists privacy requests, retries and cancels them, and makes links to exports,
//! for clients with an API key (docs/privacy.md). Opening a link needs no key, because the holder
//! of a key gave the link to the person who shall have the export.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use domain::api_key::Shops;
use domain::privacy::link;
use domain::time::Timestamp;
use platform::task;
use providers::exports::Exports;
use serde::{Deserialize, Serialize};
use store::audit;
use store::export_links;
use store::privacy_requests::{self, By, Filter, History, RequestEntry};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::App;
use crate::api_key::{Holder, PrivacyRead, PrivacyWrite};
use crate::error::Error;
use crate::openapi::operation::{Input, Operation, get, post, tagged};

/// How long reading an export may take. The export store may be on another machine.
const EXPORT_DEADLINE: Duration = Duration::from_secs(20);

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-content-sha256");

/// The parameter of a further operation on the same request.
const ID: (&str, &str) = ("id", "$request.path.id");

pub fn routes() -> Vec<Operation> {
    let list = get("/api/privacy/requests", list)
        .is("listPrivacyRequests", "Privacy requests by deadline")
        .about("The nearest deadline first; without `state` those that are neither done nor cancelled.")
        .answers::<PrivacyRequestList>(200, "The requests.");
    let show = get("/api/privacy/requests/{id}", show)
        .is("getPrivacyRequest", "A privacy request and its audit")
        .answers::<History>(200, "The request.")
        .link(
            "linkPrivacyExport",
            "A link to its export, if it has one.",
            &[ID],
        )
        .link(
            "retryPrivacyRequest",
            "Starts it again, if it failed.",
            &[ID],
        )
        .link("cancelPrivacyRequest", "Cancels it, if it is held.", &[ID]);
    let retry = post("/api/privacy/requests/{id}/retry", retry)
        .is(
            "retryPrivacyRequest",
            "Start a request again that was given up",
        )
        .answers::<History>(200, "The request as it is then.")
        .link("getPrivacyRequest", "How it stands later.", &[ID])
        .errors(&[Error::PrivacyNotFailed]);
    let cancel = post("/api/privacy/requests/{id}/cancel", cancel)
        .is(
            "cancelPrivacyRequest",
            "Cancel the erasure of a shop that is held",
        )
        .about("A customer's request cannot be cancelled.")
        .answers::<History>(200, "The request as it is then.")
        .link("getPrivacyRequest", "How it stands later.", &[ID])
        .errors(&[Error::PrivacyDuty, Error::PrivacyNotHeld]);
    let link = post("/api/privacy/requests/{id}/export-link", link_export)
        .is(
            "linkPrivacyExport",
            "A link to an export, for somebody without an API key",
        )
        .about("It is good for five minutes; who made it and who followed it is in the audit.")
        .answers::<ExportLink>(200, "The link.")
        .errors(&[Error::PrivacyFailed, Error::NoExport, Error::ExportExpired]);
    tagged("Privacy", [list, show, retry, cancel, link])
}

/// Where the links lead.
pub fn links() -> Vec<Operation> {
    let export = get("/api/privacy/exports/{id}", export)
        .is("getPrivacyExport", "The document behind a link")
        .about("Follow a link of `linkPrivacyExport` as it is: it is signed.")
        .answers_with(
            200,
            "All that is held about the customer.",
            ["application/json"],
        )
        .header(
            "Content-Disposition",
            "Keep it as a file.",
            "attachment; filename=\"export-01a3185c.json\"",
        )
        .header(
            "X-Content-SHA256",
            "Of the document, in hex.",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        )
        .errors(&[Error::ExportExpired, Error::ExportUnreadable]);
    tagged("Privacy", [export])
}

#[derive(Serialize, ToSchema)]
pub struct PrivacyRequestList {
    requests: Vec<RequestEntry>,
}

// No Debug: whoever has the link has the export.
#[derive(Serialize, ToSchema)]
pub struct ExportLink {
    #[schema(
        example = "https://waybill.example/api/privacy/exports/01a3185c-5000-7cc3-98c4-dc0c0c07398f?expires=1795184985&signature=mY0s.."
    )]
    url: String,
    expires_at: Timestamp,
}

/// The privacy request that a path names.
#[derive(IntoParams)]
#[into_params(names("id"))]
pub struct RequestId(
    /// The request's id.
    #[param(example = "01a3185c-5000-7cc3-98c4-dc0c0c07398f")]
    Uuid,
);

impl Input for RequestId {
    fn describe(operation: Operation) -> Operation {
        operation
            .in_path::<RequestId>()
            .errors(&[Error::PrivacyRequestNotFound])
    }
}

impl FromRequestParts<Arc<App>> for RequestId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<Uuid>::from_request_parts(parts, app).await;
        path.map(|Path(id)| RequestId(id))
            .map_err(|_| Error::PrivacyRequestNotFound)
    }
}

/// The filter of the list of requests: `?state=`, `?shop=` and `?limit=`.
pub struct Wanted {
    filter: Filter,
    limit: i64,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Given {
    /// Those in this state, or all.
    #[param(example = "failed")]
    state: Option<String>,
    /// Those of this shop.
    #[param(pattern = r"^[^\x00]*$", example = "shop.example")]
    shop: Option<String>,
    /// How many at most.
    #[param(value_type = Option<usize>, minimum = 1, maximum = 1000, default = 100, example = 100)]
    limit: Option<i64>,
}

impl Input for Wanted {
    fn describe(operation: Operation) -> Operation {
        let states = ["received", "held", "done", "cancelled", "failed", "all"];
        operation
            .in_query::<Given>()
            .one_of("state", &states)
            .errors(&[Error::PrivacyQuery])
    }
}

impl FromRequestParts<Arc<App>> for Wanted {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        const USUAL: i64 = 100;
        const MOST: i64 = 1000;
        let query = Query::<Given>::from_request_parts(parts, app).await;
        let Query(given) = query.map_err(|_| Error::PrivacyQuery)?;
        let state = given.state.as_deref().filter(|state| *state != "all");
        let state = state.map(str::parse).transpose();
        let limit = given.limit.unwrap_or(USUAL);
        let is_shop = |shop: &String| !shop.contains('\0');
        if !(1..=MOST).contains(&limit) || !given.shop.as_ref().is_none_or(is_shop) {
            return Err(Error::PrivacyQuery);
        }
        Ok(Wanted {
            filter: Filter {
                state: state.map_err(|_| Error::PrivacyQuery)?,
                topic: None,
                shop: given.shop.map(|shop| shop.to_ascii_lowercase()),
                shops: None,
                open: given.state.is_none(),
                customer: None,
            },
            limit,
        })
    }
}

/// Lists requests by their deadlines, the nearest first. Without `?state=` it lists the open ones.
pub async fn list(
    key: Holder<PrivacyRead>,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let filter = Filter {
        shops: key.shops.0,
        ..wanted.filter
    };
    let requests = privacy_requests::list(&app.db, &filter, wanted.limit).await?;
    Ok(Json(PrivacyRequestList { requests }).into_response())
}

/// Shows a request and its entries in the audit.
pub async fn show(
    key: Holder<PrivacyRead>,
    State(app): State<Arc<App>>,
    RequestId(id): RequestId,
) -> Result<Response, Error> {
    shown(&app, &key.shops, id).await
}

/// Starts a failed request again, and answers with its new state.
pub async fn retry(
    key: Holder<PrivacyWrite>,
    State(app): State<Arc<App>>,
    RequestId(id): RequestId,
) -> Result<Response, Error> {
    change(&app, &key, id, Change::Retry).await?;
    shown(&app, &key.shops, id).await
}

/// Cancels the erasure of a shop that is held, and answers with its new state.
pub async fn cancel(
    key: Holder<PrivacyWrite>,
    State(app): State<Arc<App>>,
    RequestId(id): RequestId,
) -> Result<Response, Error> {
    change(&app, &key, id, Change::Cancel).await?;
    shown(&app, &key.shops, id).await
}

/// Makes a link to the export, for somebody without an API key.
pub async fn link_export(
    key: Holder<PrivacyWrite>,
    State(app): State<Arc<App>>,
    RequestId(id): RequestId,
) -> Result<Response, Error> {
    let expires = app.clock.now().plus(link::PERIOD).unix_seconds();
    let expires_at = Timestamp::from_unix_seconds(expires);
    change(&app, &key, id, Change::Link(expires)).await?;
    let path = link::path(&app.keys, id, expires);
    let url = format!("{}{path}", app.config.public_url);
    let link = ExportLink { url, expires_at };
    Ok(Json(link).into_response())
}

/// An extractor: a handler that gets one was called through a link whose signature is right.
pub struct Link {
    id: Uuid,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Signed {
    /// When the link ends, in Unix seconds.
    #[param(example = 1_795_000_000)]
    expires: i64,
    /// Of the link.
    #[param(example = "mY0s..")]
    signature: String,
}

impl Input for Link {
    fn describe(operation: Operation) -> Operation {
        let errors = [Error::ExportLink, Error::Unavailable, Error::Internal];
        let operation = operation.needs("exportLink").errors(&errors);
        operation.in_path::<RequestId>().in_query::<Signed>()
    }
}

impl FromRequestParts<Arc<App>> for Link {
    type Rejection = Error;

    /// Checks the signature. For a link that Waybill did not sign nothing is looked up, so all
    /// such links get the same answer.
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<Uuid>::from_request_parts(parts, app).await;
        let query = Query::<Signed>::from_request_parts(parts, app).await;
        let (Ok(Path(id)), Ok(Query(signed))) = (path, query) else {
            return Err(Error::ExportLink);
        };
        let now = app.clock.now();
        if !link::is_good(&app.keys, id, signed.expires, &signed.signature, now)
            || !export_links::is_known(&app.db, id, signed.expires).await?
        {
            return Err(Error::ExportLink);
        }
        Ok(Link { id })
    }
}

/// Answers with the document behind a link.
pub async fn export(State(app): State<Arc<App>>, link: Link) -> Result<Response, Error> {
    let id = link.id;
    // This writes an entry into the audit, so it must go on when the client disconnects.
    let fetched = task::finish("export", async move {
        let exports = Exports::new(&app.config.privacy.exports);
        let by = by(&app, audit::LINK);
        operators::exports::fetch(&app.db, by, &exports, id).await
    });
    let fetched = tokio::time::timeout(EXPORT_DEADLINE, fetched).await;
    let fetched = fetched.map_err(|_| Error::ExportUnreadable)?;
    let (export, document) = fetched.ok_or(Error::Internal)??;
    let name = format!("attachment; filename=\"export-{id}.json\"");
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_DISPOSITION, name),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CONTENT_SHA256, export.sha256),
    ];
    Ok((headers, document).into_response())
}

enum Change {
    Retry,
    Cancel,
    /// Makes a link that ends at this time, in seconds since 1970.
    Link(i64),
}

/// Runs a change in a task of its own, so that it goes on when the client disconnects.
async fn change(
    app: &Arc<App>,
    key: &Holder<PrivacyWrite>,
    id: Uuid,
    change: Change,
) -> Result<(), Error> {
    let entry = privacy_requests::find(&app.db, id).await?;
    // The shop of a request never changes, so this check stays true.
    if !entry.is_some_and(|entry| key.shops.have(&entry.shop)) {
        return Err(Error::PrivacyRequestNotFound);
    }
    let app = app.clone();
    let actor = format!("key:{}", key.name);
    let done = task::finish("privacy request", async move {
        let by = by(&app, &actor);
        match change {
            Change::Retry => privacy_requests::retry(&app.db, by, id).await,
            Change::Cancel => privacy_requests::cancel(&app.db, by, id).await,
            Change::Link(expires) => privacy_requests::link_export(&app.db, by, id, expires).await,
        }
    });
    Ok(done.await.ok_or(Error::Internal)??)
}

fn by<'a>(app: &'a App, actor: &'a str) -> By<'a> {
    By {
        keys: &app.keys,
        actor,
        now: app.clock.now(),
    }
}

/// Finds a request. A request of a shop that the key does not open is answered as if it did not
/// exist.
async fn shown(app: &App, shops: &Shops, id: Uuid) -> Result<Response, Error> {
    let history = privacy_requests::history(&app.db, id).await?;
    let history = history.filter(|history| shops.have(&history.entry.shop));
    let history = history.ok_or(Error::PrivacyRequestNotFound)?;
    Ok(Json(history).into_response())
}
