//! Every route on one screen.

mod health;
mod orders;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::App;
use crate::error::Error;
use crate::request_id;

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/api/webhooks/storefront", post(webhooks::storefront))
        .route("/api/webhooks/payment", post(webhooks::payment))
        .route("/api/commerce/orders/{order_id}", get(orders::show))
        .route("/api/commerce/orders/{order_id}/qr.png", get(orders::qr_png))
        .route("/api/commerce/orders/{order_id}/qr.svg", get(orders::qr_svg))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .fallback(async || Error::RouteNotFound)
        .method_not_allowed_fallback(async || Error::Method)
        .layer(middleware::from_fn_with_state(app.clone(), request_id::attach))
        .with_state(app)
}
