//! A mark is found again from the second key of its lock, wherever the sequence is by now.

use super::*;

#[test]
fn a_mark_is_the_nearest_position_with_its_key() {
    for given in [0, 1, 5, KEYS - 1, KEYS, KEYS + 3, 7 * KEYS + 12] {
        for mark in [
            given - 1_000_000,
            given - 1,
            given,
            given + 1,
            given + 1_000_000,
        ] {
            if mark >= 0 {
                assert_eq!(near(mark % KEYS, given), mark, "{mark} at {given}");
            }
        }
    }
}
