//! Tests of what is private in `src/pages/charts.rs`.

use super::*;

#[test]
fn a_percentile_is_the_longest_time_of_its_class() {
    let mut classes = vec![0; ANSWERS_MS.len() + 1];
    assert_eq!(percentile(&classes, 50), None);
    classes[0] = 50;
    classes[4] = 45;
    classes[ANSWERS_MS.len()] = 5;
    assert_eq!(percentile(&classes, 50), Some(1));
    assert_eq!(percentile(&classes, 95), Some(7));
    assert_eq!(percentile(&classes, 96), Some(10_000));
}

#[test]
fn a_line_has_gaps_where_nothing_was_answered() {
    let values = [Some(10), Some(0), None, Some(5)];
    assert_eq!(pieces(&values, 10), ["0,0 200,100", "600,50 600,50"]);
    assert!(pieces(&[], 0).is_empty());
}

#[test]
fn the_top_of_an_axis_is_a_round_number_that_has_a_half() {
    for (highest, expected) in [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 4),
        (7, 8),
        (9, 10),
        (99, 100),
        (101, 200),
        (601, 800),
    ] {
        assert_eq!(round(highest), expected, "{highest}");
    }
}
