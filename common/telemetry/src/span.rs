//! A span while it is open. When it is dropped, it has ended and is sent.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::trace::TraceContext;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValueKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span as Sent, Status};
use platform::clock::Clock;

use crate::recorder;

/// What a span is to the spans around it (OpenTelemetry, SpanKind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request that a client made here.
    Server,
    /// A request that we make.
    Client,
    /// A message or an event that we send.
    Producer,
    /// Work on a job that a message brought.
    Consumer,
}

impl Kind {
    fn number(self) -> i32 {
        match self {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
        }
        .into()
    }
}

/// A span that is recorded. Dropped, it has ended.
#[derive(Debug)]
pub struct Span {
    context: TraceContext,
    parent: Option<u64>,
    kind: Kind,
    name: Cow<'static, str>,
    begun_at: SystemTime,
    attributes: Vec<KeyValue>,
    links: Vec<TraceContext>,
    has_failed: bool,
    /// The failure of work that is dropped before its end.
    abandoned_as: Option<&'static str>,
}

impl Span {
    /// A span with an id of its own below `parent`. `None` when the trace is not recorded; then
    /// `name` is not asked for.
    pub fn below<N>(parent: TraceContext, kind: Kind, name: impl FnOnce() -> N) -> Option<Self>
    where
        N: Into<Cow<'static, str>>,
    {
        let context = parent.with_span(Clock::span_id());
        Self::at(context, Some(parent.span_id()), kind, name)
    }

    /// The same, with no parent.
    pub fn root<N>(trace: TraceContext, kind: Kind, name: impl FnOnce() -> N) -> Option<Self>
    where
        N: Into<Cow<'static, str>>,
    {
        Self::at(trace.with_span(Clock::span_id()), None, kind, name)
    }

    /// The span that others already know as `context`. `None` when the trace is not recorded.
    pub fn at<N>(
        context: TraceContext,
        parent: Option<u64>,
        kind: Kind,
        name: impl FnOnce() -> N,
    ) -> Option<Self>
    where
        N: Into<Cow<'static, str>>,
    {
        let is_recorded = context.is_sampled() && recorder().is_some();
        is_recorded.then(|| Span {
            context,
            parent,
            kind,
            name: name().into(),
            begun_at: Clock::real(),
            attributes: Vec::new(),
            links: Vec::new(),
            has_failed: false,
            abandoned_as: None,
        })
    }

    /// The same, begun at an earlier time.
    #[must_use]
    pub fn since(self, begun_at: SystemTime) -> Self {
        let mut span = self;
        span.begun_at = begun_at;
        span
    }

    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Adds a text, which must be neither personal data nor chosen freely by a sender.
    pub fn text(&mut self, key: &'static str, text: impl Into<String>) {
        self.add(key, AnyValueKind::StringValue(text.into()));
    }

    pub fn number(&mut self, key: &'static str, number: i64) {
        self.add(key, AnyValueKind::IntValue(number));
    }

    /// Adds a link to the span of another place.
    pub fn link(&mut self, to: TraceContext) {
        self.links.push(to);
    }

    /// The work failed for this reason, which is one of a few.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.has_failed = true;
        self.text("error.type", reason);
    }

    /// If the span is dropped from now on, the work was given up before its end, and has failed for
    /// this reason.
    pub fn abandoned_as(&mut self, reason: &'static str) {
        self.abandoned_as = Some(reason);
    }

    /// The work has come to its end.
    pub fn not_abandoned(&mut self) {
        self.abandoned_as = None;
    }

    fn add(&mut self, key: &'static str, value: AnyValueKind) {
        self.attributes.push(pair(key, value));
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(reason) = self.abandoned_as.take() {
            self.fail(reason);
        }
        if let Some(exporter) = recorder() {
            exporter.take(self.ended());
        }
    }
}

/// The flag of OTLP that says that it is known whether the parent is remote, which is not known here,
/// is left out; the low bits are the flags of the trace.
const SAMPLED: u32 = 1;

impl Span {
    fn ended(&mut self) -> Sent {
        let end = Clock::real().max(self.begun_at);
        let code = if self.has_failed {
            StatusCode::Error
        } else {
            StatusCode::Unset
        };
        Sent {
            trace_id: self.context.trace_id().bytes().into(),
            span_id: self.context.span_id().to_be_bytes().into(),
            parent_span_id: self
                .parent
                .map(|id| id.to_be_bytes().into())
                .unwrap_or_default(),
            flags: SAMPLED,
            name: std::mem::take(&mut self.name).into_owned(),
            kind: self.kind.number(),
            start_time_unix_nano: nanos(self.begun_at),
            end_time_unix_nano: nanos(end),
            attributes: std::mem::take(&mut self.attributes),
            links: self.links.iter().copied().map(link).collect(),
            status: Some(Status {
                code: code.into(),
                ..Status::default()
            }),
            ..Sent::default()
        }
    }
}

fn link(to: TraceContext) -> Link {
    Link {
        trace_id: to.trace_id().bytes().into(),
        span_id: to.span_id().to_be_bytes().into(),
        flags: SAMPLED,
        ..Link::default()
    }
}

pub fn pair(key: impl Into<String>, value: AnyValueKind) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Nanoseconds since 1970.
pub fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
