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

/// The text of a context for the database.
pub fn column(context: Option<TraceContext>) -> Option<String> {
    context.map(|context| context.to_string())
}

/// Reads the text of a context from the database.
pub fn stored(text: Option<String>) -> Option<TraceContext> {
    TraceContext::parse(&text?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_comes_out_as_it_went_in() {
        let context = TraceContext::parse(GIVEN).unwrap();
        assert_eq!(context.to_string(), GIVEN);
        assert_eq!(
            context.trace_id().to_string(),
            "0af7651916cd43dd8448eb211c80319c"
        );
    }

    #[test]
    fn what_is_not_to_the_letter_is_no_header() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "FF-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-ñaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_this_one_goes() {
        for later in [
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes",
        ] {
            assert_eq!(TraceContext::parse(later).unwrap().to_string(), GIVEN);
        }
    }

    #[test]
    fn flags_that_have_no_meaning_are_cleared() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fd";
        assert_eq!(TraceContext::parse(given).unwrap().to_string(), GIVEN);
    }

    #[test]
    fn a_trace_that_begins_here_has_the_id_of_its_first_job() {
        let id = Uuid::from_u128(0x01a1_f957_0358_77c2_b0f7_57af_41d2_2cc2);
        let context = TraceContext::begin(id);
        assert_eq!(
            context.to_string(),
            "00-01a1f957035877c2b0f757af41d22cc2-b0f757af41d22cc2-00"
        );
        assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        let child = TraceContext::parse(GIVEN).unwrap().child(id);
        assert_eq!(
            child.to_string(),
            "00-0af7651916cd43dd8448eb211c80319c-b0f757af41d22cc2-01"
        );
    }

    #[test]
    fn the_flag_sampled_is_set_and_cleared_and_the_others_stay() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03";
        let context = TraceContext::parse(given).unwrap();
        assert!(context.is_sampled());
        let cleared = context.sampled(false);
        assert!(!cleared.is_sampled());
        assert!(cleared.to_string().ends_with("-02"));
        assert_eq!(cleared.sampled(true), context);
        let other = context.with_span(0xb7);
        assert_eq!(
            (other.trace_id(), other.span_id()),
            (context.trace_id(), 0xb7)
        );
        assert_eq!(context.with_span(0).span_id(), 1);
    }

    /// By their form alone some of these would be taken as a telephone number or a digest.
    #[test]
    fn no_trace_id_is_redacted_in_a_log_line() {
        let mut number: u128 = 1;
        for _ in 0..20_000 {
            number = number.wrapping_mul(0x2545_F491_4F6C_DD1D_2545_F491_4F6C_DD1D) ^ (number >> 7);
            let text = TraceId(number).to_string();
            assert_eq!(crate::redact::redact(&text), text);
        }
    }
}
