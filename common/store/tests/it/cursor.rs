//! Cursors of lists of orders.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::orders::list::{Cursor, NotACursor};

#[test]
fn a_cursor_is_read_as_it_was_written() {
    for (at, shop, id) in [(1_800_000_000_000, "a.b.example", 7), (-1, "", i64::MAX)] {
        let shop = shop.to_owned();
        let cursor = Cursor { at, shop, id };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}

#[test]
fn what_is_no_cursor_is_refused() {
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    for text in [
        "",
        "latest",
        "00",
        &encoded("1.2"),
        &encoded("x.2.shop"),
        &encoded("1.2.sh\0p"),
        &encoded("1.99999999999999999999.shop"),
    ] {
        assert_eq!(text.parse::<Cursor>(), Err(NotACursor), "{text}");
    }
}
