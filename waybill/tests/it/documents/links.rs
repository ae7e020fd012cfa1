//! What the documents lead to is there: files, headings and commands. So is every document that a help text, a
//! comment or a file of `deploy` names.

use std::collections::BTreeSet;
use std::path::Path;

use config::SETTINGS;

use super::cli;
use super::markdown::{Document, documents, root};
use super::sources::{Sources, is_kind};

/// Whether a path of this repository, with an anchor where it is a document, leads somewhere.
fn is_there(target: &str, documents: &[Document]) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let has_anchor = |document: &Document| document.anchors().contains(anchor);
    let document = documents.iter().find(|document| document.path == path);
    match document {
        Some(document) => anchor.is_empty() || has_anchor(document),
        None => anchor.is_empty() && root().join(path).exists(),
    }
}

/// From the root, where a link of a document leads.
fn from_root(document: &Document, target: &str) -> String {
    let folder = Path::new(&document.path).parent().unwrap();
    match target.strip_prefix("../") {
        Some(target) => target.to_owned(),
        None if target.starts_with('#') => format!("{}{target}", document.path),
        None => folder.join(target).display().to_string(),
    }
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let documents = documents();
    let mut wrong = Vec::new();
    let mut links = 0;
    for document in &documents {
        for (line, target) in document.links() {
            links += 1;
            if !is_there(&from_root(document, &target), &documents) {
                wrong.push(format!("{}:{line}: {target}", document.path));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(links > 100, "{links}");
}

/// The documents that a text names: `docs/deploy.md#upgrades`, without a full stop behind it.
fn named(text: &str) -> Vec<&str> {
    let is_of_path = |it: char| it.is_ascii_alphanumeric() || "-_./#".contains(it);
    let words = text.split(|it: char| !is_of_path(it));
    let documents = words.filter(|word| word.starts_with("docs/") && word.contains(".md"));
    documents.map(|word| word.trim_end_matches('.')).collect()
}

#[test]
fn every_document_that_the_program_names_is_there() {
    let documents = documents();
    let mut wrong = Vec::new();
    let mut all = 0;
    for file in &Sources::read().files {
        if file.path == "waybill/tests/it/documents/links.rs" {
            continue;
        }
        for name in named(&file.text) {
            all += 1;
            if !is_there(name, &documents) {
                wrong.push(format!("{}: {name}", file.path));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(all > 50, "{all}");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let documents = documents();
    for target in [
        "README.md",
        "docs/deploy.md#upgrades",
        "docs/alerts.yml",
        "scripts",
    ] {
        assert!(is_there(target, &documents), "{target}");
    }
    for target in [
        "docs/no-such.md",
        "docs/deploy.md#no-such-heading",
        "no-such-file",
    ] {
        assert!(!is_there(target, &documents), "{target}");
    }
    assert_eq!(
        named("See docs/deploy.md#upgrades. Or (docs/events.md)"),
        ["docs/deploy.md#upgrades", "docs/events.md"]
    );
}

/// Whoever doubts what a document promises finds the test that shows it.
#[test]
fn every_test_that_a_document_names_is_there() {
    let files = Sources::read().files;
    let tests: BTreeSet<&str> = files
        .iter()
        .filter(|file| is_kind(&file.path, "rs"))
        .flat_map(|file| file.text.split("fn ").skip(1))
        .filter_map(|rest| rest.split_once("()"))
        .map(|(name, _)| name)
        .collect();
    let mut named = 0;
    for document in documents() {
        for word in document.text.split('`').skip(1).step_by(2) {
            if word.matches('_').count() >= 6
                && word.chars().all(|it| it.is_lowercase() || it == '_')
            {
                named += 1;
                assert!(tests.contains(word), "{}: {word}", document.path);
            }
        }
    }
    assert!(named > 10, "{named}");
}

/// Commands of ours with their options, in blocks of code and in backticks.
#[test]
fn every_command_of_a_document_is_one_that_there_is() {
    let cli = cli::read();
    let settings = SETTINGS
        .iter()
        .filter(|it| !it.secret || it.name == "DATABASE_URL");
    let flag = |name: &str| format!("--{}", name.to_lowercase().replace('_', "-"));
    let flags: Vec<String> = settings.map(|setting| flag(setting.name)).collect();
    let mut wrong = Vec::new();
    let mut commands = 0;
    for document in documents() {
        for (line, command) in document.commands() {
            commands += 1;
            if let Err(mistake) = cli.check(command, &flags) {
                wrong.push(format!("{}:{line}: {command}: {mistake}", document.path));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(commands > 100, "{commands}");
}

/// A table is for short facts; what needs more words is a paragraph.
#[test]
fn no_cell_of_a_table_is_longer_than_three_hundred_characters() {
    for document in documents() {
        for line in document.text.lines().filter(|line| line.starts_with('|')) {
            // A bar with a backslash before it is text.
            for cell in line.replace("\\|", " ").split('|') {
                let length = cell.trim().chars().count();
                assert!(length <= 300, "{}: {length}: {cell}", document.path);
            }
        }
    }
}

/// Nobody reads more, and what is said twice is wrong once.
#[test]
fn all_documents_together_have_at_most_270_kilobytes() {
    let files = Sources::read().files;
    let documents = files.iter().filter(|file| is_kind(&file.path, "md"));
    let bytes: usize = documents.map(|file| file.text.len()).sum();
    assert!(bytes <= 270_000, "{bytes} bytes");
}
