//! Tests of what is private in `src/orders/list.rs`.

use super::*;

#[test]
fn orders_of_the_same_time_are_sorted_by_shop_and_id() {
    let after = Cursor {
        at: 5,
        shop: "b".to_owned(),
        id: 7,
    };
    assert_eq!(place_within("b", Some(&after)), (5, 6));
    assert_eq!(place_within("a", Some(&after)), (5, i64::MAX));
    assert_eq!(place_within("c", Some(&after)), (5, i64::MIN));
}
