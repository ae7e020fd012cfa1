//! The layers of ARCHITECTURE.md are those of the crates: each uses only crates of lower rows. And
//! one crate, `flows`, is the only one that writes rows of orders and events.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::root;
use super::sources::{Sources, is_kind};

/// Used by the crate of its own row: the program has the stand-ins for development.
const BESIDE: [(&str, &str); 1] = [("waybill", "sandbox")];

/// The names in backticks of a table's first column, with the row that each is in from the top.
fn rows(architecture: &str) -> BTreeMap<String, usize> {
    let table = architecture
        .split_once("| crates, from the top |")
        .expect("the table of the layers")
        .1;
    let lines = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut rows = BTreeMap::new();
    for (row, line) in lines.enumerate() {
        let cell = line.split('|').nth(1).unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            rows.insert(name.to_owned(), row);
        }
    }
    rows
}

/// The crates of the workspace: their folders by name. Fuzzing is a workspace of its own.
fn crates() -> BTreeMap<String, PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut folders = below(&root());
    folders.extend(below(&root().join("common")));
    folders
        .into_iter()
        .filter(|folder| folder.join("Cargo.toml").is_file() && !folder.ends_with("fuzz"))
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            (name, folder)
        })
        .collect()
}

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split_once("[dependencies]\n").unwrap().1;
    let section = section.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split('.').next());
    names.map(ToOwned::to_owned).collect()
}

fn wrong(rows: &BTreeMap<String, usize>, uses: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (user, dependencies) in uses {
        let Some(row) = rows.get(user) else {
            wrong.push(format!("{user} is in no layer"));
            continue;
        };
        for used in dependencies {
            let is_lower = rows.get(used).is_some_and(|it| it > row);
            let is_beside = BESIDE.contains(&(user.as_str(), used.as_str()));
            if uses.contains_key(used) && !is_lower && !is_beside {
                wrong.push(format!("{user} uses {used}, which is no layer below it"));
            }
        }
    }
    wrong
}

fn uses() -> BTreeMap<String, Vec<String>> {
    let manifest = |folder: PathBuf| fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let crates = crates().into_iter();
    crates
        .map(|(name, folder)| (name, dependencies(&manifest(folder))))
        .collect()
}

#[test]
fn each_crate_uses_only_layers_below_it() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (rows, uses) = (rows(&architecture), uses());
    assert!(rows.len() > 10, "{rows:?}");
    assert!(rows.keys().all(|name| uses.contains_key(name)), "{rows:?}");
    assert_eq!(wrong(&rows, &uses), Vec::<String>::new());
}

#[test]
fn a_crate_that_uses_a_layer_above_it_is_found() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (rows, mut uses) = (rows(&architecture), uses());
    uses.get_mut("store").unwrap().push("flows".to_owned());
    uses.get_mut("domain").unwrap().push("config".to_owned());
    uses.insert("unheard_of".to_owned(), Vec::new());
    assert_eq!(
        wrong(&rows, &uses),
        [
            "domain uses config, which is no layer below it",
            "store uses flows, which is no layer below it",
            "unheard_of is in no layer"
        ]
    );
}

/// The functions of the store that write rows of orders and events, each with its module.
const WRITERS: [(&str, &str); 3] = [
    ("records", "insert_new"),
    ("records", "save"),
    ("events", "insert"),
];

/// Whether a text calls this function of this module or brings it in with `use`: `module::function`,
/// `module::{.., function}` or `module::*`. A module under another name counts as well, because its
/// functions could then be called under that name.
fn names(text: &str, module: &str, function: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let begins_with_word = |text: &str, word: &str| {
        text.strip_prefix(word)
            .is_some_and(|rest| !rest.starts_with(is_letter))
    };
    text.match_indices(module).any(|(at, _)| {
        let rest = &text[at + module.len()..];
        if text[..at].ends_with(is_letter) {
            return false;
        }
        if rest.starts_with(" as ") && text[..at].ends_with(['{', ':']) {
            return true;
        }
        let Some(rest) = rest.strip_prefix("::") else {
            return false;
        };
        let listed = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next());
        let is_listed = listed.is_some_and(|listed| {
            let mut listed = listed.split(',').map(str::trim);
            listed.any(|name| begins_with_word(name, function) || name.starts_with("self as "))
        });
        begins_with_word(rest, function) || rest.starts_with('*') || is_listed
    })
}

