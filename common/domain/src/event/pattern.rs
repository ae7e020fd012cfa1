//! Patterns of event types, as the bindings of a broker's topic exchange have them.

use std::fmt;
use std::str::FromStr;

/// Characters that a pattern may have.
const LONGEST: usize = 100;

/// Words between dots: `*` is any one word, `#` any number of them, so `order.*` are all events of
/// orders and `#` all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be words between dots, each a part of a kind, * or #")]
pub struct NotAPattern;

impl Pattern {
    /// It fits every event.
    pub fn all() -> Self {
        Pattern("#".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a type of events fits.
    pub fn fits(&self, kind: &str) -> bool {
        let pattern: Vec<&str> = self.0.split('.').collect();
        let kind: Vec<&str> = kind.split('.').collect();
        words_fit(&pattern, &kind)
    }

    /// What all types that fit begin with.
    pub fn prefix(&self) -> &str {
        let wild = self.0.find(['*', '#']);
        // `order.#` is also `order`.
        self.0[..wild.unwrap_or(self.0.len())].trim_end_matches('.')
    }
}

fn words_fit(pattern: &[&str], kind: &[&str]) -> bool {
    match pattern.split_first() {
        None => kind.is_empty(),
        // Several are no more than one, and would be tried in all their combinations.
        Some((&"#", rest)) if rest.first() == Some(&"#") => words_fit(rest, kind),
        Some((&"#", rest)) => (0..=kind.len()).any(|taken| words_fit(rest, &kind[taken..])),
        Some((&word, rest)) => kind.split_first().is_some_and(|(&first, others)| {
            (word == "*" || word == first) && words_fit(rest, others)
        }),
    }
}

impl FromStr for Pattern {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Self, NotAPattern> {
        let is_word = |word: &str| {
            word == "*"
                || word == "#"
                || (!word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        };
        if text.len() <= LONGEST && text.split('.').all(is_word) {
            Ok(Pattern(text.to_owned()))
        } else {
            Err(NotAPattern)
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
