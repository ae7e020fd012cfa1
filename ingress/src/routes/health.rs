//! `/livez`, `/readyz` and `/metrics`, for load balancers and monitoring.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use server::probes;
pub use server::probes::{Alive, Readiness};

use crate::App;

/// The process runs.
pub async fn live() -> Response {
    probes::live()
}

/// 200 while deliveries can be accepted: `ready`, or `degraded` without the bus, when they
/// wait in the database. 503 when they cannot, or when the process is about to stop.
pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let found = probes::look(&app.db, &app.bus).await;
    let (code, status) = if app.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if !found.database {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if !found.bus {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "ready")
    };
    probes::ready(code, status, found, &[])
}

/// Prometheus text format.
pub async fn metrics() -> Response {
    probes::metrics()
}
