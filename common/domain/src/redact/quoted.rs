//! Texts in quotes or brackets, in the forms in which JSON, `Debug` and error messages write
//! them.

use super::{Hit, Scanner, run};

impl Scanner<'_> {
    /// Finds the value that serde quotes when it refuses it: `invalid type: string "Mary",
    /// expected`.
    pub(super) fn refused_input(&self, at: usize) -> Option<Hit> {
        let before = &self.bytes[self.done..at];
        if !before.ends_with(b"invalid type") && !before.ends_with(b"invalid value") {
            return None;
        }
        let value = self.bytes[at..].strip_prefix(b": string ")?;
        self.quoted(self.bytes.len() - value.len())
    }

    /// Finds the row that PostgreSQL shows when it refuses it: `Failing row contains (...)`.
    pub(super) fn refused_row(&self, at: usize) -> Option<Hit> {
        if !self.bytes[self.done..at].ends_with(b"Failing row contains ") {
            return None;
        }
        Hit::hidden(at, self.bytes.len())
    }

    /// The inside of the string whose opening quote, with its backslashes, is at `start`. When
    /// the closing quote was cut off, it reaches to the end of the text.
    pub(super) fn quoted(&self, start: usize) -> Option<Hit> {
        if !is_quote_ahead(&self.bytes[start..]) {
            return None;
        }
        let quote_at = start + run(&self.bytes[start..], |byte| byte == b'\\');
        Hit::hidden(quote_at + 1, self.string_end(quote_at))
    }

    /// Where the string that opens at `quote_at` ends, before its closing quote and the
    /// backslashes of that quote. A string within n strings has 2^n - 1 backslashes before its
    /// quotes; a quote with another number of backslashes is inside the string.
    fn string_end(&self, quote_at: usize) -> usize {
        let escapes = backslashes_before(&self.bytes[..quote_at]);
        let inside = quote_at + 1;
        (inside..self.bytes.len())
            .filter(|&at| self.bytes[at] == self.bytes[quote_at])
            .find(|&at| {
                backslashes_before(&self.bytes[inside..at]) % (2 * (escapes + 1)) == escapes
            })
            .map_or(self.bytes.len(), |at| at - escapes)
    }

    /// Where the object or array that begins at `start` ends. Brackets inside its strings do not
    /// count.
    pub(super) fn bracket_end(&self, start: usize) -> usize {
        let mut depth = 0;
        let mut at = start;
        while at < self.bytes.len() {
            match self.bytes[at] {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 1 => return at + 1,
                b'}' | b']' => depth -= 1,
                b'"' => at = self.string_end(at) + backslashes_before(&self.bytes[..at]),
                _ => {}
            }
            at += 1;
        }
        self.bytes.len()
    }
}

pub(super) fn is_quote_ahead(value: &[u8]) -> bool {
    let escapes = run(value, |byte| byte == b'\\');
    matches!(value.get(escapes), Some(b'"' | b'\''))
}

pub(super) fn backslashes_before(text: &[u8]) -> usize {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count()
}
