//! Tests of what is private in `src/jobs/ended.rs`.

use super::*;

#[test]
fn only_a_star_stands_for_other_text() {
    let filter = Filter {
        kind: "Orders/*".to_owned(),
        error: "100%_sure!".to_owned(),
        ..Filter::default()
    };
    assert_eq!(filter.kind(), "orders/%");
    assert_eq!(filter.error(), "%100!%!_sure!!%");
}

#[test]
fn errors_that_differ_in_numbers_are_one() {
    assert_eq!(
        without_numbers("order 5001 at line 1 column 77"),
        without_numbers("order 62 at line 3 column 8")
    );
    assert_ne!(without_numbers("order 5"), without_numbers("payment 5"));
}
