//! The file `.env`. What is read from it is read again from what a person would write down, and an error never quotes
//! what stands there.

use crate::domain::input::{Input, text};
use crate::env_file::{NAME, parse};

/// A line that cannot be read, and what must not be quoted of it.
const SECRET: &str = "Xq7Secret";

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(4) {
        quoted(text(input.rest()));
    } else {
        file(text(input.rest()));
    }
}

fn file(given: &str) {
    match parse(given) {
        Ok(values) => {
            assert!(values.values().all(|value| !value.is_empty()));
            let mut written = String::new();
            for (name, value) in &values {
                assert!(name.trim() == name && !name.contains('=') && !name.contains('\n'));
                written.push_str(&format!("{name}={}\n", double(value)));
            }
            // `export` before a name is no part of it, so no name that begins with it can be written.
            if !values
                .keys()
                .any(|name| name.starts_with("export ") || name.starts_with('#'))
            {
                assert_eq!(
                    parse(&written).as_ref(),
                    Ok(&values),
                    "{given:?} {written:?}"
                );
            }
        }
        Err(wrong) => assert!(wrong.starts_with(NAME) && wrong.len() < 80, "{wrong}"),
    }
    let wrong = parse(&format!("A=b\n{SECRET} {}", given.replace('=', "")));
    assert!(!wrong.expect_err("a line without a value").contains(SECRET));
}

/// The value as it is written between double quotation marks.
fn double(value: &str) -> String {
    let mut written = String::from('"');
    for letter in value.chars() {
        match letter {
            '\n' => written.push_str("\\n"),
            '"' | '\\' | '$' => written.extend(['\\', letter]),
            letter => written.push(letter),
        }
    }
    written.push('"');
    written
}

fn quoted(value: &str) {
    let lines = !value.contains('\r');
    if lines {
        let read = parse(&format!("A={}", double(value))).expect("right quotation marks");
        assert_eq!(read.get("A").map_or("", String::as_str), value);
    }
    if !value.contains(['\'', '\n', '\r']) {
        let read =
            parse(&format!("export A='{value}' # a comment")).expect("right quotation marks");
        assert_eq!(read.get("A").map_or("", String::as_str), value);
    }
}
