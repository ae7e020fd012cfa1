//! What the sources of this repository define, so that a document's names can be looked up.

use std::collections::BTreeSet;
use std::path::Path;

use memchr::memmem;

use super::markdown::root;

/// Folders that hold no source of ours.
const NO_SOURCE: [&str; 5] = [
    "target",
    "node_modules",
    "data",
    "__pycache__",
    "proptest-regressions",
];

pub struct Source {
    /// From the root: `ingress/src/routes/mod.rs`.
    pub path: String,
    pub text: String,
    /// Its module with the crate's folders: `ingress`, `routes`.
    module: Vec<String>,
    items: BTreeSet<String>,
}

pub struct Sources {
    pub files: Vec<Source>,
    /// The identifiers of all files but tests and documents.
    words: BTreeSet<String>,
    /// These files in lower case.
    text: String,
}

fn collect(folder: &Path, from_root: &str, files: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{from_root}{name}");
        if entry.file_type().unwrap().is_dir() {
            if name != ".git" && !NO_SOURCE.contains(&name.as_str()) {
                collect(&entry.path(), &format!("{path}/"), files);
            }
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            let is_rust = is_kind(&path, "rs");
            files.push(Source {
                module: module(&path),
                items: if is_rust {
                    items(&text)
                } else {
                    BTreeSet::new()
                },
                path,
                text,
            });
        }
    }
}

/// Whether a path ends with this extension.
pub fn is_kind(path: &str, kind: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == kind)
}

fn module(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let parts = path.split('/');
    let parts = parts.filter(|part| !["src", "mod", "lib", "main", "bin"].contains(part));
    parts.map(ToOwned::to_owned).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty())
}

/// What a file defines: functions, types, constants, modules, and what it passes on.
fn items(text: &str) -> BTreeSet<String> {
    const KINDS: [&str; 9] = [
        "fn", "struct", "enum", "trait", "type", "static", "mod", "union", "const",
    ];
    let mut items = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("pub use ") || line.starts_with("pub(crate) use ") {
            items.extend(words(line).map(ToOwned::to_owned));
            continue;
        }
        if let Some(name) = line.strip_prefix("macro_rules! ") {
            items.extend(words(name).next().map(ToOwned::to_owned));
        }
        let mut tokens = line.split_whitespace().peekable();
        while let Some(token) = tokens.next() {
            let is_const_fn = token == "const"
                && tokens
                    .peek()
                    .is_some_and(|next| ["fn", "async", "unsafe"].contains(next));
            if KINDS.contains(&token) && !is_const_fn {
                items.extend(
                    tokens
                        .next()
                        .and_then(|name| words(name).next())
                        .map(ToOwned::to_owned),
                );
                break;
            }
            if !token.starts_with("pub") && !["async", "unsafe", "const"].contains(&token) {
                break;
            }
        }
    }
    items
}

/// As `str::contains`. Without optimization that takes twenty times as long.
fn contains(text: &str, part: &str) -> bool {
    memmem::find(text.as_bytes(), part.as_bytes()).is_some()
}

impl Source {
    /// Whether the file has this text.
    pub fn has(&self, text: &str) -> bool {
        contains(&self.text, text)
    }
}

impl Sources {
    pub fn read() -> Self {
        let mut files = Vec::new();
        collect(&root(), "", &mut files);
        let is_code = |path: &str| {
            let is_test = path.contains("/tests/") || path.contains("/benches/");
            !is_test && !is_kind(path, "md") && !is_kind(path, "lock")
        };
        let mut all = BTreeSet::new();
        let mut text = String::new();
        for file in files.iter().filter(|file| is_code(&file.path)) {
            all.extend(words(&file.text).map(ToOwned::to_owned));
            text.push_str(&file.text.to_lowercase());
        }
        assert!(all.len() > 5000, "{}", all.len());
        Sources {
            files,
            words: all,
            text,
        }
    }

    /// Whether the code, tests aside, has this identifier.
    pub fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Whether the code, tests aside, has this text in any case.
    pub fn has_text(&self, text: &str) -> bool {
        contains(&self.text, &text.to_lowercase())
    }

    /// The files that a path means: `deny.toml`, `docs/`, `routes/mod.rs`, `common/sql.rs` of
    /// tests. Its last part is the file's name, the others are among the folders in their order.
    pub fn at(&self, path: &str) -> Vec<&Source> {
        let path = path.trim_start_matches("./");
        let mut found = Vec::new();
        for file in &self.files {
            let is_folder = path.ends_with('/') && file.path.starts_with(path);
            let in_folder = file.path.starts_with(&format!("{path}/"));
            let mut parts = file.path.rsplit('/');
            let mut wanted = path.rsplit('/');
            let is_named =
                wanted.next() == parts.next() && wanted.all(|part| parts.any(|it| it == part));
            if is_folder || in_folder || is_named {
                found.push(file);
            }
        }
        found
    }

    /// Whether a path of names leads to something: `store::jobs::finish`, `Tx::query`,
    /// `handlers::orders`.
    pub fn has_item(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split("::").collect();
        self.resolves(&names)
    }

    fn resolves(&self, names: &[&str]) -> bool {
        let Some((last, module)) = names.split_last() else {
            return false;
        };
        let ends_with = |file: &Source, names: &[&str]| {
            let skipped = file.module.len().checked_sub(names.len());
            skipped.is_some_and(|skipped| file.module[skipped..].iter().eq(names))
        };
        let is_module = |file: &&Source| ends_with(file, names);
        let is_item = |file: &&Source| ends_with(file, module) && file.items.contains(*last);
        let is_of_type = |file: &&Source| {
            let Some((owner, module)) = module.split_last() else {
                return false;
            };
            let is_type = owner.starts_with(|letter: char| letter.is_ascii_uppercase());
            let is_here = file.items.contains(*owner)
                || file.has(&format!("impl {owner}"))
                || file.has(&format!("for {owner}"));
            let is_variant = last.starts_with(|letter: char| letter.is_ascii_uppercase());
            let has_it = if is_variant {
                words(&file.text).any(|word| word == *last)
            } else {
                file.items.contains(*last)
            };
            is_type && is_here && has_it && ends_with(file, module)
        };
        let mut rust = self.files.iter().filter(|file| is_kind(&file.path, "rs"));
        rust.any(|file| is_module(&file) || is_item(&file) || is_of_type(&file))
    }
}
