//! Tests of what is private in `src/api_key.rs`.

use std::time::Duration;

use domain::api_key::Rights;

use super::*;

#[test]
fn the_use_of_a_key_is_noted_once_a_minute_by_whichever_process_was_first() {
    let keys = ApiKeys::default();
    let start = Timestamp(1_800_000_000_000);
    let at = |seconds| start.plus(Duration::from_secs(seconds));
    let known = |last_used_at| Known {
        id: Uuid::nil(),
        name: "desk".to_owned(),
        rights: Rights::default(),
        last_used_at,
    };
    let is_first = |noted, now| keys.is_first_use_of_minute([0; 32], &known(noted), now);
    assert!(is_first(None, at(0)));
    assert!(!is_first(None, at(0)), "the note may still be on its way");
    assert!(!is_first(Some(at(0)), at(59)));
    assert!(is_first(Some(at(0)), at(60)));
    assert!(!is_first(Some(at(90)), at(121)), "another one noted it");
    assert!(is_first(Some(at(90)), at(150)));
    assert_eq!(keys.seen(&[0; 32]), Some(Uuid::nil()));
    keys.forget(&[0; 32]);
    assert_eq!(keys.seen(&[0; 32]), None);
}
