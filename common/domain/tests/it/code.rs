//! The table of error codes.

use domain::code::Code;

#[test]
fn the_table_has_every_code_of_the_spec_once_and_in_its_order() {
    let ids: Vec<_> = Code::ALL.into_iter().map(Code::id).collect();
    let auth = (1..=7).map(|n| format!("AUTH_{n:03}"));
    let commerce = (1..=10).map(|n| format!("COMMERCE_{n:03}"));
    assert!(ids.into_iter().eq(auth.chain(commerce)));
}