/// The sources that write rows of orders and events, tests and the store itself aside.
fn writers<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let is_tried = |path: &str| {
        let for_tests = ["/tests/", "/benches/"];
        let is_test = for_tests.into_iter().any(|part| path.contains(part));
        is_kind(path, "rs") && !is_test && !path.starts_with("common/store/")
    };
    let mut writers = Vec::new();
    for (path, text) in sources.filter(|(path, _)| is_tried(path)) {
        for (module, function) in WRITERS {
            if names(text, module, function) {
                writers.push(format!("{path} uses {module}::{function}"));
            }
        }
    }
    writers
}

#[test]
fn only_flows_writes_rows_of_orders_and_events() {
    let sources = Sources::read();
    let files = sources.files.iter();
    let writers = writers(files.map(|file| (file.path.as_str(), file.text.as_str())));
    let (of_flows, others): (Vec<_>, Vec<_>) = writers
        .into_iter()
        .partition(|it| it.starts_with("common/flows/src/"));
    assert_eq!(others, Vec::<String>::new());
    for (module, function) in WRITERS {
        let what = format!("uses {module}::{function}");
        assert!(of_flows.iter().any(|it| it.ends_with(&what)), "{what}");
    }
}

#[test]
fn a_writer_elsewhere_is_found() {
    let found = [
        "records::save(&mut tx, &rows, now).await?;",
        "use store::orders::records::insert_new;",
        "use store::orders::records::{self, OrderKey, save};",
        "use store::orders::records::*;",
        "use store::orders::records as rows;",
        "use store::orders::records::{self as rows, OrderKey};",
        "store::events::insert(&mut tx, &new, now).await?;",
    ];
    for text in found {
        let sources = [("ingress/src/checkout.rs", text)];
        assert!(!writers(sources.into_iter()).is_empty(), "{text}");
    }
    let passed = [
        "checkout_sessions::insert_new(tx, &incoming, now).await?;",
        "records::save_all(tx)",
        "use store::orders::records::{self, OrderKey};",
        "events::insert_here()",
        "let events = found as Vec<_>;",
    ];
    for text in passed {
        let sources = [("workers/src/run.rs", text)];
        assert_eq!(writers(sources.into_iter()), Vec::<String>::new(), "{text}");
    }
    let elsewhere = [
        ("waybill/tests/it/both/api/events.rs", found[6]),
        ("common/store/src/orders/records.rs", found[0]),
    ];
    assert_eq!(writers(elsewhere.into_iter()), Vec::<String>::new());
}

/// Where a statement reads all columns of a table. When a later version adds one, the prepared
/// statements of a process of this version that runs beside it would fail.
fn all_columns(text: &str) -> Vec<&str> {
    let reads_all = |line: &&str| {
        let of_a_table = line.contains(".*,") || line.contains(".* ");
        let is_list = line.contains("select * from unnest(");
        let reads = line.contains("select *") || line.contains("returning *");
        (reads || of_a_table) && !is_list && !line.trim_start().starts_with("//")
    };
    text.lines().filter(reads_all).collect()
}

#[test]
fn no_statement_reads_columns_that_a_later_version_may_add() {
    let sources = Sources::read();
    let mut files = sources.files.iter();
    let all = files
        .by_ref()
        .filter(|file| file.path.starts_with("common/store/src/"));
    let found: Vec<String> = all
        .flat_map(|file| {
            let lines = all_columns(&file.text).into_iter();
            lines.map(|line| format!("{}: {}", file.path, line.trim()))
        })
        .collect();
    assert_eq!(found, Vec::<String>::new());
    for line in [
        "\"select * from users\"",
        "users.*, orgs.name",
        "returning *\",",
    ] {
        assert_eq!(all_columns(line).len(), 1, "{line}");
    }
}
