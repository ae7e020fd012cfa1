//! What the program is made of: `waybill/components/sbom.json` and `waybill/components/notices.txt` are those
//! of what cargo builds in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::generated::is_update;
use super::markdown::root;
use crate::support::process::output;

/// The targets of the releases: a library that one of them has is in the list.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
const SBOM: &str = "waybill/components/sbom.json";
const NOTICES: &str = "waybill/components/notices.txt";

/// A crate in the program.
struct Crate {
    name: String,
    version: String,
    /// An SPDX expression.
    license: String,
    authors: Vec<String>,
    folder: PathBuf,
    /// SHA-256 of the package, in hexadecimal digits; our own crates have none.
    checksum: Option<String>,
    /// References to what it is built with, in the program too.
    needs: BTreeSet<String>,
}

impl Crate {
    fn reference(&self) -> String {
        reference(&self.name, &self.version)
    }
}

fn reference(name: &str, version: &str) -> String {
    format!("{name}@{version}")
}

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new("cargo");
    command.args(arguments).arg("--locked").current_dir(root());
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Name and version of all crates that are linked into `waybill`: none that only builds or tests it.
fn linked() -> BTreeSet<(String, String)> {
    let mut linked = BTreeSet::new();
    for target in TARGETS {
        let options = ["--edges", "normal,no-proc-macro", "--target", target];
        let form = ["--prefix", "none", "--format", "{p}"];
        let tree = cargo(&[&["tree", "--package", "waybill"][..], &options, &form].concat());
        for line in tree.lines() {
            let mut words = line.split(' ');
            let (name, version) = (words.next().unwrap(), words.next().unwrap());
            linked.insert((name.to_owned(), version[1..].to_owned()));
        }
    }
    linked
}

/// Checksums of the packages, by name and version.
fn checksums() -> BTreeMap<(String, String), String> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.split("[[package]]").skip(1);
    let checksum = |package: &str| {
        let value = |name: &str| {
            let mut lines = package.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            value.map(|value| value.trim_matches('"').to_owned())
        };
        let key = (value("name").unwrap(), value("version").unwrap());
        value("checksum").map(|checksum| (key, checksum))
    };
    packages.filter_map(checksum).collect()
}

/// The crates in the program, by name and version.
fn crates() -> Vec<Crate> {
    let mut options = vec!["metadata", "--format-version", "1"];
    for target in TARGETS {
        options.extend(["--filter-platform", target]);
    }
    let metadata: Value = serde_json::from_str(&cargo(&options)).unwrap();
    let (linked, checksums) = (linked(), checksums());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let key = (text(&package["name"]), text(&package["version"]));
        if !linked.contains(&key) {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let authors = package["authors"].as_array().unwrap();
        let found = Crate {
            checksum: checksums.get(&key).cloned(),
            name: key.0,
            version: key.1,
            // The older form of an alternative.
            license: text(&package["license"])
                .replace(" / ", " OR ")
                .replace('/', " OR "),
            authors: authors.iter().map(text).collect(),
            folder: manifest.parent().unwrap().to_owned(),
            needs: BTreeSet::new(),
        };
        crates.insert(text(&package["id"]), found);
    }
    assert_eq!(crates.len(), linked.len());
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let is_linked = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            kinds.iter().any(|kind| kind["kind"].is_null())
        };
        let dependencies = node["deps"].as_array().unwrap().iter().filter(is_linked);
        let needs = dependencies.filter_map(|it| crates.get(it["pkg"].as_str()?));
        let needs = needs.map(Crate::reference).collect();
        if let Some(found) = crates.get_mut(node["id"].as_str().unwrap()) {
            found.needs = needs;
        }
    }
    let mut crates: Vec<Crate> = crates.into_values().collect();
    crates.sort_by_key(Crate::reference);
    crates
}

/// The version of the SQLite whose sources the crate for it has.
fn sqlite(crates: &[Crate]) -> String {
    let bound = crates.iter().find(|it| it.name == "libsqlite3-sys");
    let header = bound.unwrap().folder.join("sqlite3/sqlite3.h");
    let header = std::fs::read_to_string(header).unwrap();
    let mut lines = header.lines();
    let version = lines.find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    version.unwrap().trim().trim_matches('"').to_owned()
}

