//! What a provider does wrong when it is told to: for its next requests, or until cleared.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status with the provider's error body; the request has no effect.
    Status(u16),
    /// The effect happens at once, its answer comes so much later.
    Slow(Duration),
    /// The request is read, has no effect, and is never answered.
    Timeout,
    /// The effect happens, then the connection is closed without an answer.
    Lose,
    /// 429 with `Retry-After: 1`; no effect.
    RateLimit,
    /// 502 with a page of HTML, as a proxy gives it; no effect.
    Html,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Status(status) => write!(f, "status {status}"),
            Fault::Slow(by) => write!(f, "slow by {} s", by.as_secs_f64()),
            Fault::Timeout => f.write_str("timeout"),
            Fault::Lose => f.write_str("lose"),
            Fault::RateLimit => f.write_str("rate_limit"),
            Fault::Html => f.write_str("html"),
        }
    }
}

/// The faults to come. Counted ones are used up in the order in which they were set; while
/// there are none, the standing one applies.
#[derive(Default)]
pub struct Faults {
    counted: VecDeque<(Fault, u32)>,
    standing: Option<Fault>,
}

impl Faults {
    pub fn stand(&mut self, fault: Fault) {
        self.standing = Some(fault);
    }

    pub fn count(&mut self, times: u32, fault: Fault) {
        if times > 0 {
            self.counted.push_back((fault, times));
        }
    }

    pub fn clear(&mut self) {
        *self = Faults::default();
    }

    /// The fault of the next request.
    pub fn take(&mut self) -> Option<Fault> {
        let Some((fault, left)) = self.counted.front_mut() else {
            return self.standing;
        };
        let fault = *fault;
        *left -= 1;
        if *left == 0 {
            self.counted.pop_front();
        }
        Some(fault)
    }

    /// For people, the next one first.
    pub fn describe(&self) -> Vec<String> {
        let counted = self.counted.iter();
        let counted = counted.map(|(fault, left)| format!("{fault}, for {left} more"));
        let standing = self.standing.iter();
        counted
            .chain(standing.map(|fault| format!("{fault}, until cleared")))
            .collect()
    }
}
