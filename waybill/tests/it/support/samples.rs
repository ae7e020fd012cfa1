//! The sample bodies of the providers' documentation, and the tables of what they come to.

use std::path::Path;

use serde_json::Value;

/// What a sample of `fixtures/samples` holds.
pub fn sample(path: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/samples");
    read(&Path::new(folder).join(format!("{path}.json")))
}

/// What a fixture of the domain holds.
pub fn of_domain(path: &str) -> Value {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../common/domain/tests/fixtures"
    );
    read(&Path::new(folder).join(format!("{path}.json")))
}

fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap()
}

/// The cells of a row.
pub fn cells(row: &str) -> Vec<&str> {
    row.split('|').map(str::trim).collect()
}

/// The rows of a table, each as its cells.
pub fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().filter(|row| !row.trim().is_empty());
    rows.map(cells).collect()
}

/// Compares a table with what came out, row by row.
pub fn check(came: &[String], table: &str) {
    let came: Vec<Vec<&str>> = came.iter().map(|row| cells(row)).collect();
    let expected = rows(table);
    let wrong: Vec<String> = came
        .iter()
        .filter(|row| !expected.contains(row))
        .map(|row| row.join(" | "))
        .collect();
    assert!(wrong.is_empty(), "these came:\n{}", wrong.join("\n"));
    assert_eq!(came, expected);
}
