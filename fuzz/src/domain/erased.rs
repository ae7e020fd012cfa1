//! Erased bodies, and bodies as an operator sees them. No text of a person stays, wherever it stood, and what remains
//! is JSON.

use domain::privacy::{Mentions, created_at, erased_body, operator_view};
use serde_json::Value;

use super::bodies::{MARK, marked};
use super::input::Input;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let (kind, body) = marked(&mut input);
    let rest = erased_body(kind, body.as_bytes()).expect("an object of a kind that has a list");
    let text = std::str::from_utf8(&rest).expect("JSON is text");
    assert!(!text.contains(MARK), "{kind} {body} {text}");
    assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
    assert_eq!(
        erased_body(kind, &rest).as_deref(),
        Some(&rest[..]),
        "{kind} {body}"
    );

    let (whole, left) = (Mentions::of(body.as_bytes()), Mentions::of(&rest));
    assert!(
        left.emails.is_empty() && left.own_emails.is_empty(),
        "{body} {text}"
    );
    assert!(left.phones.is_subset(&whole.phones) && left.ids.is_subset(&whole.ids));
    let _ = (created_at(body.as_bytes()), created_at(&rest));

    let shown = operator_view(kind, false, body.as_bytes()).to_string();
    assert!(!shown.contains(MARK), "{kind} {body} {shown}");
}
