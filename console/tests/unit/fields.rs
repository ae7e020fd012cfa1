//! Tests of what is private in `src/fields.rs`.

use super::*;

#[test]
fn a_field_is_there_once_and_has_no_nul() {
    let fields = Fields::of_query("shop=%20a.example+&kind=&name=%C3%A4").unwrap();
    assert_eq!(fields.get("shop"), "a.example");
    assert_eq!((fields.get("kind"), fields.get("other")), ("", ""));
    assert_eq!(fields.get("name"), "\u{e4}");
    for wrong in ["shop=a&shop=a", "shop=a&kind=b&%73hop=c", "shop=a%00"] {
        assert_eq!(Fields::of_query(wrong).err(), Some(WrongFields), "{wrong}");
    }
}

#[test]
fn a_link_keeps_all_filters_but_what_was_done_before() {
    let fields = Fields::of_query("shop=a%26b&kind=&done=paused&after=7").unwrap();
    assert_eq!(fields.with("after", "8"), "?shop=a%26b&after=8");
    assert_eq!(fields.with("after", ""), "?shop=a%26b");
    assert_eq!(fields.with("kind", "x y"), "?shop=a%26b&after=7&kind=x+y");
}
