//! Refuses requests while the database may not be served (`process::journal`): it was restored from an
//! older backup and has data of people who were erased since, or nobody could look yet. Deliveries are
//! taken all the same, since workers leave them waiting meanwhile, and what only says how the process is,
//! or how it is spoken to, is answered.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::error::Error;
use crate::routes::pages::{self, Preferred};

/// Whether a request is answered whatever the database is.
pub fn is_always_served(path: &str) -> bool {
    ALWAYS_SERVED.contains(&path) || path.starts_with("/api/webhooks/")
}

/// The paths, beside those of webhooks, that show nothing of the database but how it is.
const ALWAYS_SERVED: [&str; 9] = [
    "/",
    "/livez",
    "/readyz",
    "/metrics",
    "/doctor",
    "/robots.txt",
    "/openapi.json",
    "/asyncapi.json",
    "/docs",
];

/// The beginnings of the paths of pages for people.
const PAGES: [&str; 3] = ["/orders/", "/tracking/", "/pay/"];

pub(super) fn refuses(app: &App, request: &Request) -> bool {
    !app.journal.is_current() && !is_always_served(request.uri().path())
}

/// The answer to a request that is refused before its handler is called, in the form of its path.
pub(super) fn refusal(app: &App, request: &Request, error: Error) -> Response {
    let path = request.uri().path();
    if PAGES.iter().any(|page| path.starts_with(page)) {
        pages::refusal(app, Preferred::of(request.headers()), error)
    } else if path.starts_with("/auth/device/") {
        error.of_device_login()
    } else if path == "/api/commerce/checkout" {
        error.of_checkout()
    } else {
        error.into_response()
    }
}
