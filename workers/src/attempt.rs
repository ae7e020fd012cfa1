//! The runs of jobs that fail, as the table `job_attempts` keeps them.

use std::time::Duration;

use domain::time::Timestamp;
use platform::clock::Clock;
use store::job_attempts::{NewAttempt, Outcome};

/// When a run began, by which its attempt says how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Timestamp,
    elapsed: Duration,
}

impl Begun {
    pub fn now(clock: &Clock) -> Self {
        Begun {
            at: clock.now(),
            elapsed: clock.elapsed(),
        }
    }

    /// The attempt that has just ended. `error` has no personal data.
    pub fn attempt<'a>(
        &self,
        clock: &Clock,
        outcome: Outcome,
        error: &'a str,
        status: Option<u16>,
    ) -> NewAttempt<'a> {
        let took = clock.elapsed().saturating_sub(self.elapsed);
        NewAttempt {
            started_at: self.at,
            duration_ms: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
            outcome,
            error,
            status,
        }
    }
}
