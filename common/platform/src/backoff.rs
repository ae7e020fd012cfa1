//! Pauses between tries of something that fails. Each pause is twice as long as the one before,
//! up to a longest pause.
//!
//! This is for a loop of one process that tries until it succeeds or is stopped. How long a
//! failed job waits is decided in `domain::job`, and how often a call to a provider is tried at
//! once is decided where the call is made.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// The pauses of one loop. It only tells the loop how long to wait.
#[derive(Debug)]
pub struct Backoff {
    settings: ExponentialBuilder,
    pauses: ExponentialBackoff,
    longest: Duration,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        let settings = ExponentialBuilder::new()
            .with_min_delay(first.min(longest))
            .with_max_delay(longest)
            .without_max_times();
        Backoff {
            settings,
            pauses: settings.build(),
            longest,
        }
    }

    /// How long to wait after another failure.
    pub fn next_pause(&mut self) -> Duration {
        self.pauses.next().unwrap_or(self.longest)
    }

    /// To be called after a success. The next pause is the first one again.
    pub fn reset(&mut self) {
        self.pauses = self.settings.build();
    }
}
