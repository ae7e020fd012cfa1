//! Spans and metrics, sent to a collector over OTLP (<https://opentelemetry.io/docs/specs/otlp/>),
//! if the operator names one. docs/observability.md says what is sent.
//!
//! These invariants hold. While nothing is sent, a look at [`is_on`] is all that happens. Whoever
//! records a span never waits: it goes into a bounded channel, and when that is full the span is
//! dropped and counted. A collector that fails or hangs delays nothing but its own task. Neither
//! names nor attributes have text that a sender chose freely, nor personal data: they are shops,
//! queues, kinds, ids, routes and statuses.
//!
//! Whether a trace is recorded is decided once, where it begins, and its flag says so from then on.
//! Only a trace that has the id of its first job is decided anew in each process, by its id, because
//! nothing is stored for it; so all processes decide the same.
//!
//! The sender is our own and not that of `opentelemetry-otlp`: our metrics are read off the registry that Prometheus
//! scrapes, and `opentelemetry_sdk` 0.33 has no way to make its metric data from numbers that are there already (its
//! fields are private and it has no constructors). For the spans alone it would be a second sender beside this one.

mod exporter;
mod measured;
mod sampler;
mod span;

use std::sync::OnceLock;
use std::time::Duration;

use domain::job::{self, JobId};
use domain::trace::TraceContext;
use platform::token::Token;
use uuid::Uuid;

pub use exporter::flush;
pub use sampler::{Ratio, Sampler};
pub use span::{Kind, Span};

use exporter::Exporter;

/// What is sent, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// `None`: no spans are recorded.
    pub traces: Option<Target>,
    /// `None`: no metrics are sent.
    pub metrics: Option<Target>,
    /// The names and values that say whose spans and metrics they are.
    pub resource: Vec<(String, String)>,
    pub sampler: Sampler,
    /// How many spans may wait.
    pub queue: usize,
    /// How many spans one request has at most.
    pub batch: usize,
    /// How long a span waits at most for others.
    pub delay: Duration,
    /// How long a batch is tried, with its repetitions.
    pub give_up: Duration,
    /// The time between two requests with metrics.
    pub interval: Duration,
}

/// Where one kind of data is sent.
#[derive(Clone, Debug)]
pub struct Target {
    /// The whole address, such as `http://127.0.0.1:4318/v1/traces`.
    pub url: String,
    /// Headers of each request, which may be credentials.
    pub headers: Vec<(String, Token)>,
    /// How long the collector may take to answer.
    pub timeout: Duration,
}

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Starts sending, once for each process. It must be called within the async runtime.
pub fn install(options: &Options) {
    if options.traces.is_none() && options.metrics.is_none() {
        return;
    }
    if EXPORTER.get().is_none() {
        let _ = EXPORTER.set(Exporter::start(options));
    }
}

/// Where spans are sent, if they are.
fn recorder() -> Option<&'static Exporter> {
    EXPORTER.get().filter(|exporter| exporter.takes_spans())
}

/// Whether spans are recorded at all.
pub fn is_on() -> bool {
    recorder().is_some()
}

/// The place of a request or a job with which a trace begins. Its flag says whether the trace is
/// recorded.
pub fn begin(id: Uuid) -> TraceContext {
    let context = TraceContext::begin(id);
    match recorder() {
        Some(exporter) => context.sampled(exporter.sampler().decides(id)),
        None => context,
    }
}

/// From which span a job follows that came with the context `stored`: its place, whose flag says
/// whether its trace is recorded, and the id of the span there. Without a context a delivery follows
/// from the request that brought it, and other work from nothing.
pub fn cause(job: JobId, kind: &str, stored: Option<TraceContext>) -> (TraceContext, Option<u64>) {
    if let Some(context) = stored {
        return (context, Some(context.span_id()));
    }
    let context = begin(job);
    let is_delivery = job::Kind::named(kind).is_some_and(job::Kind::is_delivery);
    (context, is_delivery.then(|| context.span_id()))
}

/// The place in a client's trace, as a request of ours with the id `own` goes on with it. The flag
/// then says what was decided here; while spans are not recorded, it is the client's.
#[must_use]
pub fn admit(client: TraceContext, own: Uuid) -> TraceContext {
    match recorder() {
        Some(exporter) => client.sampled(exporter.sampler().admits(client.is_sampled(), own)),
        None => client,
    }
}
