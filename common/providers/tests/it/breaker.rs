//! Who may ask a provider that was silent.

use std::time::Duration;

use domain::time::Timestamp;
use platform::clock::Clock;
use providers::{Breaker, PAUSE};

fn breaker() -> (Breaker, Clock) {
    let clock = Clock::manual(Timestamp(0));
    (Breaker::new("test", &clock), clock)
}

#[test]
fn one_caller_at_a_time_asks_a_provider_that_was_silent() {
    let (breaker, clock) = breaker();
    assert!(breaker.admits() && breaker.admits());
    breaker.open();
    assert!(breaker.is_open() && !breaker.admits());
    clock.advance(PAUSE);
    assert!(breaker.admits(), "the one that asks");
    assert!(!breaker.admits(), "the others wait for its answer");
    breaker.close();
    assert!(breaker.admits() && breaker.admits());
}

#[test]
fn the_one_that_asked_and_vanished_is_replaced() {
    let (breaker, clock) = breaker();
    breaker.open();
    clock.advance(PAUSE);
    assert!(breaker.admits());
    clock.advance(Duration::from_secs(30));
    assert!(breaker.admits());
}
