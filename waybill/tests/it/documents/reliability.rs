//! The tables of docs/reliability.md: what is claimed, by what it was shown, and when.
//!
//! What runs with every change is counted here from docs/faults.md and from the sources. What takes longer is
//! in docs/proofs.json, with its figures and its date, written by whoever ran it.

use std::collections::BTreeMap;
use std::path::Path;

use domain::time::Timestamp;
use serde::Deserialize;

use super::generated::table;
use super::markdown::root;

/// A claim, and what shows it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    /// A whole sentence.
    promise: String,
    command: String,
    figures: String,
    /// The day of the run.
    date: String,
    /// What the run does not show; empty if nothing is missing.
    not_shown: String,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn proofs() -> String {
    let proofs: Vec<Proof> = serde_json::from_str(&read("docs/proofs.json")).unwrap();
    let rows = proofs.iter().map(|proof| {
        let script = proof.command.split(' ').next().unwrap();
        assert!(root().join(script).is_file(), "{script} is no script");
        assert!(proof.promise.ends_with('.'), "{}", proof.promise);
        assert!(Timestamp::end_of(&proof.date).is_ok(), "{}", proof.date);
        vec![
            proof.promise.clone(),
            format!("`{}`", proof.command),
            proof.figures.clone(),
            proof.date.clone(),
            proof.not_shown.clone(),
        ]
    });
    let head = ["promise", "shown by", "figures", "date", "not shown"];
    table(&head, rows)
}

/// The rows of docs/faults.md: number, fault, how far it is covered, tests.
fn faults() -> Vec<[String; 4]> {
    let text = read("docs/faults.md");
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        match cells[..] {
            [number, fault, covered, tests] if number != "#" => {
                Some([number, fault, covered, tests].map(str::to_owned))
            }
            _ => None,
        }
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 40, "{}", rows.len());
    rows
}

/// Faults and attacks, with how many tests show each, in which half.
pub fn covered() -> String {
    let rows = faults().into_iter().map(|[number, fault, covered, tests]| {
        let named = tests.matches("::").count();
        assert!(named > 0 || tests.contains("the tests of"), "{number}");
        let of_both = named - tests.matches("` (d)").count();
        let count = match (named, of_both) {
            (0, _) => "a file of tests".to_owned(),
            (1, 1) => "1 test".to_owned(),
            (1, _) => "1 test, distributed".to_owned(),
            (named, of_both) if named == of_both => format!("{named} tests"),
            (named, of_both) => format!("{named} tests, {} distributed", named - of_both),
        };
        vec![number, fault, covered, count]
    });
    table(&["#", "fault or attack", "shown", "by"], rows)
}

/// The defects of `scripts/wrong-builds`, and which test noticed each first.
pub fn wrong_builds() -> String {
    let noticed = read("scripts/wrong_builds/noticed.tsv");
    let noticed: BTreeMap<&str, (&str, &str)> = noticed
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let [name, test, date] = cells[..] else {
                panic!("{line}: a name, a test, a date");
            };
            (name, (test, date))
        })
        .collect();
    let mut names: Vec<String> = std::fs::read_dir(root().join("scripts/wrong_builds"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "patch"))
        .map(|path| stem(&path))
        .collect();
    names.sort();
    let rows = names.iter().map(|name| {
        let text = read(&format!("scripts/wrong_builds/{name}.patch"));
        let what = text.lines().next().unwrap().to_owned();
        let (test, date) = noticed.get(name.as_str()).unwrap_or_else(|| {
            panic!("scripts/wrong-builds {name} has not shown that a test notices it")
        });
        vec![
            format!("`{name}`"),
            what,
            // Without the modules, as it is found in the sources.
            format!("`{}`", test.rsplit("::").next().unwrap()),
            (*date).to_owned(),
        ]
    });
    table(
        &["defect", "what it makes wrong", "noticed first by", "date"],
        rows,
    )
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}
