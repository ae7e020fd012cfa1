//! `/livez`, `/readyz`, `/metrics`, `/doctor` and `/robots.txt`, for load balancers, monitoring, our own
//! command and robots.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use server::probes;
use server::probes::{Alive, Readiness};
use utoipa::ToSchema;

use crate::App;
use crate::openapi::operation::{Operation, get, tagged};

pub fn routes() -> Vec<Operation> {
    let live = get("/livez", live)
        .is("live", "Whether the process runs")
        .answers::<Alive>(200, "It does.");
    let ready = get("/readyz", ready)
        .is("ready", "Whether deliveries can be accepted")
        .answers::<Readiness>(
            200,
            "`ready`, or `degraded`: they are, and wait in the database for the bus, or until the database is \
             compared with the journal of erasures. Until then all else is answered 503, as `erasures` and \
             `reason` say.",
        )
        .answers::<Readiness>(
            503,
            "`unavailable`: there is no database that takes writes; or `stopping`: the process is about to end.",
        );
    let metrics = get("/metrics", metrics)
        .is("metrics", "Metrics in Prometheus' text format")
        .about("Keep it from the public. With `Accept: application/openmetrics-text` it is OpenMetrics 1.0.")
        .answers_with(
            200,
            "The metrics.",
            ["text/plain", "application/openmetrics-text"],
        );
    let doctor = get("/doctor", doctor)
        .is(
            "doctor",
            "What `waybill doctor` compares with its own settings",
        )
        .answers::<RunsWith>(
            200,
            "Codes of the settings, which only who has the key can compare.",
        );
    let robots = get("/robots.txt", robots)
        .is("robots", "Asks robots to stay away from everything")
        .answers_with(200, "The request.", ["text/plain"]);
    tagged("Service", [live, ready, metrics, doctor, robots])
}

/// Answers 200 as long as the process runs.
pub async fn live() -> Response {
    probes::live()
}

/// Answers 200 while deliveries can be accepted: `ready`, or `degraded` if their jobs wait in the database,
/// because the bus does not work or the database may not be served yet. Answers 503 if deliveries cannot be
/// accepted, because there is no database, or if the process is about to stop.
pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let found = probes::look(&app.db, &app.bus, &app.journal).await;
    let (code, status) = if app.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if !found.database.is_up() {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if !found.bus || !found.erasures.is_current() {
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

/// Asks search engines to stay away from everything.
pub async fn robots() -> Response {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    (
        [(header::CONTENT_TYPE, text)],
        "User-agent: *\nDisallow: /\n",
    )
        .into_response()
}
