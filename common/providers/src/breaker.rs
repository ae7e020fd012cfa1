//! A provider that does not answer is left alone: after a call whose tries all timed out,
//! others are refused at once, and one every few seconds finds out whether it is back.
//! Without it every worker would wait for the same silent server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a provider is left alone, and how long the one that asks has for its answer.
pub const PAUSE: Duration = Duration::from_secs(5);
const PROBE: Duration = Duration::from_secs(30);

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Breaker {
    provider: &'static str,
    /// None: it answers.
    closed_until: Arc<Mutex<Option<Instant>>>,
}

impl Breaker {
    pub fn new(provider: &'static str) -> Self {
        let breaker = Breaker {
            provider,
            closed_until: Arc::default(),
        };
        breaker.show(false);
        breaker
    }

    /// True when a call may be made. Of those that ask after the pause, one may.
    pub fn admits(&self) -> bool {
        let mut until = self.lock();
        match *until {
            None => true,
            Some(instant) if Instant::now() < instant => false,
            Some(_) => {
                *until = Some(Instant::now() + PROBE);
                true
            }
        }
    }

    /// True while [`Breaker::admits`] would refuse.
    pub fn is_open(&self) -> bool {
        self.lock().is_some_and(|until| Instant::now() < until)
    }

    /// The provider does not answer.
    pub fn open(&self) {
        *self.lock() = Some(Instant::now() + PAUSE);
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

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closed_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_caller_at_a_time_asks_a_provider_that_was_silent() {
        let breaker = Breaker::new("test");
        assert!(breaker.admits() && breaker.admits());
        breaker.open();
        assert!(breaker.is_open() && !breaker.admits());
        tokio::time::advance(PAUSE).await;
        assert!(breaker.admits(), "the one that asks");
        assert!(!breaker.admits(), "the others wait for its answer");
        breaker.close();
        assert!(breaker.admits() && breaker.admits());
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_asked_and_vanished_is_replaced() {
        let breaker = Breaker::new("test");
        breaker.open();
        tokio::time::advance(PAUSE).await;
        assert!(breaker.admits());
        tokio::time::advance(PROBE).await;
        assert!(breaker.admits());
    }
}
