//! Counters, gauges and timings, rendered for Prometheus at `/metrics`. All metrics are listed in
//! one table (`table`), which docs/metrics.md shows. A test compares the table with what is
//! scraped.
//!
//! The values of labels are bounded: sources, queues, kinds with a handler, reasons, templates of
//! routes. A label is never an id, a shop or anything else that a sender chooses.

pub mod open_metrics;
mod process;
mod table;

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{SharedString, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

pub use table::{ALL, By, Kind, Metric};

use crate::task;

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

const UPKEEP_PAUSE: Duration = Duration::from_secs(5);

const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Installs the recorder, once for each process.
pub fn install() -> anyhow::Result<()> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".into()), SIZES)?
        .build_recorder();
    let _ = HANDLE.set(recorder.handle());
    // A second installation, by a test in the same process, changes nothing.
    if metrics::set_global_recorder(recorder).is_ok() {
        describe();
        task::spawn("metrics upkeep", upkeep());
    }
    Ok(())
}

fn describe() {
    for metric in ALL {
        let help = SharedString::const_str(metric.help);
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, help),
            Kind::Gauge => describe_gauge!(metric.name, help),
            Kind::Histogram => describe_histogram!(metric.name, help),
        }
    }
}

/// Shows the counters of this process that have no labels with the value 0, so that the first
/// increment can be seen as an increase.
pub fn begin(by: By) {
    for metric in ALL {
        let is_ours = [by, By::Every].contains(&metric.by) && metric.labels.is_empty();
        if is_ours && metric.kind == Kind::Counter && !process::is_ours(metric.name) {
            counter!(metric.name).increment(0);
        }
    }
}

/// Records the version, the database and the bus of this process.
pub fn record_build(database: &'static str, bus: &'static str) {
    let version = env!("CARGO_PKG_VERSION");
    gauge!("waybill_build_info", "version" => version, "database" => database, "bus" => bus)
        .set(1.0);
}

/// Merges the samples of histograms. Otherwise they would grow forever in a process that nobody
/// scrapes.
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
    let mut text = handle.render();
    process::render(&mut text);
    text
}

/// The same as OpenMetrics 1.0.
pub fn render_open_metrics() -> String {
    open_metrics::of(&render())
}
