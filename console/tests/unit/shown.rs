//! Tests of what is private in `src/shown.rs`.

use super::*;

#[test]
fn a_field_of_csv_is_neither_a_formula_nor_two_fields() {
    let csv = |text: &str| Cell::text(text).csv();
    assert_eq!(csv("orders/paid"), "orders/paid");
    assert_eq!(csv("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    assert_eq!(csv("@a,\"b\""), "\"'@a,\"\"b\"\"\"");
    assert_eq!(csv("a\nb"), "\"a\nb\"");
    assert_eq!(Cell::Number(-5).csv(), "-5");
}

#[test]
fn a_count_stops_where_counting_stops() {
    assert_eq!(bounded(0, 10_000), "0");
    assert_eq!(bounded(999, 10_000), "999");
    assert_eq!(bounded(9_999, 10_000), "9,999");
    assert_eq!(bounded(10_000, 10_000), "10,000+");
    assert_eq!(bounded(1_234_567, i64::MAX), "1,234,567");
}
