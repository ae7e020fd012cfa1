//! Tests of what is private in `src/shown.rs`.

use super::*;

#[test]
fn a_field_of_csv_is_neither_a_formula_nor_two_fields() {
    let csv = |text: &str| Cell::text(text).csv();
    assert_eq!(csv("orders/paid"), "orders/paid");
    assert_eq!(csv("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    assert_eq!(csv("@a,\"b\""), "\"'@a,\"\"b\"\"\"");
    assert_eq!(csv("a\nb"), "\"a\nb\"");
    assert_eq!(Cell::Number(-5).csv(), "-5");
}

#[test]
fn a_count_stops_where_counting_stops() {
    assert_eq!(bounded(0, 10_000), "0");
    assert_eq!(bounded(999, 10_000), "999");
    assert_eq!(bounded(9_999, 10_000), "9,999");
    assert_eq!(bounded(10_000, 10_000), "10,000+");
    assert_eq!(bounded(1_234_567, i64::MAX), "1,234,567");
}

#[test]
fn a_row_shows_the_ends_of_an_id_and_a_sentence_whole() {
    let brief = |text: &str| Cell::text(text).brief();
    assert_eq!(
        brief("01a22827-6da6-7515-b302-45f08e771e10").unwrap(),
        "01a2…8e771e10"
    );
    assert_eq!(brief("5000000000000700"), None, "an order's id fits");
    assert_eq!(brief("checkout.session.completed"), None);
    let shop = "an-unusually-long-name-of-a-shop.myshopify.example";
    assert_eq!(brief(shop).unwrap(), "an-unusually-l…pify.example");
    let error = "the answer was 503, and said nothing of when";
    assert_eq!(brief(error), None);
    assert_eq!(Cell::text(error).column(), "sentence");
    assert_eq!(
        Cell::text("{\"customer_id\":77,\"topic\":1}").column(),
        "sentence"
    );
    assert_eq!(Cell::Number(7).column(), "number");
}

#[test]
fn a_time_is_told_by_how_far_it_is() {
    let now = Moment("2027-01-15T08:00:00Z".parse().unwrap());
    let ago = |text: &str| Moment(text.parse().unwrap()).ago(now);
    for (at, expected) in [
        ("2027-01-15T08:00:00Z", "0 s ago"),
        ("2027-01-15T07:59:01Z", "59 s ago"),
        ("2027-01-15T07:59:00Z", "1 min ago"),
        ("2027-01-13T08:00:01Z", "47 h ago"),
        ("2027-01-13T08:00:00Z", "2 d ago"),
        ("2027-01-15T08:02:00Z", "in 2 min"),
        ("2026-11-01T00:00:00Z", "2026-11-01"),
    ] {
        assert_eq!(ago(at), expected, "{at}");
    }
}
