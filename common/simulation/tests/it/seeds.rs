//! The seeds that are kept: each breaks an invariant when one rule is wrong, and none with the right rules.

use simulation::{Rules, Wrong, run};

const SEEDS: &str = include_str!("../../seeds.txt");

/// The lines of the table: a seed, the rule that is wrong, and what happened.
fn lines() -> impl Iterator<Item = (u64, Wrong)> {
    let lines = SEEDS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.split_whitespace();
        let seed = words.next().and_then(|word| word.parse().ok());
        let wrong = words.next().and_then(Wrong::named);
        seed.zip(wrong)
            .unwrap_or_else(|| panic!("a seed, and a rule of `Wrong`: {line}"))
    })
}

#[test]
fn each_seed_breaks_an_invariant_with_its_wrong_rule_and_none_with_the_right_ones() {
    let mut stale = Vec::new();
    for (seed, wrong) in lines() {
        if run(seed, Rules(Some(wrong))).broken.is_none() {
            stale.push(format!("{seed} {}", wrong.name()));
        }
        assert_eq!(run(seed, Rules::default()).broken, None, "seed {seed}");
    }
    assert_eq!(
        stale,
        Vec::<String>::new(),
        "after a change of the model these are other schedules: find new ones with scripts/simulate --wrong"
    );
}

#[test]
fn there_is_a_seed_of_each_wrong_rule() {
    let missing = Wrong::ALL
        .into_iter()
        .filter(|wrong| lines().all(|(_, it)| it != *wrong));
    assert_eq!(
        missing.map(Wrong::name).collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
}
