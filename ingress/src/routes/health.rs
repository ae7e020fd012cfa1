//! `/livez`, `/readyz` and `/metrics`, for load balancers and monitoring.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use server::probes;
pub use server::probes::{Alive, Readiness};
use utoipa::ToSchema;

use crate::App;

/// Answers 200 as long as the process runs.
pub async fn live() -> Response {
    probes::live()
}

/// Answers 200 while deliveries can be accepted: `ready`, or `degraded` if the bus does not work
/// and the jobs wait in the database. Answers 503 if deliveries cannot be accepted, because there is
/// no database or it does not know every erasure of the journal, or if the process is about to stop.
pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let found = probes::look(&app.db, &app.bus, &app.journal).await;
    let (code, status) = if app.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if !found.has_database() {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if !found.bus {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "ready")
    };
    probes::ready(code, status, found, &[])
}

/// The metrics in Prometheus' text format, or as OpenMetrics.
pub async fn metrics(headers: HeaderMap) -> Response {
    probes::metrics(&headers)
}

/// What `waybill doctor` compares with its own settings.
#[derive(Serialize, ToSchema)]
pub struct RunsWith {
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// The same for all processes with the same `PRIVACY_KEY`.
    #[schema(example = "9f86d081884c7d65")]
    installation: String,
    /// A keyed code of each setting's value. Nobody without `PRIVACY_KEY` learns the value from it.
    settings: BTreeMap<&'static str, String>,
}

/// Answers with codes of the settings that this process runs with.
pub async fn doctor(State(app): State<Arc<App>>) -> Json<RunsWith> {
    Json(RunsWith {
        version: env!("CARGO_PKG_VERSION"),
        installation: config::installation(&app.keys),
        settings: app.config.values.codes(&app.keys),
    })
}
