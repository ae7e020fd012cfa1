//! What the log, the metrics and the broker's dead-letter queue say of the runs of jobs.

use std::time::Duration;

use bus::JobRef;
use domain::job::{Job, Kind, Next, Run};
use domain::trace::TraceContext;
use platform::clock::Clock;
use platform::crash_point::{self, Point};
use platform::task;
use telemetry::Span;

use crate::Worker;
use crate::failure::JobFailure;

impl Worker {
    /// Reports a failure that is recorded, in the log, in a metric and, if the job is dead, in the
    /// broker's dead-letter queue.
    pub(crate) fn announce(&self, job: &Job, next: Next, failure: &JobFailure) {
        let id = job.id;
        let attempts = job.attempts + 1;
        let kind = job.kind.into_str();
        let context = job.context();
        let (request_id, trace_id) = (job.request_id(), context.trace_id());
        let error = failure.text.as_str();
        match next {
            Next::RetryAt(run_at) => {
                count(job.kind, "retry");
                self.record_run(job, "retry");
                tracing::warn!(
                    job = %id, kind, %request_id, %trace_id, attempts, error, %run_at,
                    "a job failed and will be tried again"
                );
            }
            Next::Dead => {
                count(job.kind, "dead");
                self.record_run(job, "dead");
                tracing::error!(
                    job = %id, kind, %request_id, %trace_id, attempts, error,
                    "a job is dead; see `waybill dead show`"
                );
                let (bus, queue) = (self.parts.bus.clone(), self.queue);
                let job_ref = JobRef {
                    job: id,
                    traceparent: job.traceparent,
                };
                task::spawn("dead letter", async move {
                    crash_point::reach(Point::DeadLetter).await;
                    if let Err(error) = bus.dead_letter(queue, kind, job_ref).await {
                        tracing::debug!(%error, "the broker does not show a dead letter");
                    }
                    crash_point::reach(Point::DeadLettered).await;
                });
            }
        }
    }

    /// Logs and counts jobs that are done.
    pub(crate) fn finished<'a>(&self, jobs: impl IntoIterator<Item = &'a Job>) {
        for job in jobs {
            count(job.kind, "done");
            self.record_run(job, "done");
            tracing::debug!(
                job = %job.id, kind = job.kind.into_str(), request_id = %job.request_id(),
                trace_id = %job.context().trace_id(), "a job is done"
            );
        }
    }

    /// Records the span of a run that has ended, if it is recorded.
    pub(crate) fn record_run(&self, job: &Job, outcome: &'static str) {
        let Some(run) = job.run else { return };
        let bus = &self.parts.bus;
        let destination = bus.destination(job.kind.queue());
        let (_, parent) = telemetry::cause(job.id, job.kind.into_str(), job.traceparent);
        let name = || format!("process {destination}");
        let Some(span) = Span::at(run.context, parent, telemetry::Kind::Consumer, name) else {
            return;
        };
        let mut span = span.since(run.begun_at);
        if let Some(message) = run.message {
            span.link(message);
        }
        span.text("messaging.system", bus.system());
        span.text("messaging.operation.name", "process");
        span.text("messaging.operation.type", "process");
        span.text("messaging.destination.name", destination.as_str());
        span.text("waybill.job.id", job.id.to_string());
        span.text("waybill.kind", job.kind.into_str());
        if let Some(shop) = &job.shop {
            span.text("waybill.shop", shop.as_str());
        }
        span.number("waybill.job.attempts", job.attempts);
        span.text("waybill.outcome", outcome);
        if outcome != "done" {
            span.fail(outcome);
        }
    }
}

/// From now on a span of the job's run is recorded, if the job's trace is. `message` is the span of the
/// message that brought it.
pub(crate) fn begin_run(job: &mut Job, message: Option<TraceContext>) {
    if !telemetry::is_on() {
        return;
    }
    let (cause, _) = telemetry::cause(job.id, job.kind.into_str(), job.traceparent);
    if cause.is_sampled() {
        job.run = Some(Run {
            context: cause.with_span(Clock::span_id()),
            message,
            begun_at: Clock::real(),
        });
    }
}

/// The span of a job's run in the log. Whatever is logged within it, even a panic, names the job and the
/// request that the job follows from.
pub(crate) fn span(job: &Job) -> tracing::Span {
    // It has the highest level, so it is there whatever lines RUST_LOG leaves out.
    tracing::error_span!(
        "job", job = %job.id, kind = job.kind.into_str(), request_id = %job.request_id(),
        trace_id = %job.context().trace_id()
    )
}

/// Counts how long a run took.
pub(crate) fn took(kind: Kind, time: Duration) {
    metrics::histogram!(
        "waybill_run_seconds", "queue" => kind.queue().into_str(), "kind" => kind.into_str()
    )
    .record(time);
}

fn count(kind: Kind, outcome: &'static str) {
    metrics::counter!(
        "waybill_jobs_run_total",
        "queue" => kind.queue().into_str(), "kind" => kind.into_str(), "outcome" => outcome
    )
    .increment(1);
}
