//! A provider that does not answer is left alone: after a call whose tries all timed out,
//! others are refused at once, and one every few seconds finds out whether it is back.
//! Without it every worker would wait for the same silent server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::clock::Clock;

/// How long a provider is left alone, and how long the one that asks has for its answer.
pub const PAUSE: Duration = Duration::from_secs(5);
const PROBE: Duration = Duration::from_secs(30);

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Breaker {
    provider: &'static str,
    clock: Clock,
    /// None: it answers. Else a value of [`Clock::elapsed`], which no change of the system's time moves.
    open_until: Arc<Mutex<Option<Duration>>>,
}

impl Breaker {
    pub fn new(provider: &'static str, clock: &Clock) -> Self {
        let breaker = Breaker {
            provider,
            clock: clock.clone(),
            open_until: Arc::default(),
        };
        breaker.show(false);
        breaker
    }

    /// True when a call may be made. Of those that ask after the pause, one may.
    pub fn admits(&self) -> bool {
        let mut until = self.lock();
        match *until {
            None => true,
            Some(instant) if self.clock.elapsed() < instant => false,
            Some(_) => {
                *until = Some(self.clock.elapsed() + PROBE);
                true
            }
        }
    }

    /// True while [`Breaker::admits`] would refuse.
    pub fn is_open(&self) -> bool {
        self.lock()
            .is_some_and(|until| self.clock.elapsed() < until)
    }

    /// The provider does not answer.
    pub fn open(&self) {
        *self.lock() = Some(self.clock.elapsed() + PAUSE);
        self.show(true);
    }

    /// The provider answered.
    pub fn close(&self) {
        if self.lock().take().is_some() {
            self.show(false);
        }
    }

    fn show(&self, open: bool) {
        metrics::gauge!("waybill_provider_breaker_open", "provider" => self.provider)
            .set(if open { 1.0 } else { 0.0 });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Duration>> {
        self.open_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn breaker() -> Breaker {
        Breaker::new("test", &Clock::manual(Timestamp(0)))
    }

    #[test]
    fn one_caller_at_a_time_asks_a_provider_that_was_silent() {
        let breaker = breaker();
        assert!(breaker.admits() && breaker.admits());
        breaker.open();
        assert!(breaker.is_open() && !breaker.admits());
        breaker.clock.advance(PAUSE);
        assert!(breaker.admits(), "the one that asks");
        assert!(!breaker.admits(), "the others wait for its answer");
        breaker.close();
        assert!(breaker.admits() && breaker.admits());
    }

    #[test]
    fn the_one_that_asked_and_vanished_is_replaced() {
        let breaker = breaker();
        breaker.open();
        breaker.clock.advance(PAUSE);
        assert!(breaker.admits());
        breaker.clock.advance(PROBE);
        assert!(breaker.admits());
    }
}
