//! The layers of ARCHITECTURE.md are those of the crates: each uses only crates of lower rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::root;

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

/// The crates of the workspace: their folders by name.
fn crates() -> BTreeMap<String, PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut folders = below(&root());
    folders.extend(below(&root().join("common")));
    folders
        .into_iter()
        .filter(|folder| folder.join("Cargo.toml").is_file())
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
    uses.get_mut("store").unwrap().push("providers".to_owned());
    uses.get_mut("domain").unwrap().push("config".to_owned());
    uses.insert("unheard_of".to_owned(), Vec::new());
    assert_eq!(
        wrong(&rows, &uses),
        [
            "domain uses config, which is no layer below it",
            "store uses providers, which is no layer below it",
            "unheard_of is in no layer"
        ]
    );
}
