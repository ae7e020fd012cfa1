//! The spans of messages and events, as OpenTelemetry's conventions for messaging name them.

use domain::job::Queue;
use domain::trace::TraceContext;
use telemetry::{Kind, Span};

use crate::{Bus, JobRef};

/// The span of sending a message. It is below the span from which the first of its recorded jobs
/// follows, and has links to those of the others. `None`: no trace of its jobs is recorded.
pub fn message(bus: &Bus, queue: Queue, kind: &str, jobs: &[JobRef]) -> Option<Span> {
    if !telemetry::is_on() {
        return None;
    }
    let cause = |job_ref: &JobRef| telemetry::cause(job_ref.job, kind, job_ref.traceparent);
    let mut causes = jobs
        .iter()
        .map(cause)
        .filter(|(context, _)| context.is_sampled());
    let (first, parent) = causes.next()?;
    let destination = bus.destination(queue);
    let name = || format!("publish {destination}");
    let mut span = match parent {
        Some(_) => Span::below(first, Kind::Producer, name)?,
        None => Span::root(first, Kind::Producer, name)?,
    };
    for (context, parent) in causes {
        if parent.is_some() {
            span.link(context);
        }
    }
    sent(&mut span, bus.system(), destination);
    let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    span.number("messaging.batch.message_count", count);
    span.text("waybill.kind", kind);
    Some(span)
}

/// The span of sending an event to whoever reads events. `None`: its trace is not recorded.
pub fn event(
    system: &'static str,
    destination: &str,
    kind: &str,
    cause: TraceContext,
) -> Option<Span> {
    let mut span = Span::below(cause, Kind::Producer, || format!("publish {destination}"))?;
    sent(&mut span, system, destination.to_owned());
    span.text("waybill.event", kind);
    Some(span)
}

fn sent(span: &mut Span, system: &'static str, destination: String) {
    span.text("messaging.system", system);
    span.text("messaging.operation.name", "publish");
    span.text("messaging.operation.type", "send");
    span.text("messaging.destination.name", destination);
}
