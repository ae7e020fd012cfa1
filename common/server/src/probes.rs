//! `/livez`, `/readyz` and `/metrics`, which are the same in every listening process.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bus::Bus;
use process::journal::{Journal, JournalState};
use serde::Serialize;
use store::sql::{Access, Db};
use tokio::time::timeout;
use utoipa::ToSchema;

const PING_DEADLINE: Duration = Duration::from_secs(1);

/// The version of Prometheus' text format that [`metrics`] answers in.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The version of OpenMetrics that [`metrics`] answers in, if it is asked for it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the database and the bus of a process can be used at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Dependencies {
    pub database: Database,
    /// Also true without a broker, because the bus is then within the process.
    pub bus: bool,
    /// Whether the database knows every erasure of the journal.
    pub erasures: JournalState,
}

impl Dependencies {
    /// True when workers may work on what is in the database.
    pub fn can_be_worked_on(&self) -> bool {
        self.database.is_up() && self.erasures.is_current()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Up,
    /// It answers, and takes no writes.
    ReadOnly,
    Down,
}

impl Database {
    pub fn is_up(self) -> bool {
        self == Database::Up
    }
}

pub async fn look(db: &Db, bus: &Bus, journal: &Journal) -> Dependencies {
    Dependencies {
        database: match timeout(PING_DEADLINE, db.access()).await {
            Ok(Ok(Access::Writes)) => Database::Up,
            Ok(Ok(Access::ReadOnly | Access::Standby)) => Database::ReadOnly,
            Ok(Err(_)) | Err(_) => Database::Down,
        },
        bus: bus.is_up(),
        erasures: journal.state(),
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
    /// `up`, `read_only` or `down`.
    #[schema(example = "up")]
    database: &'static str,
    /// `up` or `down`.
    #[schema(example = "up")]
    bus: &'static str,
    /// How the database and the journal of erasures stand to each other: `current`, or why the database is
    /// not served: `older`, `incomplete`, `broken` or `unknown`.
    #[schema(example = "current")]
    erasures: &'static str,
    /// Why the database is not served, and what an operator is to do about it.
    reason: Option<String>,
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
        database: match found.database {
            Database::Up => "up",
            Database::ReadOnly => "read_only",
            Database::Down => "down",
        },
        bus: up(found.bus),
        erasures: found.erasures.as_str(),
        reason: reason(found.erasures),
        more: more
            .iter()
            .map(|(name, is_up)| (*name, up(*is_up)))
            .collect(),
    };
    (code, Json(body)).into_response()
}

fn reason(erasures: JournalState) -> Option<String> {
    (!erasures.is_current()).then(|| format!("{erasures}. {}", erasures.mend()))
}

/// The metrics in Prometheus' text format, or as OpenMetrics if the client asks for that.
pub fn metrics(asked: &HeaderMap) -> Response {
    let (kind, text) = if prefers_open_metrics(asked) {
        (OPEN_METRICS, platform::metrics::render_open_metrics())
    } else {
        (TEXT_FORMAT, platform::metrics::render())
    };
    let headers = [(header::CONTENT_TYPE, kind), (header::VARY, "accept")];
    (headers, text).into_response()
}

/// Whether `Accept` names a version of OpenMetrics that we have, and nothing else before it.
pub fn prefers_open_metrics(asked: &HeaderMap) -> bool {
    let asked = asked.get_all(header::ACCEPT).iter();
    let ranges = asked.filter_map(|value| value.to_str().ok());
    let (mut open, mut text) = (0.0, 0.0);
    for range in ranges.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|it| it.split_once('=')).collect();
        let parameter = |name: &str| {
            let of_name = |(given, _): &&(&str, &str)| given.eq_ignore_ascii_case(name);
            parameters.iter().find(of_name).map(|(_, value)| *value)
        };
        let quality = parameter("q").map_or(Some(1.0), |quality| quality.parse().ok());
        let quality: f32 = quality.unwrap_or(0.0);
        if kind.eq_ignore_ascii_case("application/openmetrics-text") {
            let is_ours = parameter("version").is_none_or(|version| version == "1.0.0");
            open = if is_ours { quality.max(open) } else { open };
        } else if kind.eq_ignore_ascii_case("text/plain") {
            text = quality.max(text);
        }
    }
    open > 0.0 && open >= text
}
