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

    /// What stands in backticks, with the number of its line.
    pub fn spans(&self) -> Vec<(usize, String)> {
        let mut spans = Vec::new();
        // The line, the fence and the text of a span that is not closed yet.
        let mut open: Option<(usize, usize, String)> = None;
        for (number, line) in self.lines().0 {
            if line.trim().is_empty() {
                if let Some((at, ..)) = open {
                    panic!("{}:{at}: a backtick is not closed", self.path);
                }
                continue;
            }
            let mut rest = line;
            while !rest.is_empty() {
                let text = rest.find('`').map_or(rest, |at| &rest[..at]);
                let after = &rest[text.len()..];
                let ticks = after.len() - after.trim_start_matches('`').len();
                rest = &after[ticks..];
                match &mut open {
                    Some((at, fence, span)) => {
                        span.push_str(text);
                        if ticks == *fence {
                            spans.push((*at, span.trim().to_owned()));
                            open = None;
                        } else {
                            span.push_str(&after[..ticks]);
                        }
                    }
                    None if ticks > 0 => open = Some((number, ticks, String::new())),
                    None => {}
                }
            }
            if let Some((_, _, span)) = &mut open {
                span.push(' ');
            }
        }
        spans
    }

    /// The lines of code that are commands of ours, without a prompt and a comment.
    pub fn commands(&self) -> Vec<(usize, String)> {
        let code = self.lines().1.into_iter();
        let lines = code.filter_map(|(number, line)| {
            let line = line.trim().trim_start_matches("$ ");
            let line = line.split(" #").next().unwrap_or(line).trim();
            line.starts_with("waybill ")
                .then(|| (number, line.to_owned()))
                .or_else(|| {
                    line.starts_with("cargo run -- ")
                        .then(|| (number, line.to_owned()))
                })
        });
        lines.collect()
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
