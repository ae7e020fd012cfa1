//! Tests of what is private in `src/fields.rs`.

use super::*;

#[test]
fn a_path_has_no_name_that_could_be_a_persons() {
    for good in ["/email", "/line_items/0/name", "/shipping_address"] {
        assert!(is_path(good), "{good}");
    }
    let long = format!("/{}", "a".repeat(LONGEST));
    for bad in ["", "email", "/a@b.example", "/Ann", "/a b", "/a~1b", &long] {
        assert!(!is_path(bad), "{bad}");
    }
}
