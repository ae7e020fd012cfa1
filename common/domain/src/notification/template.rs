//! A text with placeholders. A template that was parsed can be rendered with any values.

use std::fmt::Write;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const SUBJECT: &str = "Subject:";

/// A mail as text. Its subject is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    pub subject: String,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    subject: Line,
    body: Vec<Line>,
}

/// A mistake in a template, with the number of its line counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TemplateError {
    pub line: usize,
    what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder(String),
}

impl Template {
    /// Reads a template that may use the `known` placeholders. An error lists every mistake.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, Vec<TemplateError>> {
        let mut errors = Vec::new();
        let mut wrong = |line, what| errors.push(TemplateError { line, what });
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = (1..).zip(text.lines());
        let first = lines.next().map_or("", |(_, line)| line);
        let subject = first.strip_prefix(SUBJECT).unwrap_or_default().trim();
        if subject.is_empty() {
            wrong(1, format!("must be `{SUBJECT}` and a text"));
        }
        if lines
            .next()
            .is_some_and(|(_, line)| !line.trim().is_empty())
        {
            wrong(2, "must be empty: it ends the subject".to_owned());
        }
        let mut read = |number, text| {
            Line::parse(text, known).unwrap_or_else(|what| {
                wrong(number, what);
                Line(Vec::new())
            })
        };
        let subject = read(1, subject);
        let body: Vec<Line> = lines.map(|(number, text)| read(number, text)).collect();
        if body.iter().all(|line| line.0.is_empty()) && errors.is_empty() {
            let what = "must begin the text of the mail".to_owned();
            errors.push(TemplateError { line: 3, what });
        }
        if errors.is_empty() {
            Ok(Template { subject, body })
        } else {
            Err(errors)
        }
    }

    /// The mail with these values. A placeholder without a value becomes empty. A line whose
    /// placeholders are all empty is left out, together with an empty line that would remain of
    /// it.
    pub fn render(&self, values: &[(&str, &str)]) -> Mail {
        let values: Vec<(&str, String)> = values
            .iter()
            .map(|(name, value)| (*name, one_line(value)))
            .collect();
        let mut body: Vec<String> = Vec::new();
        let mut left_out = false;
        for line in &self.body {
            if line.says_nothing(&values) {
                left_out = true;
                continue;
            }
            let text = line.render(&values);
            if text.is_empty() && left_out && body.last().is_none_or(String::is_empty) {
                continue;
            }
            left_out = false;
            body.push(text);
        }
        Mail {
            subject: self.subject.render(&values).trim().to_owned(),
            body: format!("{}\n", body.join("\n").trim_end()),
        }
    }
}

impl Line {
    fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.trim_end();
        if rest.contains('\r') {
            return Err("has a carriage return that ends no line".to_owned());
        }
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((name, after)) = after.split_once(CLOSE) else {
                return Err(format!("has `{OPEN}` without `{CLOSE}`"));
            };
            let name = name.trim();
            if !known.contains(&name) {
                let name = name.escape_debug();
                let mut what = format!("{OPEN}{name}{CLOSE} is not known; there are ");
                for (nth, known) in known.iter().enumerate() {
                    let comma = if nth == 0 { "" } else { ", " };
                    let _ = write!(what, "{comma}{OPEN}{known}{CLOSE}");
                }
                return Err(what);
            }
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Placeholder(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Line(pieces))
    }

    /// True when the line has placeholders and all of them are empty.
    fn says_nothing(&self, values: &[(&str, String)]) -> bool {
        let mut names = self.0.iter().filter_map(|piece| match piece {
            Piece::Placeholder(name) => Some(name),
            Piece::Text(_) => None,
        });
        names.clone().next().is_some() && names.all(|name| value(values, name).is_empty())
    }

    fn render(&self, values: &[(&str, String)]) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Placeholder(name) => value(values, name),
        });
        pieces.collect()
    }
}

fn value<'a>(values: &'a [(&str, String)], name: &str) -> &'a str {
    let value = values.iter().find(|(known, _)| *known == name);
    value.map_or("", |(_, value)| value)
}

/// The value with a space in place of each line break and other control character.
fn one_line(value: &str) -> String {
    let is_break = |c: char| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c);
    value.replace(is_break, " ").trim().to_owned()
}
