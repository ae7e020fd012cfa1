//! Redaction of text for logs. No address, token, control character or value of a personal key stays, and JSON stays
//! JSON.

use std::fmt::Write as _;

use domain::redact::{Hide, REDACTED, redact};
use serde_json::Value;

use super::bodies::MARK;
use super::input::{Input, text};

const KEYS: &[&str] = &[
    "email",
    "first_name",
    "lastName",
    "phone",
    "address1",
    "city",
    "zip",
    "customer_email",
    "shipping_address",
    "note",
    "receipt_email",
    "company",
    "province",
    "name",
    "access_token",
    "password",
    "client_secret",
    "device_code",
    "x-api-key",
];

const PLAIN: &[&str] = &[
    "1",
    "null",
    "\"paid\"",
    "[1,2]",
    "{\"id\":7}",
    "true",
    "1.5",
    "\"\"",
];

const TOKENS: &[&str] = &[
    "gho_",
    "ghp_",
    "wb_",
    "whsec_",
    "sk_live_",
    "shpat_",
    "github_pat_",
];

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 8 {
        0 | 1 => json(input),
        2 => address(input),
        3 => token(input),
        _ => any(text(input.rest())),
    }
}

fn any(given: &str) {
    for hide in [Hide::PersonalDataAndSecrets, Hide::Secrets] {
        let clean = hide.within(given);
        assert!(
            clean.chars().all(|c| c == '\t' || !c.is_control()),
            "{clean:?}"
        );
        assert!(!clean.contains(['\u{2028}', '\u{202e}']), "{clean:?}");
    }
    assert_eq!(
        Hide::Secrets.redacted(format_args!("{given}")),
        Hide::Secrets.within(given)
    );
}

fn address(mut input: Input) {
    const LOCAL: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789._%+-";
    let before = input.text(40);
    let local: String = input
        .bytes(20)
        .iter()
        .map(|it| char::from(LOCAL[usize::from(*it) % LOCAL.len()]))
        .collect();
    let domain = input.one_of(&["x.example", "a-b.co", "mail.example.co.uk", "1.de"]);
    let at = input.one_of(&["@", "@", "%40"]);
    let after = text(input.rest());
    let email = format!("q{local}{at}{domain}");
    let clean = redact(&format!("{before}{email}{after}")).into_owned();
    assert!(!clean.contains(&email), "{clean}");
}

fn token(mut input: Input) {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let before = input.text(40);
    let prefix = input.one_of(TOKENS);
    let letters: String = input
        .bytes(40)
        .iter()
        .map(|it| char::from(LETTERS[usize::from(*it) % LETTERS.len()]))
        .collect();
    let after = text(input.rest());
    if before.contains("Xq7") || after.contains("Xq7") {
        return;
    }
    let token = format!("{prefix}Xq7{letters}");
    let line = format!("{before} {token} {after}");
    for hide in [Hide::PersonalDataAndSecrets, Hide::Secrets] {
        let clean = hide.within(&line);
        assert!(!clean.contains(&token), "{clean}");
    }
}

/// An object in which some keys are personal or secret, in the writings in which it can get into a line.
fn json(mut input: Input) {
    let mut body = String::from("{");
    let writing = input.byte();
    let fields = input.byte() % 6;
    for nth in 0..=fields {
        if nth > 0 {
            body.push(',');
        }
        if input.byte().is_multiple_of(2) {
            let key = input.one_of(KEYS);
            let _ = write!(body, "\"{key}\":");
            value(&mut input, &mut body);
        } else {
            let _ = write!(body, "\"id{nth}\":{}", input.one_of(PLAIN));
        }
    }
    body.push('}');
    let line = match writing % 4 {
        0 => Value::from(&*body).to_string(),
        1 => format!("{body:?}"),
        _ => body.clone(),
    };
    let clean = redact(&line);
    assert!(!clean.contains(MARK), "{line} {clean}");
    let read: Value = serde_json::from_str(&body).expect("made as JSON");
    if writing % 4 >= 2 {
        let left: Result<Value, _> = serde_json::from_str(&clean);
        let left = left.unwrap_or_else(|error| panic!("{error}: {line} {clean}"));
        let names = |value: &Value| {
            value
                .as_object()
                .map(|it| it.keys().cloned().collect::<Vec<_>>())
        };
        assert_eq!(names(&left), names(&read), "{line} {clean}");
    }
    let shown = format!("{read:?}");
    assert!(!redact(&shown).contains(MARK), "{shown}");
    assert_eq!(redact(REDACTED), REDACTED);
}

fn value(input: &mut Input, body: &mut String) {
    let text = format!("{}{MARK}{}", input.text(12), input.text(12));
    let text = Value::from(text).to_string();
    let _ = match input.byte() % 4 {
        0 => write!(body, "[{text},1]"),
        1 => write!(body, "{{\"x\":{text}}}"),
        _ => write!(body, "{text}"),
    };
}
