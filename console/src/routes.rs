//! The table of all pages. A page is made by [`page`], which takes a handler of a [`Visit`] alone, so each
//! has a role; what strangers may ask for is listed apart.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use lists::audit::Audit;
use lists::deeds::jobs::{Discard, Requeue};
use lists::events::Events;
use lists::jobs::{FailingJobs, Jobs, Operations, RefusedDeliveries};
use lists::orders::{HeldOrders, Orders, RepeatedBodies};
use lists::payments::{Notifications, Payments, Subscriptions};
use lists::providers::Found;
use server::Crowded;

use crate::Console;
use crate::access::{self, Needs, Reader, SignIn, Stranger, Visit, Write};
use crate::error::Error;
use crate::frame::{self, SCRIPT, STYLE, SignInPage};
use crate::identity;
use crate::pages::{
    self, attention, charts, connections, customers, dead, deliveries, endpoints, job, keys,
    licenses, list, live, now, operations, orders, pauses, payments, privacy, reconcile, search,
    subscriptions,
};
use crate::writes;

/// Where the live view hears of deliveries.
pub const LIVE_EVENTS: &str = "/live/events";

/// The path of the one-time link.
pub const ONCE: &str = "/sign-in/once";

/// How long a page may take. A statement of it ends before.
const DEADLINE: Duration = Duration::from_secs(10);

/// A page is its own: it loads its style and its script from here, sends forms here, its script asks nobody else, and
/// nobody frames it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// What every page needs, and which is the same whatever is in the database.
const FILES: [&str; 2] = ["/console.css", "/console.js"];

pub fn router(console: Arc<Console>) -> Router {
    Router::new()
        .route("/", page(now::show))
        .route("/attention", page(attention::list))
        .route("/deliveries", page(deliveries::list))
        .route("/live", page(live::show))
        .route(LIVE_EVENTS, page(live::events))
        .route("/orders", page(list::<Orders>))
        .route("/orders/{order}", page(orders::show))
        .route("/jobs", page(list::<Jobs>))
        .route("/jobs/{id}", page(job::show))
        .route("/notifications", page(list::<Notifications>))
        .route("/repeated", page(list::<RepeatedBodies>))
        .route("/customers/{id}", page(customers::show))
        .route("/payments", page(list::<Payments>))
        .route("/payments/{id}", page(payments::show))
        .route("/subscriptions", page(list::<Subscriptions>))
        .route("/subscriptions/{id}", page(subscriptions::show))
        .route("/secrets", page(pages::secrets))
        .route("/connections", page(connections::list))
        .route("/connections/{name}", page(connections::show))
        .route("/failing", page(list::<FailingJobs>))
        .route("/dead", page(dead::list))
        .route("/dead/all/requeue", page(dead::ask_all::<Requeue>))
        .route("/dead/all/discard", page(dead::ask_all::<Discard>))
        .route("/operations", page(list::<Operations>))
        .route("/operations/{id}", page(operations::show))
        .route("/pauses", page(pauses::list))
        .route("/pauses/{id}", page(pauses::show))
        .route("/refused", page(list::<RefusedDeliveries>))
        .route("/reconcile", page(reconcile::list))
        .route("/reconcile/found", page(list::<Found>))
        .route("/privacy", page(privacy::list))
        .route("/privacy/{id}", page(privacy::show))
        .route("/privacy/{id}/decide", page(privacy::ask_decide))
        .route("/privacy/{id}/receipt", page(privacy::receipt))
        .route("/held", page(list::<HeldOrders>))
        .route("/endpoints", page(endpoints::list))
        .route("/events", page(list::<Events>))
        .route("/charts", page(charts::show))
        .route("/endpoints/{id}", page(endpoints::show))
        .route("/keys", page(keys::list))
        .route("/keys/create", page(keys::ask_create))
        .route("/keys/{id}", page(keys::show))
        .route("/licenses", page(licenses::list))
        .route("/licenses/{id}", page(licenses::show))
        .route("/orgs", page(licenses::organizations))
        .route("/audit", page(list::<Audit>))
        .route("/search", page(search::show).post(search::search))
        .route("/sign-out", post(sign_out))
        .merge(writes::table().router)
        .merge(for_strangers())
        .fallback(async || Error::NotFound)
        .method_not_allowed_fallback(async || {
            let text = "This page does not take this kind of request.";
            let page = frame::refusal("Not possible here", text);
            (StatusCode::METHOD_NOT_ALLOWED, Html(page))
        })
        .layer(middleware::from_fn_with_state(console.clone(), guard))
        .with_state(console)
}

pub fn page<R, H, F>(handler: H) -> MethodRouter<Arc<Console>>
where
    R: Needs,
    H: Fn(Visit<R>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    get(async move |visit: Visit<R>| handler(visit).await)
}

/// What somebody gets who is not signed in: to sign in, the style and the script.
fn for_strangers() -> Router<Arc<Console>> {
    let file = |kind: &'static str, text: &'static str| {
        get(async move || ([(CONTENT_TYPE, kind)], text).into_response())
    };
    Router::new()
        .route("/sign-in", get(sign_in_page).post(sign_in))
        .route(ONCE, get(sign_in_once))
        .route("/sign-in/identity", get(identity::begin))
        .route(identity::BACK, get(identity::end))
        // Browsers ask for it whatever a page says.
        .route("/favicon.ico", get(async || StatusCode::NO_CONTENT))
        .route("/console.css", file("text/css; charset=utf-8", STYLE))
        .route(
            "/console.js",
            file("text/javascript; charset=utf-8", SCRIPT),
        )
}

async fn sign_in_page() -> SignInPage {
    SignInPage::at("/")
}

async fn sign_in(given: SignIn) -> Response {
    let (key, next) = (given.fields.get("key"), given.fields.get("next"));
    let signed_in = given.stranger.sign_in(key, next).await;
    signed_in.unwrap_or_else(|error| error.response(next))
}

async fn sign_in_once(stranger: Stranger) -> Result<Response, Error> {
    stranger.sign_in_once().await
}

async fn sign_out(write: Write<Reader>) -> Result<Response, Error> {
    access::sign_out(&write).await
}

/// Around every answer: whether the request is for this console, the deadline, and the headers that keep
/// a page to itself.
async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let state = console.parts.journal.state();
    let mut answer = if !console.address.is_meant(request.uri(), request.headers()) {
        Error::Host.into_response()
    } else if request.extensions().get::<Crowded>().is_some() {
        Error::Crowded.into_response()
    } else if !state.is_current() && !FILES.contains(&request.uri().path()) {
        Error::NotServed(state).into_response()
    } else {
        let answer = tokio::time::timeout(DEADLINE, next.run(request)).await;
        answer.unwrap_or_else(|_| Error::Late.into_response())
    };
    if let Some(page) = answer.extensions_mut().remove::<SignInPage>() {
        let has_identity = console.gate.identity().is_some();
        *answer.body_mut() = Body::from(page.text(has_identity));
    }
    let headers = [
        (CACHE_CONTROL, "no-store"),
        // Not `no-referrer`: with it browsers do not say from which page a form was sent.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ];
    (headers, [(CONTENT_SECURITY_POLICY, POLICY)], answer).into_response()
}
