//! The tables of docs/events.md are generated from the types of the events. With `UPDATE_DOCS=1`
//! this test writes them instead of comparing them. The text around them is written by people.

use std::fmt::Write as _;
use std::{fs, iter};

use domain::event::{EventType, catalogue};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");

/// The chapters, with the first words of the event types that each of them lists.
const CHAPTERS: [(&str, &[&str]); 4] = [
    ("## Events of orders", &["order"]),
    (
        "## Events of payments, checkout sessions and subscriptions",
        &["payment", "checkout", "subscription"],
    ),
    ("## Events of privacy requests", &["privacy"]),
    ("## Events for operators", &["operator"]),
];

fn list(events: &[EventType], first_words: &[&str]) -> String {
    let mut table = String::from("| event | when | fields of `data` |\n|---|---|---|\n");
    for EventType { name, when, fields } in events {
        let first = name.split('.').next().unwrap();
        if first_words.contains(&first) {
            let when = when.replace('\n', " ");
            let paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
            writeln!(table, "| `{name}` | {when} | {} |", paths.join(", ")).unwrap();
        }
    }
    table
}

/// The document in which the table of each chapter is replaced by a new one.
fn written(events: &[EventType], document: &str) -> String {
    let mut text = String::new();
    let mut table = None;
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("## ") {
            let chapter = CHAPTERS.iter().find(|(chapter, _)| *chapter == line);
            table = chapter.map(|(_, first_words)| list(events, first_words));
        }
        match table.take_if(|_| line.starts_with('|')) {
            Some(new) => {
                text.push_str(&new);
                while lines.next_if(|line| line.starts_with('|')).is_some() {}
            }
            None => text.extend([line, "\n"]),
        }
    }
    text
}

#[test]
fn the_document_of_the_events_is_what_their_types_say() {
    let events = catalogue();
    let document = fs::read_to_string(PATH).unwrap();
    for (chapter, _) in CHAPTERS {
        assert!(document.lines().any(|line| line == chapter), "{chapter}");
    }
    let expected = written(&events, &document);
    #[expect(clippy::disallowed_methods, reason = "a switch of this test alone")]
    let is_update = std::env::var_os("UPDATE_DOCS").is_some();
    if is_update {
        return fs::write(PATH, expected).unwrap();
    }
    let lines = document
        .lines()
        .zip(expected.lines().chain(iter::repeat("")));
    let first = lines.enumerate().find(|(_, (is, should))| is != should);
    assert!(
        document == expected,
        "docs/events.md is not what the types of the events say (`UPDATE_DOCS=1` writes it anew): {first:?}"
    );
}

#[test]
fn every_event_has_fields_and_words_for_them() {
    let events = catalogue();
    assert!(events.len() > 25, "{}", events.len());
    for event in events {
        assert!(!event.when.is_empty(), "{}", event.name);
        assert!(!event.fields.is_empty(), "{}", event.name);
        for field in event.fields {
            assert!(!field.schema["type"].is_null(), "{field:?}");
            assert!(!field.meaning.is_empty(), "{field:?}");
        }
    }
}
