//! The tables of docs/events.md are generated from the types of the events. With `UPDATE_DOCS=1`
//! this test writes them instead of comparing them. The text around them is written by people.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::{fs, iter};

use domain::event::{EventField, EventType, catalogue};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");

/// The chapters, with the first words of the event types that each of them lists.
const CHAPTERS: [(&str, &[&str]); 3] = [
    ("## Events of orders", &["order"]),
    (
        "## Events of payments, checkout sessions and subscriptions",
        &["payment", "checkout", "subscription"],
    ),
    ("## Events of privacy requests", &["privacy"]),
];

fn list(events: &[EventType], first_words: &[&str]) -> String {
    let mut table = String::from("| event | when |\n|---|---|\n");
    for EventType { name, when, .. } in events {
        let first = name.split('.').next().unwrap();
        if first_words.contains(&first) {
            let when = when.replace('\n', " ");
            writeln!(table, "| `{name}` | {when} |").unwrap();
        }
    }
    table
}

fn fields(event: &EventType) -> String {
    let mut table = String::from("| field | type | meaning |\n|---|---|---|\n");
    for field in &event.fields {
        let EventField { path, meaning, .. } = field;
        let meaning = meaning.replace('\n', " ");
        writeln!(table, "| `{path}` | {} | {meaning} |", kind(field)).unwrap();
    }
    table
}

/// The JSON type of a field, such as `string or null`.
fn kind(field: &EventField) -> String {
    let kinds = match &field.schema["type"] {
        serde_json::Value::Array(kinds) => kinds.clone(),
        only => vec![only.clone()],
    };
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str().unwrap()).collect();
    kinds.join(" or ")
}

/// The document in which each generated table is replaced by a new one.
fn written(document: &str, table_of: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::new();
    let mut table = None;
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("## ") || line.starts_with("### ") {
            table = table_of(line);
        }
        match &table {
            Some(new) if line.starts_with('|') => {
                text.push_str(new);
                table = None;
                while lines.next_if(|line| line.starts_with('|')).is_some() {}
            }
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

fn document_of(events: &[EventType], document: &str) -> String {
    written(document, |heading| {
        let chapter = CHAPTERS.iter().find(|(chapter, _)| *chapter == heading);
        let name = heading.strip_prefix("### ");
        let event = events
            .iter()
            .find(|event| Some(event.name.as_str()) == name);
        let list = chapter.map(|(_, first_words)| list(events, first_words));
        list.or_else(|| event.map(fields))
    })
}

#[test]
fn the_document_of_the_events_is_what_their_types_say() {
    let events = catalogue();
    let document = fs::read_to_string(PATH).unwrap();
    let headings = document
        .lines()
        .filter_map(|line| line.strip_prefix("### "));
    let headings: BTreeSet<&str> = headings.collect();
    let names: BTreeSet<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(
        headings, names,
        "each event has a heading `### <type>` in docs/events.md"
    );
    for (chapter, _) in CHAPTERS {
        assert!(document.lines().any(|line| line == chapter), "{chapter}");
    }
    let expected = document_of(&events, &document);
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
            let kind = kind(&field);
            assert!(!kind.is_empty() && !field.meaning.is_empty(), "{field:?}");
        }
    }
}

#[test]
fn a_table_that_is_out_of_date_is_written_anew_and_its_text_is_kept() {
    let before = "### order.created\n\nA text.\n\n| field | type |\n|---|---|\n| `old` | x |\n\nMore.\n\n| a |\n|---|\n";
    let mut created = catalogue();
    created.retain(|event| event.name == "order.created");
    let after = document_of(&created, before);
    assert!(after.starts_with("### order.created\n\nA text.\n\n| field | type | meaning |\n"));
    assert!(after.ends_with(" |\n\nMore.\n\n| a |\n|---|\n"), "{after}");
    assert!(after.contains("\n| `order_id` | string | the storefront's id of the order |\n"));
    assert!(!after.contains("old"));
    assert_eq!(document_of(&created, &after), after);
}
