//! Tests of what is private in `src/measures.rs`.

use super::*;

#[test]
fn answers_are_counted_by_how_long_they_took() {
    let measures = Measures::default();
    for micros in [0, 1000, 1001, 10_000_000, 10_000_001] {
        measures.answered(Duration::from_micros(micros));
    }
    measures.delivery(Delivery::Accepted);
    let named = lock(&measures.0).named();
    let expected = [
        ("accepted", 1),
        ("answers_1", 2),
        ("answers_10000", 1),
        ("answers_2", 1),
        ("answers_more", 1),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(named, BTreeMap::from(expected));
}
