//! The circuit breaker: a provider that does not answer is left alone. After a call whose tries
//! all timed out, other calls are refused at once, and every few seconds one call finds out
//! whether the provider answers again. Without a breaker every worker would wait for the same
//! silent server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::clock::Clock;

/// [`PAUSE`] is how long a provider is left alone. [`PROBE`] is how long the one call that is
/// then admitted has for its answer.
pub const PAUSE: Duration = Duration::from_secs(5);
const PROBE: Duration = Duration::from_secs(30);

/// The breaker of one provider. Clones share its state.
#[derive(Clone, Debug)]
pub struct Breaker {
    provider: &'static str,
    clock: Clock,
    /// None while the breaker is closed. Otherwise a value of [`Clock::elapsed`], which does not
    /// jump when the system's time is set.
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

    /// True when a call may be made. After the pause only one caller gets true.
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

    /// True while [`Breaker::admits`] would refuse a call.
    pub fn is_open(&self) -> bool {
        self.lock()
            .is_some_and(|until| self.clock.elapsed() < until)
    }

    /// Opens the breaker, because the provider does not answer.
    pub fn open(&self) {
        *self.lock() = Some(self.clock.elapsed() + PAUSE);
        self.show(true);
    }

    /// Closes the breaker, because the provider answered.
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
