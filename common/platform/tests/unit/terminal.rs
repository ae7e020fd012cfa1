//! Tests of what is private in `src/terminal.rs`.

use proptest::prelude::*;

use super::*;

#[test]
fn a_text_of_others_is_shown_and_not_obeyed() {
    let name = "\u{1b}[31m#7\u{7}\n\u{9b}0m\u{202e}é😀";
    assert_eq!(cell(name), r"\u{1b}[31m#7\u{7}\n\u{9b}0m\u{202e}é😀");
    assert_eq!(lines("a\n\tb\rc"), "a\n\tb\\rc");
    assert_eq!(cell("Ångström 1 €"), "Ångström 1 €");
    let printed = json(&name).unwrap();
    assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), name);
    assert!(!printed.contains(commands), "{printed:?}");
}

proptest! {
    #[test]
    fn whatever_the_text_nothing_in_it_commands(text in any::<String>()) {
        prop_assert!(!cell(&text).contains(commands));
        let meant = |c: char| commands(c) && !matches!(c, '\n' | '\t');
        prop_assert!(!lines(&text).contains(meant));
        let printed = json(&text).unwrap();
        prop_assert!(!printed.contains(commands));
        prop_assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), text);
    }
}
