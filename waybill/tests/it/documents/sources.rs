//! The text files of this repository.

use std::path::Path;

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
}

pub struct Sources {
    pub files: Vec<Source>,
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
            files.push(Source { path, text });
        }
    }
}

/// Whether a path ends with this extension.
pub fn is_kind(path: &str, kind: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == kind)
}

impl Sources {
    pub fn read() -> Self {
        let mut files = Vec::new();
        collect(&root(), "", &mut files);
        assert!(files.len() > 500, "{}", files.len());
        Sources { files }
    }

    /// Whether a file below this folder has this text.
    pub fn has(&self, folder: &str, text: &str) -> bool {
        let mut files = self.files.iter();
        files.any(|file| file.path.starts_with(folder) && file.text.contains(text))
    }
}
