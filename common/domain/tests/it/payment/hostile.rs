//! Values that a hostile sender puts in: nothing panics, and none of them is shown.

use domain::json::Unreadable;
use domain::payment::Event;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fields::{parsed, read, with};
use super::{body, fixtures};

/// The path to every value in the body.
fn paths(body: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut open = vec![(String::new(), body)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(fields) => {
                open.extend(fields.iter().map(|(key, it)| (format!("{path}.{key}"), it)));
            }
            Value::Array(items) => {
                open.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(at, it)| (format!("{path}.{at}"), it)),
                );
            }
            _ => (),
        }
        paths.push(path);
    }
    let paths = paths.into_iter().filter(|path| !path.is_empty());
    paths.map(|path| path[1..].to_owned()).collect()
}

#[test]
fn neither_errors_nor_debug_output_show_anyone() {
    let mut refusals = 0;
    for name in fixtures() {
        let sample = parsed(&name);
        let reported = format!("{:?}", read(&sample));
        assert!(reported.contains("Example01"), "{name}");
        for secret in [
            "@",
            "Ada",
            "Sample Street",
            "Sampleton",
            "funds.",
            "secret_",
        ] {
            assert!(!reported.contains(secret), "{secret} in {reported}");
        }
        for path in paths(&sample) {
            for canary in [
                json!("canary 70707"),
                json!(70_707.5),
                json!({"canary": 70_707}),
                json!(["canary"]),
            ] {
                if let Err(error) = read(&with(sample.clone(), &path, Some(canary))) {
                    refusals += 1;
                    let reported = format!("{error} {error:?}");
                    assert!(
                        !reported.contains("canary") && !reported.contains("70707"),
                        "{reported}"
                    );
                }
            }
        }
    }
    assert!(refusals > 500, "{refusals}");
    for body in [
        "canary",
        r#"["canary"]"#,
        r#"{"canary"}"#,
        r#"{"id": 1, "id": "canary"}"#,
    ] {
        let error = Event::read(body.as_bytes()).expect_err("no event");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Event::read(&body);
    }

    #[test]
    fn no_damage_to_a_fixture_panics(
        pick: prop::sample::Index,
        at: prop::sample::Index,
        cut in 0_usize..40,
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..8),
            r#"[\[\]{}",:0-9eE.\\u\-]{0,8}"#.prop_map(String::into_bytes),
        ],
    ) {
        let body = body(pick.get::<String>(&fixtures())).into_bytes();
        let at = at.index(body.len());
        let end = (at + cut).min(body.len());
        let _ = Event::read(&[&body[..at], &bytes, &body[end..]].concat());
    }

    #[test]
    fn any_value_anywhere_is_read_or_refused_by_name(
        pick: prop::sample::Index,
        at: prop::sample::Index,
        raw in prop_oneof![
            r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?",
            r#""([a-zA-Z0-9@. :+-]|\\u[0-9a-f]{4}|\\n){0,12}""#,
            r#"\[(null|\{\}|\[\]|1|"x")\]|\{"id":(1|"x"|null)\}|true|null"#,
        ],
    ) {
        let sample = parsed(pick.get::<String>(&fixtures()));
        let paths = paths(&sample);
        let body = with(sample, at.get::<String>(&paths), Some(json!("HERE"))).to_string();
        match Event::read(body.replace("\"HERE\"", &raw).as_bytes()) {
            Ok(_) | Err(Unreadable::Field { .. }) => (),
            Err(other) => prop_assert!(false, "valid JSON names a field: {}", other),
        }
    }
}
