//! The table of all routes.

mod auth;
mod checkout;
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

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::App;
use crate::database::READ_DEADLINE;
use crate::error::Error;
use crate::{measure, request_id};

pub use self::checkout::CheckoutResponse;
pub use self::device::{DeviceCode, Login};
pub use self::discovery::AuthorizationServer;
pub use self::endpoints::{EndpointTest, Endpoints, NewEndpoint, RotatedSecret};
pub use self::events::{EventList, LONGEST_KINDS, LONGEST_WAIT, MOST_EVENTS, USUAL_EVENTS};
pub use self::health::{Alive, Readiness, RunsWith};
pub use self::journal::ALWAYS_SERVED;
pub use self::orders::{MOST_ORDERS, USUAL_ORDERS};
pub use self::privacy::{ExportLink, PrivacyRequests};
pub use self::templates::Templates;
pub use self::webhooks::{Accepted, NotUnderstood, Refusals, count_from_zero, report_counted};

pub fn router(app: Arc<App>) -> Router {
    let pages = if app.config.public_pages {
        public_pages(&app)
    } else {
        Router::new()
    };
    Router::new()
        .route("/api/commerce/orders", get(orders::list))
        .route("/api/commerce/orders/{order_id}", get(orders::show))
        .route(
            "/api/commerce/orders/{order_id}/qr.png",
            get(orders::qr_png),
        )
        .route(
            "/api/commerce/orders/{order_id}/qr.svg",
            get(orders::qr_svg),
        )
        .route(
            "/api/commerce/orders/{order_id}/parcels/{tracking_number}/qr.png",
            get(orders::parcel_qr_png),
        )
        .route(
            "/api/commerce/orders/{order_id}/parcels/{tracking_number}/qr.svg",
            get(orders::parcel_qr_svg),
        )
        .merge(privacy())
        .route_layer(middleware::from_fn(deadline))
        .route("/api/commerce/qr", post(qr::create))
        .route("/api/commerce/checkout", post(checkout::create))
        .route("/api/privacy/exports/{id}", get(privacy::export))
        .route("/api/events", get(events::list))
        .route("/api/events/stream", get(events::stream))
        .merge(endpoints())
        .route("/api/deliveries/stream", get(deliveries::stream))
        .merge(auth())
        .route(
            "/.well-known/oauth-authorization-server",
            get(discovery::show),
        )
        .route("/api/webhooks/storefront", post(webhooks::storefront))
        .route("/api/webhooks/payment", post(webhooks::payment))
        .merge(pages)
        .merge(front_page(&app))
        .route("/robots.txt", get(pages::robots))
        .route("/openapi.json", get(docs::json))
        .route("/asyncapi.json", get(docs::events))
        .route("/docs", get(docs::page))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/doctor", get(health::doctor))
        .fallback(async || Error::RouteNotFound)
        .method_not_allowed_fallback(async || Error::Method)
        .layer(middleware::from_fn_with_state(app.clone(), journal::guard))
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

/// The routes of privacy requests, for clients with an API key.
fn privacy() -> Router<Arc<App>> {
    Router::new()
        .route("/api/privacy/requests", get(privacy::list))
        .route("/api/privacy/requests/{id}", get(privacy::show))
        .route("/api/privacy/requests/{id}/retry", post(privacy::retry))
        .route("/api/privacy/requests/{id}/cancel", post(privacy::cancel))
        .route(
            "/api/privacy/requests/{id}/export-link",
            post(privacy::link_export),
        )
}

/// The routes of endpoints of webhooks, for programs with an API key.
fn endpoints() -> Router<Arc<App>> {
    Router::new()
        .route("/api/endpoints", get(endpoints::list).post(endpoints::add))
        .route(
            "/api/endpoints/{id}",
            get(endpoints::show).delete(endpoints::remove),
        )
        .route("/api/endpoints/{id}/pause", post(endpoints::pause))
        .route("/api/endpoints/{id}/resume", post(endpoints::resume))
        .route("/api/endpoints/{id}/rotate", post(endpoints::rotate))
        .route("/api/endpoints/{id}/test", post(endpoints::test))
}

/// The routes of logins, and those that need an access token (docs/login.md).
fn auth() -> Router<Arc<App>> {
    Router::new()
        .route("/auth/device/code", post(device::authorize))
        .route(
            "/auth/device/token",
            get(device::token_by_query)
                .head(device::no_head)
                .post(device::token),
        )
        .route("/auth/validate", get(auth::validate))
        .route("/templates/list", get(templates::list))
        .route_layer(middleware::from_fn(auth::guard))
}

/// The public pages to which QR codes (`qr`) lead.
fn public_pages(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/orders/{order_id}/track", get(pages::track))
        .route("/tracking/{tracking_number}", get(pages::tracking))
        .route("/pay/{order_id}", get(pages::pay))
        .route_layer(middleware::from_fn_with_state(app.clone(), pages::guard))
}

/// The page of the service itself; it is there without the public pages too.
fn front_page(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/", get(pages::front))
        .route_layer(middleware::from_fn_with_state(app.clone(), pages::guard))
}

async fn deadline(request: Request, next: Next) -> Response {
    match tokio::time::timeout(READ_DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::Unavailable.into_response(),
    }
}
