//! `/livez`, `/readyz` and `/metrics`, which are the same in every listening process.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bus::Bus;
use serde::Serialize;
use store::sql::Db;
use tokio::time::timeout;
use utoipa::ToSchema;

const PING_DEADLINE: Duration = Duration::from_secs(1);

/// The version of Prometheus' text format that [`metrics`] answers in.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the database and the bus of a process can be reached at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Dependencies {
    pub database: bool,
    /// Also true without a broker, because the bus is then within the process.
    pub bus: bool,
}

pub async fn look(db: &Db, bus: &Bus) -> Dependencies {
    Dependencies {
        database: matches!(timeout(PING_DEADLINE, db.ping()).await, Ok(Ok(()))),
        bus: bus.is_up(),
    }
}

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
    /// What only some processes have, `up` or `down`.
    #[serde(flatten)]
    #[schema(ignore)]
    more: BTreeMap<&'static str, &'static str>,
}

/// The answer of `/livez`: the process runs.
pub fn live() -> Response {
    Json(Alive { status: "ok" }).into_response()
}

/// The answer of `/readyz`: what was found, and what else this process has to say.
pub fn ready(
    code: StatusCode,
    status: &'static str,
    found: Dependencies,
    more: &[(&'static str, bool)],
) -> Response {
    let up = |up| if up { "up" } else { "down" };
    let body = Readiness {
        status,
        database: up(found.database),
        bus: up(found.bus),
        more: more
            .iter()
            .map(|(name, is_up)| (*name, up(*is_up)))
            .collect(),
    };
    (code, Json(body)).into_response()
}

/// The metrics in Prometheus' text format.
pub fn metrics() -> Response {
    (
        [(header::CONTENT_TYPE, TEXT_FORMAT)],
        platform::metrics::render(),
    )
        .into_response()
}
