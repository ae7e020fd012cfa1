//! The operations for load balancers, monitoring and readers of this description.

use super::operation::{Operation, get};
use crate::routes::{Alive, Readiness, RunsWith};

pub fn operations() -> Vec<Operation> {
    let cached = |operation: Operation| {
        operation
            .header(
                "ETag",
                "Of this version.",
                "\"2c26b46b68ffc68ff99b453c1d304134\"",
            )
            .header(
                "Cache-Control",
                "How long it may be kept.",
                "public, max-age=300",
            )
            .answers_nothing(304, "The client has it: `If-None-Match` names its `ETag`.")
    };
    let all =
        vec![
        get("/livez", "live", "Whether the process runs").answers::<Alive>(200, "It does."),
        get("/readyz", "ready", "Whether deliveries can be accepted")
            .answers::<Readiness>(
                200,
                "`ready`, or `degraded`: they are, and wait in the database for the bus.",
            )
            .answers::<Readiness>(
                503,
                "`unavailable`: there is no database that takes writes, or it does not know every erasure of the \
                 journal, as `erasures` and `reason` say; or `stopping`: the process is about to end.",
            ),
        get("/metrics", "metrics", "Metrics in Prometheus' text format")
            .about("Keep it from the public. With `Accept: application/openmetrics-text` it is OpenMetrics 1.0.")
            .answers_with_either(
                200,
                "The metrics.",
                ["text/plain", "application/openmetrics-text"],
            ),
        get("/doctor", "doctor", "What `waybill doctor` compares with its own settings")
            .answers::<RunsWith>(200, "Codes of the settings, which only who has the key can compare."),
        get("/robots.txt", "robots", "Asks robots to stay away from everything")
            .answers_with(200, "The request.", "text/plain"),
        cached(
            get("/openapi.json", "describe", "This description, OpenAPI 3.1").answers_with(
                200,
                "The description.",
                "application/json",
            ),
        ),
        cached(
            get("/asyncapi.json", "describeEvents", "The events, AsyncAPI 3").answers_with(
                200,
                "The description.",
                "application/json",
            ),
        ),
        cached(
            get("/docs", "documentation", "This description, for people").answers_with(
                200,
                "The page.",
                "text/html",
            ),
        ),
    ];
    all.into_iter().map(|it| it.tag("Service")).collect()
}
