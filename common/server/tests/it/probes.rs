//! Who gets metrics in the form of OpenMetrics.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use server::probes::prefers_open_metrics;

#[test]
fn open_metrics_are_for_whoever_prefers_them() {
    for (accept, is_open) in [
        ("application/openmetrics-text", true),
        (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
        // What Prometheus sends.
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            true,
        ),
        (
            "text/plain;version=0.0.4, application/openmetrics-text;q=0.5",
            false,
        ),
        ("application/openmetrics-text;version=2.0.0", false),
        ("application/openmetrics-text;q=0", false),
        ("application/openmetrics-text;q=x", false),
        ("text/plain", false),
        ("*/*", false),
        ("", false),
    ] {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        assert_eq!(prefers_open_metrics(&headers), is_open, "{accept}");
    }
    assert!(!prefers_open_metrics(&HeaderMap::new()));
}
