//! Which traces are recorded (`OTEL_TRACES_SAMPLER`).
//!
//! The last 56 bits of an id decide, as the specification takes them
//! (<https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/>). All of them are random
//! in our ids, which are UUIDs version 7. The 64 bits that earlier samplers took begin with the two
//! bits of the UUID's variant, so a ratio of 1 % would record nothing.

use uuid::Uuid;

/// How many bits of an id decide.
const BITS: u32 = 56;

/// Which part of all traces is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Traces with a number from here on are recorded.
    from: u64,
}

impl Ratio {
    pub const ALL: Ratio = Ratio { from: 0 };
    pub const NONE: Ratio = Ratio { from: 1 << BITS };

    /// From a part between 0 and 1; `None` for any other number.
    pub fn of(part: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&part) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number from 0 to 2^56"
        )]
        let from = ((1.0 - part) * (1_u64 << BITS) as f64) as u64;
        Some(Ratio { from })
    }

    pub fn takes(self, id: Uuid) -> bool {
        let (_, low) = id.as_u64_pair();
        low & ((1 << BITS) - 1) >= self.from
    }
}

/// How it is decided whether a trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    pub ratio: Ratio,
    /// Whether a client's trace that is not sampled there is not recorded here either.
    pub parent_based: bool,
}

impl Sampler {
    /// For a trace that begins with a request or a job of ours.
    pub fn decides(self, id: Uuid) -> bool {
        self.ratio.takes(id)
    }

    /// For a trace that a client began. The client chooses the trace's id and its flag, so neither
    /// can make us record more than the ratio: the id of our own request decides.
    pub fn admits(self, is_sampled: bool, own: Uuid) -> bool {
        (is_sampled || !self.parent_based) && self.ratio.takes(own)
    }
}
