//! Which types of events a pattern means.

use domain::event::{NotAPattern, Pattern};

fn fits(pattern: &str, kind: &str) -> bool {
    pattern.parse::<Pattern>().unwrap().fits(kind)
}

#[test]
fn a_star_is_one_word_and_a_hash_any_number_of_them() {
    assert!(fits("#", "order.created") && fits("order.#", "order.created"));
    assert!(fits("order.*", "order.created") && fits("*.created", "order.created"));
    assert!(fits("order.created", "order.created") && fits("#.#", "order.created"));
    assert!(!fits("*", "order.created") && !fits("order", "order.created"));
    assert!(!fits("payment.*", "order.created"));
}

#[test]
fn a_row_of_hashes_takes_no_longer_than_one() {
    let hashes = format!("{}x", "#.".repeat(49));
    let kind = "a.".repeat(49) + "b";
    assert!(!fits(&hashes, &kind) && fits(&hashes, "a.b.x"));
}

#[test]
fn what_no_type_can_be_is_no_pattern() {
    for text in [
        "",
        "order.",
        "Order.*",
        "order.re*",
        "order created",
        &"#.".repeat(60),
    ] {
        assert_eq!(text.parse::<Pattern>(), Err(NotAPattern), "{text}");
    }
}

#[test]
fn the_prefix_of_a_pattern_is_what_every_fitting_type_begins_with() {
    let prefix = |text: &str| text.parse::<Pattern>().unwrap().prefix().to_owned();
    assert_eq!(prefix("order.*"), "order");
    assert_eq!(prefix("order.created"), "order.created");
    assert_eq!(prefix("*.created"), "");
}
