//! Tests of what is private in `src/endpoints.rs`.

use super::*;

#[test]
fn an_excerpt_is_one_short_line() {
    assert_eq!(excerpt(b""), "");
    assert_eq!(excerpt(b" \r\n\t\0 "), "");
    assert_eq!(excerpt(b"no\n\x1b[31mroom"), "no [31mroom");
    assert_eq!(excerpt(&[b'a'; 4096]).len(), EXCERPT);
    assert_eq!(excerpt(b"\xff"), "\u{fffd}");
}
