//! Clients rely on the description of the API and on the shapes of the events. Both are recorded in `openapi.json` beside
//! this, so that whoever changes them sees in the difference of that file what clients will see.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ingress::openapi::document;
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

/// Every value of the description by its place.
fn parts(value: &Value, at: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                parts(field, &format!("{at}/{}", name.replace('/', "~1")), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (nth, item) in items.iter().enumerate() {
                parts(item, &format!("{at}/{nth}"), found);
            }
        }
        leaf => {
            found.insert(at.to_owned(), leaf.clone());
        }
    }
}

/// What differs, a line for each place.
fn differences(recorded: &Value, now: &Value) -> Vec<String> {
    let [recorded, now] = [recorded, now].map(|document| {
        let mut found = BTreeMap::new();
        parts(document, "", &mut found);
        found
    });
    let places: BTreeSet<&String> = recorded.keys().chain(now.keys()).collect();
    let differing = places.into_iter().filter_map(|place| {
        let (was, is) = (recorded.get(place), now.get(place));
        (was != is).then(|| format!("{place}: was {}, is {}", json!(was), json!(is)))
    });
    differing.collect()
}

/// The document with a line for each value and without indentation, which would double it.
fn lines(document: &Value) -> Vec<u8> {
    let mut lines = Vec::new();
    let formatter = PrettyFormatter::with_indent(b"");
    document
        .serialize(&mut Serializer::with_formatter(&mut lines, formatter))
        .unwrap();
    lines.push(b'\n');
    lines
}

#[test]
fn the_description_and_the_events_are_as_recorded() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi.json");
    let now = document("http://127.0.0.1:8000");
    let recorded = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let found = differences(&recorded, &now);
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    fs::write(&new, lines(&now)).unwrap();
    assert!(
        found.is_empty(),
        "clients will see this:\n{}\nIf it is meant: cp {} {}",
        found.join("\n"),
        new.display(),
        file.display()
    );
}

#[test]
fn what_is_added_removed_or_other_is_a_difference() {
    let recorded = json!({"a": {"b": 1, "c": [1, 2]}, "d": {}});
    for (now, places) in [
        (
            json!({"a": {"b": 2, "c": [1, 2]}, "d": {}}),
            vec!["/a/b: was 1, is 2"],
        ),
        (
            json!({"a": {"b": 1, "c": [2]}, "d": {}}),
            vec!["/a/c/0: was 1, is 2", "/a/c/1: was 2, is null"],
        ),
        (
            json!({"a": {"b": 1, "c": [1, 2]}}),
            vec!["/d: was {}, is null"],
        ),
        (recorded.clone(), vec![]),
    ] {
        assert_eq!(differences(&recorded, &now), places);
    }
}
