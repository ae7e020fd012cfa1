//! Tests of what is private in `src/table.rs`.

use super::*;

const ID: &str = "01a2013a-4069-7f9a-8696-a695862b279c";

fn jobs() -> Table {
    let mut table = Table::new(["JOB", "AGE", "KIND", "SHOP", "LAST ERROR"]);
    let error = "the storefront provider refused: it answered 422, and the words go on and on \
                 until nobody reads them any more";
    table.row([ID, "30m", "orders/create", "shop.example", error].map(str::to_owned));
    table.row(["b", "1m", "orders/paid", "-", ""].map(str::to_owned));
    table
}

#[test]
fn a_table_that_has_room_is_one_line_for_each_row() {
    let text = jobs().fit(None);
    assert_eq!(text.lines().count(), 3);
    assert_eq!(jobs().fit(Some(200)), text);
    assert!(text.contains("KIND           SHOP          LAST ERROR\n"));
}

#[test]
fn a_table_without_room_goes_on_below_and_loses_nothing() {
    for width in 37..120 {
        let text = jobs().fit(Some(width));
        let longest = text.lines().map(length).max().unwrap();
        assert!(longest <= width, "{width}: {text}");
        let words = |text: &str| {
            let words = text.split_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        assert_eq!(words(&text), words(&jobs().fit(None)), "{width}: {text}");
    }
    let expected = format!(
        "JOB                                   AGE  KIND           SHOP\n    LAST ERROR\n\
         {ID}  30m  orders/create  shop.example\n    \
         the storefront provider refused: it answered 422, and the words go on and on\n    \
         until nobody reads them any more\n\
         b                                     1m   orders/paid    -\n"
    );
    assert_eq!(jobs().fit(Some(80)), expected);
}

#[test]
fn the_last_column_is_broken_where_it_stands_if_it_has_room_there() {
    let mut table = Table::new(["CHECK", "STATE", "FOUND"]);
    let found = "sqlite://data/waybill.db answers, and this sentence is longer than the line";
    table.row(["database", "ok", found].map(str::to_owned));
    let expected = "CHECK     STATE  FOUND\n\
                    database  ok     sqlite://data/waybill.db answers, and\n                 \
                    this sentence is longer than the line\n";
    assert_eq!(table.fit(Some(58)), expected);
}

#[test]
fn a_word_longer_than_the_line_is_cut_and_letters_count_not_bytes() {
    assert_eq!(broken("aaaaaa", 4), ["aaaa", "aa"]);
    assert_eq!(broken("äöü äöü", 3), ["äöü", "äöü"]);
    assert_eq!(broken("a b c", 3), ["a b", "c"]);
    assert_eq!(broken("", 3), [""]);
    assert_eq!(Table::plain().fit(Some(10)), "");
}
