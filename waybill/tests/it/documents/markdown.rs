//! The documents of this repository, and the parts of them that can be checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A line with its number from 1.
type Line<'a> = (usize, &'a str);

pub struct Document {
    /// From the root: `docs/orders.md`.
    pub path: String,
    pub text: String,
}

/// What people read: the documents at the root and in `docs/`.
pub fn documents() -> Vec<Document> {
    let mut paths = Vec::new();
    for folder in ["", "docs"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|it| it == "md") {
                paths.push(match folder {
                    "" => name,
                    _ => format!("{folder}/{name}"),
                });
            }
        }
    }
    paths.sort();
    assert!(paths.len() > 12, "{paths:?}");
    let read = |path: String| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        Document { path, text }
    };
    paths.into_iter().map(read).collect()
}

impl Document {
    /// The lines outside of fenced code, and those inside.
    fn lines(&self) -> (Vec<Line<'_>>, Vec<Line<'_>>) {
        let (mut prose, mut code) = (Vec::new(), Vec::new());
        let mut is_code = false;
        for (number, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if is_code || line.starts_with("    ") && !line.contains('`') {
                code.push((number + 1, line));
            } else {
                prose.push((number + 1, line));
            }
        }
        assert!(!is_code, "{}: a fence is not closed", self.path);
        (prose, code)
    }

    /// Our own commands in it, in blocks of code and in backticks, without a prompt and a comment.
    pub fn commands(&self) -> Vec<(usize, &str)> {
        let (prose, code) = self.lines();
        let blocks = code.into_iter().filter_map(|(number, line)| {
            let line = line.trim().trim_start_matches("$ ");
            let line = line.split(" #").next().unwrap_or(line);
            let command = line
                .strip_prefix("waybill ")
                .or_else(|| line.strip_prefix("cargo run -- "));
            command.map(|command| (number, command))
        });
        let spans = prose.into_iter().flat_map(|(number, line)| {
            let spans = line.split("`waybill ").skip(1);
            spans.map(move |rest| (number, rest.split('`').next().unwrap_or(rest)))
        });
        blocks.chain(spans).collect()
    }

    /// Where its links lead, but those to other sites.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.lines().0 {
            for rest in line.split("](").skip(1) {
                let target = rest.split(')').next().unwrap_or(rest);
                if !target.contains("://") {
                    links.push((number, target.to_owned()));
                }
            }
        }
        links
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> BTreeSet<String> {
        let headings = self
            .lines()
            .0
            .into_iter()
            .filter(|(_, line)| line.starts_with('#'));
        let anchor = |(_, line): (usize, &str)| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|letter| {
                letter.is_alphanumeric() || *letter == ' ' || *letter == '-' || *letter == '_'
            });
            kept.map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        };
        headings.map(anchor).collect()
    }
}
