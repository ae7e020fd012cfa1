//! Removes personal data and secrets from text that is about to be logged or stored as an error,
//! and escapes characters that could forge a log line.
//!
//! The text is read once from left to right. A text with nothing to hide is returned unchanged.
//! There is a file for each way of finding something: `email`, `phone` and `token` recognize
//! values by their form; `keyed` recognizes them by their key, because a name or a street has no
//! form; `quoted` knows where a string or an object ends. The functions say what each of them
//! must leave alone: UUIDs, ULIDs, provider ids, plain numbers, amounts, times and IP addresses
//! stay.
//!
//! A log line of 160 bytes takes 1.8 µs in a release build, whether or not something is hidden in
//! it, and a JSON body of 1.3 kB takes 17 µs, which is 11 to 14 ns for each byte
//! (`what_it_takes_to_redact_a_line` in `common/platform/tests/it/redact.rs` measures it).
//!
//! A value that cannot be redacted is left out and counted (COMMERCE_010). Logging does not fail
//! because of it, and nothing is written unredacted.

mod email;
mod keyed;
mod phone;
mod quoted;
mod token;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub const REDACTED: &str = "[redacted]";

/// Written in place of a value that could not be redacted.
pub const WITHHELD: &str = "[withheld: COMMERCE_010]";

thread_local! {
    static UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}

/// What is to be hidden. Control characters are escaped in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hide {
    PersonalDataAndSecrets,
    Secrets,
}

/// The text without personal data, secrets and control characters.
pub fn redact(text: &str) -> Cow<'_, str> {
    Hide::PersonalDataAndSecrets.within(text)
}

/// True while this thread is redacting. A panic that happens then is logged as [`WITHHELD`],
/// because a log line about it would have to be redacted itself.
pub fn is_under_way() -> bool {
    UNDER_WAY.get()
}

/// Runs work that may fail or panic. Returns None, and counts the failure, when it does.
fn guarded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    let outer = UNDER_WAY.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work)).ok().flatten();
    UNDER_WAY.set(outer);
    if done.is_none() {
        metrics::counter!("waybill_redaction_failures_total").increment(1);
    }
    done
}

impl Hide {
    pub fn within(self, text: &str) -> Cow<'_, str> {
        guarded(|| Some(self.scan(text))).unwrap_or(Cow::Borrowed(WITHHELD))
    }

    /// Formats and redacts the values. The formatting of a value may fail.
    pub fn redacted(self, values: fmt::Arguments<'_>) -> String {
        let text = guarded(|| {
            let mut text = String::new();
            text.write_fmt(values).ok()?;
            Some(text)
        });
        match text {
            Some(text) => self.within(&text).into_owned(),
            None => WITHHELD.to_owned(),
        }
    }

    fn scan(self, text: &str) -> Cow<'_, str> {
        let mut scanner = Scanner {
            text,
            bytes: text.as_bytes(),
            hide: self,
            done: 0,
            run_end: 0,
        };
        let mut clean = String::new();
        let mut at = 0;
        while at < text.len() {
            let Some(hit) = scanner.hit(at) else {
                at += 1;
                continue;
            };
            clean.push_str(&text[scanner.done..hit.start]);
            clean.push_str(&hit.with);
            scanner.done = hit.end;
            at = hit.end;
        }
        if scanner.done == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[scanner.done..]);
        Cow::Owned(clean)
    }

    /// True when the value of this key is hidden, as in `key=value`.
    pub fn key(self, key: &str) -> bool {
        self.kind(key.as_bytes(), false).is_some()
    }
}

/// A piece of the text, with the text that replaces it. It may begin before the byte at which it
/// was noticed, but never before the end of the piece before it.
struct Hit {
    start: usize,
    end: usize,
    with: Cow<'static, str>,
}

impl Hit {
    fn hidden(start: usize, end: usize) -> Option<Self> {
        let with = Cow::Borrowed(REDACTED);
        (start < end).then_some(Hit { start, end, with })
    }
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    hide: Hide,
    /// Everything before this byte has been copied or replaced.
    done: usize,
    /// The end of the last run of token characters that was examined.
    run_end: usize,
}

impl Scanner<'_> {
    /// What is found at a byte. Each kind of finding has a byte at which it is noticed, so most
    /// bytes of a text cost one `match`.
    fn hit(&mut self, at: usize) -> Option<Hit> {
        let personal = self.hide == Hide::PersonalDataAndSecrets;
        match self.bytes[at] {
            b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'-' => self.long_token(at),
            b'0'..=b'9' | b'+' => match self.long_token(at) {
                None if personal => self.phone(at),
                hit => hit,
            },
            b'_' => self.long_token(at).or_else(|| self.prefixed_token(at)),
            b' ' => self.bearer_token(at),
            b'=' => self.keyed_value(at),
            b':' => match self.password_in_url(at).or_else(|| self.keyed_value(at)) {
                None if personal => self.refused_input(at),
                hit => hit,
            },
            b'(' if personal => self.refused_row(at).or_else(|| self.phone(at)),
            b'@' if personal => self.email(at, 1),
            b'%' if personal && self.bytes[at..].starts_with(b"%40") => self.email(at, 3),
            0..=0x08 | 0x0a..=0x1f | 0x7f | 0xc2 | 0xe2 => self.control(at),
            _ => None,
        }
    }

    /// Finds control characters other than the tab, line and paragraph separators, and the marks
    /// that change the direction of writing.
    fn control(&self, at: usize) -> Option<Hit> {
        let found = self.text[at..].chars().next()?;
        let forges = found.is_control()
            || matches!(found,
                '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        forges.then(|| Hit {
            start: at,
            end: at + found.len_utf8(),
            with: Cow::Owned(found.escape_default().to_string()),
        })
    }

    /// Where a word begins when its first letter may belong to an escape: the word in `\njohn`
    /// begins at `j`.
    fn past_escape(&self, at: usize) -> usize {
        match (&self.bytes[self.done..at], &self.bytes[at..]) {
            ([.., b'\\'], [b'n' | b'r' | b't' | b'b' | b'f', ..]) => at + 1,
            _ => at,
        }
    }

    /// True when a word can begin here, because the character before belongs to no word. In
    /// escaped text `\n` and `%20` are not part of a word.
    fn starts_word(&self, at: usize) -> bool {
        match &self.bytes[self.done..at] {
            [] | [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
            [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [.., last] => !last.is_ascii_alphanumeric() && *last != b'_',
        }
    }
}

/// How many bytes from the start on satisfy the condition.
fn run(text: &[u8], fits: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|&&byte| fits(byte)).count()
}

fn is_one_of(byte: u8, set: &[u8]) -> bool {
    set.contains(&byte)
}

/// Letters of all scripts, and digits. Every byte of a non-ASCII character counts as a letter.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn is_alphabetic(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || !byte.is_ascii()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}