/// The list of components in the form of `CycloneDX` 1.6: a component in a line, and no time or random number,
/// so that the same sources have the same list.
fn sbom(crates: &[Crate]) -> String {
    let sqlite = sqlite(crates);
    let sqlite_reference = reference("sqlite", &sqlite);
    let mut components: Vec<Value> = crates
        .iter()
        .filter(|it| it.name != "waybill")
        .map(|it| {
            let mut component = json!({
                "type": "library",
                "bom-ref": it.reference(),
                "name": it.name,
                "version": it.version,
                "licenses": [{"expression": it.license}],
            });
            match &it.checksum {
                Some(checksum) => {
                    component["purl"] = format!("pkg:cargo/{}@{}", it.name, it.version).into();
                    component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
                }
                None => component["group"] = "waybill".into(),
            }
            component
        })
        .collect();
    components.push(json!({
        "type": "library",
        "bom-ref": sqlite_reference,
        "name": "sqlite",
        "version": sqlite,
        "licenses": [{"license": {"id": "blessing"}}],
        "purl": format!("pkg:generic/sqlite@{sqlite}"),
        "cpe": format!("cpe:2.3:a:sqlite:sqlite:{sqlite}:*:*:*:*:*:*:*"),
    }));
    let needs = crates.iter().map(|it| {
        let mut needs = it.needs.clone();
        if it.name == "libsqlite3-sys" {
            needs.insert(sqlite_reference.clone());
        }
        json!({"ref": it.reference(), "dependsOn": needs})
    });
    let own = crates.iter().find(|it| it.name == "waybill").unwrap();
    let own = json!({
        "type": "application",
        "bom-ref": own.reference(),
        "name": own.name,
        "version": own.version,
        "licenses": [{"expression": own.license}],
    });
    let lines = |values: Vec<Value>| {
        let lines: Vec<String> = values.iter().map(|it| format!("    {it}")).collect();
        lines.join(",\n")
    };
    format!(
        "{{\n  \"$schema\": \"http://cyclonedx.org/schema/bom-1.6.schema.json\",\n  \"bomFormat\": \"CycloneDX\",\n  \
         \"specVersion\": \"1.6\",\n  \"version\": 1,\n  \"metadata\": {{\"component\": {own}}},\n  \
         \"components\": [\n{}\n  ],\n  \"dependencies\": [\n{}\n  ]\n}}\n",
        lines(components),
        lines(needs.collect())
    )
}

/// The files of a package that say under which terms it is used. Where one may choose, MIT is chosen.
fn terms(it: &Crate) -> Vec<String> {
    let entries = std::fs::read_dir(&it.folder).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, PathBuf)> = files
        .filter(|path| path.is_file())
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_lowercase(),
                path,
            )
        })
        .filter(|(name, _)| {
            let begins = [
                "license",
                "licence",
                "copying",
                "copyright",
                "notice",
                "unlicense",
            ];
            begins.iter().any(|begin| name.starts_with(begin))
        })
        .collect();
    files.sort();
    let may_choose = it.license.contains("MIT") && !it.license.contains(" AND ");
    let is_chosen = |name: &str| name.contains("mit");
    if may_choose && files.iter().any(|(name, _)| is_chosen(name)) {
        files.retain(|(name, _)| {
            is_chosen(name) || name.starts_with("copyright") || name.starts_with("notice")
        });
    }
    let read = |path: &Path| {
        let text = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n").trim_matches('\n').to_owned()
    };
    let found: Vec<String> = files.iter().map(|(_, path)| read(path)).collect();
    if !found.is_empty() {
        return found;
    }
    let own = if it.license.contains("MIT") {
        "LICENSE-MIT"
    } else {
        "LICENSE-APACHE"
    };
    // The words that ask for it, without the line that names the authors of Waybill.
    let standard = read(&root().join(own));
    let standard = standard
        .lines()
        .filter(|line| !line.starts_with("Copyright (c)"));
    let standard: Vec<&str> = standard.collect();
    vec![format!(
        "The package has no file with its licence. It is by {}, under {}:\n\n{}",
        match it.authors.as_slice() {
            [] => "its authors".to_owned(),
            authors => authors.join(", "),
        },
        it.license,
        standard.join("\n").trim_matches('\n')
    )]
}

/// Each text once, after all those libraries that are used under its terms.
fn notices(crates: &[Crate]) -> String {
    let mut texts: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
    for it in crates.iter().filter(|it| it.checksum.is_some()) {
        for text in terms(it) {
            // The same words may be broken into other lines.
            let words: Vec<&str> = text.split_whitespace().collect();
            let known = texts.entry(words.join(" ")).or_default();
            known.0.insert(format!("{} {}", it.name, it.version));
            known.1 = text;
        }
    }
    let mut texts: Vec<(BTreeSet<String>, String)> = texts.into_values().collect();
    texts.sort();
    let mut notices =
        "Waybill contains libraries of others, and SQLite, which is in the public domain. \
                       These are their licences.\n"
            .to_owned();
    for (libraries, text) in texts {
        let libraries: Vec<String> = libraries.into_iter().collect();
        let line = "=".repeat(80);
        let _ = write!(
            notices,
            "\n{line}\n{}\n{line}\n\n{text}\n",
            libraries.join(", ")
        );
    }
    notices
}

#[test]
fn the_components_are_those_that_are_built_in() {
    let crates = crates();
    assert!(crates.iter().any(|it| it.name == "sqlx"));
    for it in crates.iter().filter(|it| it.checksum.is_some()) {
        assert!(!it.license.is_empty(), "{} has no licence", it.name);
    }
    for (path, text) in [(SBOM, sbom(&crates)), (NOTICES, notices(&crates))] {
        let path = root().join(path);
        if is_update() {
            std::fs::write(&path, &text).unwrap();
        }
        let is_same = std::fs::read_to_string(&path).unwrap_or_default() == text;
        assert!(
            is_same,
            "{} differs from what cargo builds in; UPDATE_DOCS=1 with this test writes it anew",
            path.display()
        );
    }
}
