//! Fields of the console's queries and forms. None is there twice or has a character that no database takes, and a link
//! to another page of a list keeps all of its filters.

use crate::domain::input::{Input, text};
use crate::fields::Fields;

const NAMES: [&str; 6] = ["after", "shop", "kind", "done", "state", ""];

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let name = input.one_of(&NAMES);
    let value = input.text(40);
    let given = text(input.rest());
    let Ok(fields) = Fields::of_query(given) else {
        return;
    };
    for name in NAMES {
        assert!(!fields.get(name).contains('\0'), "{given:?}");
    }
    let without = read(&fields.with(name, ""));
    assert_eq!(without.get(name), "");
    assert_eq!(read(&without.with(name, "")), without);
    for other in NAMES.into_iter().filter(|it| *it != name && *it != "done") {
        assert_eq!(without.get(other), fields.get(other), "{given:?}");
    }
    if !value.contains('\0') {
        let with = read(&fields.with(name, value));
        assert_eq!(with.get(name), value.trim());
        assert_eq!(read(&with.with(name, "")), without, "{given:?}");
    }
}

/// The fields of a link, which goes into a page as it is.
fn read(link: &str) -> Fields {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"?&=%+*-._".contains(&byte);
    assert!(link.bytes().all(plain), "{link:?}");
    let query = link.strip_prefix('?').expect("a query");
    Fields::of_query(query).expect("a link of the console leads to a page of it")
}
