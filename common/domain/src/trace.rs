//! One id for everything that follows from a request, wherever it is done: W3C Trace Context
//! (<https://www.w3.org/TR/trace-context/>), read strictly and written as version 00.
//!
//! A trace that begins in Waybill has the id of the job or the request with which it begins, so
//! nothing has to be stored for it. `tracestate` is not passed on, as the standard allows,
//! because it is free text of the sender and could be about a person. For the same reason no
//! message has a request id that a client chose.

use std::fmt;

use uuid::Uuid;

/// The flags that are passed on: that the trace is sampled, and that its id is random (level 2).
const FLAGS: u8 = 0b11;
/// The flag that somebody records the spans of the trace.
const SAMPLED: u8 = 0b01;

/// A place in a trace, as the header `traceparent` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceContext {
    /// A new trace that begins with a job or a request of ours.
    pub fn begin(id: Uuid) -> Self {
        TraceContext {
            trace: id.as_u128(),
            span: span(id),
            flags: 0,
        }
    }

    /// Reads the header of a request. `None` when it is not a valid one; then a new trace begins.
    pub fn parse(header: &str) -> Option<Self> {
        let bytes = header.as_bytes();
        let version = hex::<2>(bytes.get(..2)?)?;
        // A later version may add more after another dash, but keeps what comes before it.
        let ends = match version {
            0 => bytes.len() == 55,
            255 => false,
            _ => bytes.len() == 55 || bytes.get(55) == Some(&b'-'),
        };
        let parted = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
        if !ends || !parted {
            return None;
        }
        let context = TraceContext {
            trace: hex::<32>(&bytes[3..35])?,
            span: u64::try_from(hex::<16>(&bytes[36..52])?).ok()?,
            flags: u8::try_from(hex::<2>(&bytes[53..55])?).ok()? & FLAGS,
        };
        (context.trace != 0 && context.span != 0).then_some(context)
    }

    /// The place of a job or a request of ours in the same trace.
    #[must_use]
    pub fn child(self, id: Uuid) -> Self {
        TraceContext {
            span: span(id),
            ..self
        }
    }

    pub fn trace_id(self) -> TraceId {
        TraceId(self.trace)
    }

    /// The id of the span, which is not 0.
    pub fn span_id(self) -> u64 {
        self.span
    }

    /// Another span of the same trace. A span is never zero.
    #[must_use]
    pub fn with_span(self, span: u64) -> Self {
        TraceContext {
            span: span.max(1),
            ..self
        }
    }

    /// Whether somebody records the spans of the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The same place, with the flag that the trace is sampled or without it.
    #[must_use]
    pub fn sampled(self, sampled: bool) -> Self {
        let others = self.flags & !SAMPLED;
        let flags = if sampled { others | SAMPLED } else { others };
        TraceContext { flags, ..self }
    }
}

/// The span of an id: the random half of the id. A span is never zero.
fn span(id: Uuid) -> u64 {
    let (_, low) = id.as_u64_pair();
    low.max(1)
}

/// Reads hex digits in lower case, because the standard allows no others.
fn hex<const DIGITS: usize>(digits: &[u8]) -> Option<u128> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != DIGITS || !digits.iter().all(is_hex) {
        return None;
    }
    u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceContext { trace, span, flags } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

/// The id of a trace, 32 digits of hex. For a trace that began in Waybill it is the id of its
/// first job, without dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(u128);

impl TraceId {
    pub fn of(id: Uuid) -> Self {
        TraceId(id.as_u128())
    }

    pub fn uuid(self) -> Uuid {
        Uuid::from_u128(self.0)
    }

    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// How a context is stored: 16 bytes of its trace, 8 of its span, and one of flags.
pub fn column(context: Option<TraceContext>) -> Option<Vec<u8>> {
    context.map(|TraceContext { trace, span, flags }| {
        let parts = [&trace.to_be_bytes()[..], &span.to_be_bytes(), &[flags]];
        parts.concat()
    })
}

/// The context that [`column`] stored.
pub fn stored(bytes: Option<Vec<u8>>) -> Option<TraceContext> {
    let bytes = bytes?;
    let (trace, rest) = bytes.split_first_chunk()?;
    let (span, flags) = rest.split_first_chunk()?;
    Some(TraceContext {
        trace: u128::from_be_bytes(*trace),
        span: u64::from_be_bytes(*span),
        flags: *flags.first()?,
    })
}
