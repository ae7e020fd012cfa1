//! The table of all routes.

mod auth;
mod checkout;
mod connections;
mod deliveries;
mod device;
mod discovery;
mod docs;
mod endpoints;
mod events;
mod health;
mod journal;
mod orders;
mod pages;
mod privacy;
mod qr;
mod templates;
mod webhooks;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use server::{CROWDED_PAUSE, Crowded};

use crate::App;
use crate::database::READ_DEADLINE;
use crate::error::Error;
use crate::openapi::operation::Operation;
use crate::{measure, request_id};

pub use self::journal::is_always_served;
pub use self::webhooks::{NotUnderstood, Refusals, count_from_zero, report_counted};

/// What wraps the routes of a group.
#[derive(Clone, Copy)]
enum Guard {
    Nothing,
    /// The deadline of what only reads.
    Deadline,
    Login,
    Page,
}

/// All routes, in the order in which they are described.
fn groups() -> [(Guard, Vec<Operation>); 17] {
    [
        (Guard::Nothing, webhooks::routes()),
        (Guard::Nothing, checkout::routes()),
        (Guard::Nothing, qr::routes()),
        (Guard::Deadline, orders::routes()),
        (Guard::Deadline, privacy::routes()),
        (Guard::Nothing, privacy::links()),
        (Guard::Nothing, events::routes()),
        (Guard::Nothing, deliveries::routes()),
        (Guard::Nothing, endpoints::routes()),
        (Guard::Nothing, connections::routes()),
        (Guard::Login, device::routes()),
        (Guard::Login, auth::routes()),
        (Guard::Login, templates::routes()),
        (Guard::Nothing, discovery::routes()),
        (Guard::Page, pages::routes()),
        (Guard::Nothing, health::routes()),
        (Guard::Nothing, docs::routes()),
    ]
}

pub fn operations() -> impl Iterator<Item = Operation> {
    groups().into_iter().flat_map(|(_, operations)| operations)
}

/// A path, what handles it, and what wraps the handler.
type Route = (Guard, &'static str, MethodRouter<Arc<App>>);

/// All routes, made once in a process: most of the time goes into the descriptions that are made with
/// them, and whoever serves does not need these.
static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let of_group = |(guard, operations): (Guard, Vec<Operation>)| {
        operations
            .into_iter()
            .map(move |it| (guard, it.path, it.handler))
    };
    groups().into_iter().flat_map(of_group).collect()
});

pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (guard, path, handler) in &*ROUTES {
        let handler = handler.clone();
        let handler = match guard {
            Guard::Nothing => handler,
            Guard::Deadline => handler.route_layer(middleware::from_fn(deadline)),
            Guard::Login => handler.route_layer(middleware::from_fn(auth::guard)),
            // The page of the service itself is there without the public pages too.
            Guard::Page if *path != "/" && !app.config.public_pages => continue,
            Guard::Page => {
                handler.route_layer(middleware::from_fn_with_state(app.clone(), pages::guard))
            }
        };
        router = router.route(path, handler);
    }
    router
        .fallback(async || Error::RouteNotFound)
        .method_not_allowed_fallback(async || Error::Method)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            request_id::attach,
        ))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            measure::measure,
        ))
        .with_state(app)
}

/// Refuses a request before any of its body is read, when its client has its share of the requests under way, or the
/// database may not be served.
async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.extensions().get::<Crowded>().is_some() {
        let error = Error::RateLimited(CROWDED_PAUSE);
        return webhooks::refusal(&app, &request, error)
            .unwrap_or_else(|| journal::refusal(&app, &request, error));
    }
    if journal::refuses(&app, &request) {
        return journal::refusal(&app, &request, Error::NotServed);
    }
    next.run(request).await
}

async fn deadline(request: Request, next: Next) -> Response {
    match tokio::time::timeout(READ_DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::Unavailable.into_response(),
    }
}
