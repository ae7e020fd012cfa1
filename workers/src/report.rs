//! What the log, the metrics and the broker's dead-letter queue say of the runs of jobs.

use std::time::Duration;

use bus::JobRef;
use domain::job::{Job, Next, Queue};
use platform::task;
use tracing::Span;

use crate::Worker;
use crate::failure::JobFailure;

impl Worker {
    /// Reports a failure that is recorded, in the log, in a metric and, if the job is dead, in the
    /// broker's dead-letter queue.
    pub(crate) fn announce(&self, job: &Job, next: Next, failure: &JobFailure) {
        let queue = self.queue.as_str();
        let id = job.id;
        let attempts = job.attempts + 1;
        let kind = job.kind.clone();
        let context = job.context();
        let (request_id, trace_id) = (job.request_id(), context.trace_id());
        let error = failure.text.as_str();
        match next {
            Next::RetryAt(run_at) => {
                count(queue, &kind, "retry");
                tracing::warn!(
                    job = %id, kind, %request_id, %trace_id, attempts, error, %run_at,
                    "a job failed and will be tried again"
                );
            }
            Next::Dead => {
                count(queue, &kind, "dead");
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
                    if let Err(error) = bus.dead_letter(queue, &kind, job_ref).await {
                        tracing::debug!(%error, "the broker does not show a dead letter");
                    }
                });
            }
        }
    }
}

/// The span of a job's run. Whatever is logged within it, even a panic, names the job and the
/// request that the job follows from.
pub(crate) fn span(job: &Job) -> Span {
    // It has the highest level, so it is there whatever lines RUST_LOG leaves out.
    tracing::error_span!(
        "job", job = %job.id, kind = job.kind, request_id = %job.request_id(),
        trace_id = %job.context().trace_id()
    )
}

/// Counts how long a run took.
pub(crate) fn took(queue: Queue, kind: &str, time: Duration) {
    metrics::histogram!(
        "waybill_run_seconds", "queue" => queue.as_str(), "kind" => kind.to_owned()
    )
    .record(time);
}

/// Logs and counts jobs that are done.
pub(crate) fn finished<'a>(jobs: impl IntoIterator<Item = &'a Job>) {
    for job in jobs {
        count(job.queue.as_str(), &job.kind, "done");
        tracing::debug!(
            job = %job.id, kind = job.kind, request_id = %job.request_id(),
            trace_id = %job.context().trace_id(), "a job is done"
        );
    }
}

fn count(queue: &'static str, kind: &str, outcome: &'static str) {
    metrics::counter!(
        "waybill_jobs_run_total",
        "queue" => queue, "kind" => kind.to_owned(), "outcome" => outcome
    )
    .increment(1);
}
