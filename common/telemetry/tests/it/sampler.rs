//! How many requests are recorded.

use domain::time::Timestamp;
use platform::clock::Clock;
use telemetry::{Ratio, Sampler};
use uuid::Uuid;

/// How many in a thousand of our ids are taken; some of them are made in one millisecond.
fn taken(part: f64) -> f64 {
    let clock = Clock::manual(Timestamp(1_800_000_000_000));
    let ratio = Ratio::of(part).unwrap();
    let mut taken = 0;
    for nth in 0..40_000 {
        if nth % 5 == 0 {
            clock.advance(std::time::Duration::from_millis(1));
        }
        taken += u32::from(ratio.takes(clock.id()));
    }
    f64::from(taken) / 40.0
}

#[test]
fn of_our_ids_as_many_are_taken_as_the_ratio_says() {
    assert!((7.0..13.5).contains(&taken(0.01)), "{}", taken(0.01));
    assert!((230.0..270.0).contains(&taken(0.25)), "{}", taken(0.25));
    assert!((575.0..625.0).contains(&taken(0.6)), "{}", taken(0.6));
}

#[test]
fn all_and_none_are_exact_and_a_larger_ratio_takes_all_that_a_smaller_one_does() {
    let ids = [u128::MAX, 0, 1, 0x01a1_f957_0358_77c2_b0f7_57af_41d2_2cc2];
    for id in ids.map(Uuid::from_u128) {
        assert!(Ratio::of(1.0).unwrap().takes(id));
        assert!(!Ratio::of(0.0).unwrap().takes(id));
    }
    assert_eq!(Ratio::of(1.0), Some(Ratio::ALL));
    assert_eq!(Ratio::of(0.0), Some(Ratio::NONE));
    let clock = Clock::system();
    let (few, more) = (Ratio::of(0.1).unwrap(), Ratio::of(0.5).unwrap());
    for id in (0..1000).map(|_| clock.id()) {
        assert!(!few.takes(id) || more.takes(id));
    }
    for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(Ratio::of(wrong), None);
    }
}

#[test]
fn a_client_can_refuse_to_be_recorded_and_cannot_ask_for_more_than_the_ratio() {
    let own = Uuid::from_u128(0x01a1_f957_0358_77c2_b000_0000_0000_0001);
    let sampler = |part, parent_based| Sampler {
        ratio: Ratio::of(part).unwrap(),
        parent_based,
    };
    assert!(sampler(1.0, true).admits(true, own));
    assert!(!sampler(1.0, true).admits(false, own));
    assert!(sampler(1.0, false).admits(false, own));
    assert!(!sampler(0.5, true).admits(true, own), "its number is small");
    assert!(!sampler(0.5, false).admits(true, own));
}
