//! Tests of what is private in `src/routes/deliveries.rs`.

use domain::time::Timestamp;

use super::*;

#[test]
fn a_key_of_shops_sees_their_deliveries_and_nothing_that_nobody_signed() {
    let line = |shop: Option<&str>, outcome| Line {
        job: None,
        source: "storefront".to_owned(),
        topic: Some("orders/create".to_owned()),
        shop: shop.map(ToOwned::to_owned),
        connection: None,
        object_id: None,
        delivery_id: None,
        status: 200,
        outcome,
        attempts: 0,
        deliveries: 1,
        received_at: Timestamp(0),
        finished_at: None,
        milliseconds: None,
        reason: None,
        signature: None,
        header: None,
        advice: None,
    };
    let one = Shops(Some(vec!["a.example".to_owned()]));
    assert!(is_open(&one, &line(Some("a.example"), Outcome::Done)));
    assert!(!is_open(&one, &line(Some("b.example"), Outcome::Done)));
    assert!(!is_open(&one, &line(None, Outcome::Done)));
    assert!(!is_open(&one, &line(Some("a.example"), Outcome::Refused)));
    for outcome in [Outcome::Done, Outcome::Refused] {
        assert!(is_open(&Shops(None), &line(None, outcome)));
    }
}
