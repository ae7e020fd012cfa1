//! `/livez`, `/readyz` and `/metrics`, for load balancers and monitoring.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use server::probes;
pub use server::probes::{Alive, Readiness};

use crate::App;

/// Answers 200 as long as the process runs.
pub async fn live() -> Response {
    probes::live()
}

/// Answers 200 while deliveries can be accepted: `ready`, or `degraded` if the bus does not work
/// and the jobs wait in the database. Answers 503 if deliveries cannot be accepted, or if the
/// process is about to stop.
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

/// The metrics in Prometheus' text format.
pub async fn metrics() -> Response {
    probes::metrics()
}
