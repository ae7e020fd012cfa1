//! With the right rules no schedule breaks an invariant, and with each wrong rule one does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use simulation::{Outcome, Rules, Wrong, replay, run};

/// How many schedules must be free of violations.
const SCHEDULES: u64 = 20_000;
/// Within how many schedules each wrong rule must be noticed.
const NOTICED_WITHIN: u64 = 30_000;

/// The first of the seeds that breaks an invariant.
fn first_broken(rules: Rules, seeds: u64) -> Option<u64> {
    let (next, found) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds || seed > found.load(Ordering::Relaxed) {
                return;
            }
            if run(seed, rules).broken.is_some() {
                found.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(search);
        }
    });
    Some(found.into_inner()).filter(|seed| *seed != u64::MAX)
}

/// The timeline of a schedule, with the invariant that it breaks.
fn text_of(seed: u64, rules: Rules) -> String {
    let Outcome {
        broken, timeline, ..
    } = replay(seed, rules);
    format!(
        "seed {seed}\n{}\n{}",
        timeline.join("\n"),
        broken.unwrap_or_default()
    )
}

#[test]
fn with_the_right_rules_no_schedule_breaks_an_invariant() {
    let rules = Rules::default();
    if let Some(seed) = first_broken(rules, SCHEDULES) {
        panic!("{}", text_of(seed, rules));
    }
}

#[test]
fn each_wrong_rule_is_noticed() {
    let mut missed = Vec::new();
    for wrong in Wrong::ALL {
        let rules = Rules(Some(wrong));
        let Some(seed) = first_broken(rules, NOTICED_WITHIN) else {
            missed.push(wrong.name());
            continue;
        };
        let text = text_of(seed, rules);
        let last = text.lines().last().unwrap_or_default();
        assert!(text.lines().count() > 5, "a timeline is to be read: {text}");
        // This is shown with `--no-capture`, and is what a line of the table of seeds needs.
        tell(&format!("{seed} {}: {last}", wrong.name()));
    }
    assert_eq!(missed, Vec::<&str>::new(), "no schedule notices these");
}

#[expect(clippy::disallowed_macros, reason = "a test says what it has found")]
fn tell(line: &str) {
    println!("{line}");
}

#[test]
fn a_seed_is_one_schedule() {
    for seed in 1..200 {
        let rules = Rules::default();
        let (once, again) = (run(seed, rules), run(seed, rules));
        assert_eq!(once, again);
        let replayed = replay(seed, rules);
        assert_eq!((once.steps, once.lasted), (replayed.steps, replayed.lasted));
    }
}
