//! `/livez`, `/readyz` and `/metrics`, for load balancers and monitoring.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::App;

const PING_DEADLINE: Duration = Duration::from_secs(1);

#[derive(Serialize, ToSchema)]
pub struct Alive {
    /// `ok`
    #[schema(example = "ok")]
    status: &'static str,
}

#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// `ready`, `degraded`, `unavailable` or `stopping`.
    #[schema(example = "ready")]
    status: &'static str,
    /// `up` or `down`.
    #[schema(example = "up")]
    database: &'static str,
    /// `up` or `down`.
    #[schema(example = "up")]
    bus: &'static str,
}

/// The process runs.
pub async fn live() -> Response {
    Json(Alive { status: "ok" }).into_response()
}

/// 200 while deliveries can be accepted: `ready`, or `degraded` without the bus, when they
/// wait in the database. 503 when they cannot, or when the process is about to stop.
pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let database = matches!(timeout(PING_DEADLINE, app.db.ping()).await, Ok(Ok(())));
    let bus = app.bus.is_up();
    let (code, status) = if app.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if !database {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if !bus {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "ready")
    };
    let up = |up| if up { "up" } else { "down" };
    let body = Readiness {
        status,
        database: up(database),
        bus: up(bus),
    };
    (code, Json(body)).into_response()
}

/// Prometheus text format.
pub async fn metrics() -> Response {
    common::metrics::render().into_response()
}
