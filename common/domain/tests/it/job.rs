//! When a job is tried again, and when it is dead.

use std::time::Duration;

use domain::job::{LAST_TRY, Next, Queue, deadline, delay, next};
use domain::time::Timestamp;

const START: Timestamp = Timestamp(1_800_000_000_000);

#[test]
fn orders_are_tried_twelve_times_with_doubling_pauses_up_to_an_hour() {
    let pauses: Vec<u64> = (1..=13)
        .map(|attempt| delay(Queue::Orders, attempt, 0.5).as_secs())
        .collect();
    assert_eq!(
        pauses,
        [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600]
    );
    let eleventh = next(Queue::Orders, 11, START, None, 0.5);
    assert_eq!(
        eleventh,
        Next::RetryAt(START.plus(Duration::from_secs(1024)))
    );
    assert_eq!(next(Queue::Orders, 12, START, None, 0.5), Next::Dead);
}

#[test]
fn jitter_spreads_a_pause_by_a_fifth_either_way() {
    assert_eq!(delay(Queue::Orders, 1, 0.0), Duration::from_millis(800));
    assert_eq!(delay(Queue::Orders, 1, 1.0), Duration::from_millis(1200));
}

#[test]
fn a_webhook_is_given_up_three_days_after_its_first_failure() {
    let (mut now, mut limit, mut attempts) = (START, None, 0);
    let last = loop {
        attempts += 1;
        limit = deadline(Queue::Endpoints, attempts, limit, now);
        match next(Queue::Endpoints, attempts, now, limit, 0.5) {
            Next::RetryAt(run_at) => now = run_at,
            Next::Dead => break now,
        }
    };
    assert_eq!(limit, Some(START.plus(Duration::from_hours(3 * 24))));
    assert_eq!(
        last,
        START.plus(Duration::from_hours(3 * 24)).minus(LAST_TRY)
    );
    let requeued = deadline(Queue::Endpoints, 1, limit, last);
    assert_eq!(requeued, Some(last.plus(Duration::from_hours(3 * 24))));
    assert_eq!(deadline(Queue::Orders, 1, None, START), None);
    assert_eq!(deadline(Queue::Privacy, 1, Some(START), START), Some(START));
}

#[test]
fn privacy_work_is_tried_until_its_deadline_and_the_last_try_is_before_it() {
    let deadline = START.plus(Duration::from_hours(30 * 24));
    let mut now = START;
    let mut attempts = 0;
    let last = loop {
        attempts += 1;
        match next(Queue::Privacy, attempts, now, Some(deadline), 1.0) {
            Next::RetryAt(run_at) => {
                assert!(run_at > now && run_at < deadline);
                now = run_at;
            }
            Next::Dead => break now,
        }
    };
    assert_eq!(last, deadline.minus(LAST_TRY));
    assert!(attempts > 100 + 120, "six-hourly, then hourly tries");
}

#[test]
fn in_the_last_five_days_privacy_work_is_tried_every_hour() {
    let deadline = START.plus(Duration::from_hours(30 * 24));
    let pause = |now: Timestamp| match next(Queue::Privacy, 50, now, Some(deadline), 0.5) {
        Next::RetryAt(run_at) => run_at.since(now),
        Next::Dead => Duration::ZERO,
    };
    let hours = |hours| deadline.minus(Duration::from_hours(hours));
    assert_eq!(pause(hours(20 * 24)), Duration::from_hours(6));
    assert_eq!(pause(hours(5 * 24 + 1)), Duration::from_hours(2));
    assert_eq!(pause(hours(5 * 24)), Duration::from_hours(1));
    assert_eq!(pause(hours(2)), Duration::from_hours(1));
    assert_eq!(pause(hours(1)), Duration::from_mins(50));
}
