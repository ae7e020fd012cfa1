//! Pauses between tries.

use std::time::Duration;

use platform::backoff::Backoff;

#[test]
fn pauses_double_up_to_the_longest_and_begin_again_after_a_success() {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    let mut next = |count| -> Vec<u128> {
        let pauses = (0..count).map(|_| backoff.next_pause().as_millis());
        pauses.collect()
    };
    assert_eq!(next(6), [100, 200, 400, 800, 1000, 1000]);
    backoff.reset();
    assert_eq!(backoff.next_pause().as_millis(), 100);
}

#[test]
fn no_pause_is_longer_than_the_longest() {
    let mut backoff = Backoff::new(Duration::from_secs(9), Duration::from_secs(5));
    assert_eq!(backoff.next_pause(), Duration::from_secs(5));
    assert_eq!(backoff.next_pause(), Duration::from_secs(5));
}
