//! Counters and timings, rendered for Prometheus at `/metrics`.
//!
//! Labels are bounded: sources, queues, kinds with a handler, reasons. Never ids, shops or
//! anything else a sender chooses.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::task;

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

const UPKEEP_PAUSE: Duration = Duration::from_secs(5);

const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Installs the recorder, once a process.
pub fn install() -> anyhow::Result<()> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".into()), SIZES)?
        .build_recorder();
    let _ = HANDLE.set(recorder.handle());
    // A second installation, by a test in the same process, changes nothing.
    if metrics::set_global_recorder(recorder).is_ok() {
        task::spawn("metrics upkeep", upkeep());
    }
    Ok(())
}

/// Folds histograms together: without it what nobody scrapes would grow without end.
async fn upkeep() {
    while let Some(handle) = HANDLE.get() {
        handle.run_upkeep();
        tokio::time::sleep(UPKEEP_PAUSE).await;
    }
}

/// The text that Prometheus scrapes.
pub fn render() -> String {
    let Some(handle) = HANDLE.get() else {
        return String::new();
    };
    handle.run_upkeep();
    handle.render()
}
