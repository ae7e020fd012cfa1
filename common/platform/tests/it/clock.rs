//! Clocks that tests move, and the system's.

use std::time::Duration;

use domain::time::Timestamp;
use futures_util::FutureExt as _;
use platform::clock::Clock;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn whoever_sleeps_by_a_manual_clock_wakes_when_it_was_moved_so_far() {
    let clock = Clock::manual(Timestamp(0));
    let mut minute = Box::pin(clock.sleep(MINUTE));
    let mut hour = Box::pin(clock.sleep(MINUTE * 60));
    assert!((&mut minute).now_or_never().is_none());
    assert!((&mut hour).now_or_never().is_none());
    clock.advance(MINUTE.saturating_sub(Duration::from_millis(1)));
    assert!((&mut minute).now_or_never().is_none());
    clock.advance(Duration::from_millis(1));
    assert!((&mut minute).now_or_never().is_some());
    assert!((&mut hour).now_or_never().is_none());
    assert_eq!(clock.until_next_wake(), Some(MINUTE * 59));
    clock.advance(MINUTE * 59);
    assert!((&mut hour).now_or_never().is_some());
    assert_eq!(clock.until_next_wake(), None);
}

#[test]
fn time_passes_with_each_look_at_a_manual_clock_if_it_is_told_so() {
    let clock = Clock::manual(Timestamp(0));
    assert_eq!(clock.elapsed(), clock.elapsed());
    clock.pass_with_each_look(MINUTE);
    let begun = clock.elapsed();
    assert_eq!(clock.elapsed(), begun + MINUTE);
    assert_eq!(clock.now(), Timestamp(0));
}

#[tokio::test]
async fn nobody_is_waited_for_who_no_longer_sleeps() {
    let clock = Clock::manual(Timestamp(0));
    {
        let mut given_up = Box::pin(clock.sleep(MINUTE));
        assert!((&mut given_up).now_or_never().is_none());
    }
    assert_eq!(clock.until_next_wake(), None);
}

#[tokio::test(start_paused = true)]
async fn the_systems_clock_sleeps_in_real_time() {
    let begun = tokio::time::Instant::now();
    Clock::system().sleep(MINUTE).await;
    assert_eq!(begun.elapsed(), MINUTE);
    assert_eq!(Clock::system().until_next_wake(), None);
}
