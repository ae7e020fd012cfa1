//! Telephone numbers.

use std::ops::Range;

use super::{Hit, Scanner, is_one_of, run};

/// E.164 allows at most 15 digits. Fewer than 7 digits are not a telephone number of their own.
const MOST_DIGITS: usize = 15;
const FEWEST_DIGITS: usize = 7;
const MOST_GROUPS: usize = 8;

impl Scanner<'_> {
    /// Finds a telephone number. [`Digits`] decides what counts as one.
    pub(super) fn phone(&self, at: usize) -> Option<Hit> {
        let within_word = match &self.bytes[self.done..at] {
            [.., word, b'.' | b'-' | b'/' | b','] => word.is_ascii_alphanumeric(),
            [.., digit, b':'] => digit.is_ascii_digit(),
            [.., last] => is_one_of(*last, b"#$"),
            [] => false,
        };
        if within_word || !self.starts_word(at) {
            return None;
        }
        Hit::hidden(at, Digits::read(self.bytes, at).phone_end()?)
    }
}

/// The groups of digits in a text, with what separates them.
struct Digits<'a> {
    text: &'a [u8],
    start: usize,
    groups: [Range<usize>; MOST_GROUPS],
    count: usize,
}

impl<'a> Digits<'a> {
    /// Reads from a digit, `+` or `(` on, for as far as a telephone number can reach.
    fn read(text: &'a [u8], start: usize) -> Self {
        let mut digits = Digits {
            text,
            start,
            groups: [const { 0..0 }; MOST_GROUPS],
            count: 0,
        };
        let mut at = start + usize::from(!text[start].is_ascii_digit());
        let mut total = 0;
        while digits.count < MOST_GROUPS {
            let length = run(&text[at..], |byte| byte.is_ascii_digit());
            total += length;
            if length == 0 || total > MOST_DIGITS {
                break;
            }
            digits.groups[digits.count] = at..at + length;
            digits.count += 1;
            at += length;
            at += separator(&text[at..]);
        }
        digits
    }

    /// The end of the longest telephone number that begins with these groups.
    fn phone_end(&self) -> Option<usize> {
        let international = self.text[self.start] == b'+';
        (1..=self.count)
            .rev()
            .map(|count| &self.groups[..count])
            .find(|groups| {
                let total: usize = groups.iter().map(Range::len).sum();
                total >= FEWEST_DIGITS
                    && (international || (self.ends_word(groups) && self.is_national(groups)))
            })
            .and_then(|groups| Some(groups.last()?.end))
    }

    /// True for the ways in which numbers are written without a country code. A number without
    /// any separator is none of them, and neither are times, IP addresses and amounts.
    fn is_national(&self, groups: &[Range<usize>]) -> bool {
        let mut lengths = [0; MOST_GROUPS];
        for (length, group) in lengths.iter_mut().zip(groups) {
            *length = group.len();
        }
        let first = &self.text[groups[0].clone()];
        match &lengths[..groups.len()] {
            // 5550101, 05.11.2026
            [_] | [2, 2, 4, ..] => false,
            // (555) 010-1234
            [2..=5, ..] if self.text[self.start] == b'(' => self.text[groups[0].end] == b')',
            // 020 7946 0958, 01.23.45.67.89, 030/1234567
            [length, ..] if first[0] == b'0' => *length >= 2,
            [3, 2 | 3, 4] | [1, 3, 3, 4] => !self.parted_by(groups, b"/"),
            // With dots, 123.456.789 would be an amount.
            [3, 3, 3] => self.parted_by(groups, "\u{a0} -".as_bytes()),
            [3, 4] | [2 | 3, 4, 4] | [2, 5, 4] | [5, 5] => self.parted_by(groups, b"-"),
            _ => false,
        }
    }

    fn parted_by(&self, groups: &[Range<usize>], separators: &[u8]) -> bool {
        groups.windows(2).all(|pair| {
            self.text[pair[0].end..pair[1].start]
                .iter()
                .all(|&byte| is_one_of(byte, separators))
        })
    }

    /// True when the word ends after these groups. An extension (`x12`) may follow.
    fn ends_word(&self, groups: &[Range<usize>]) -> bool {
        let end = groups.last().map_or(self.start, |group| group.end);
        match &self.text[end..] {
            [b'x', digit, ..] if digit.is_ascii_digit() => true,
            [b'.' | b',' | b':', next, ..] => !next.is_ascii_digit(),
            [b'-' | b'/', next, ..] => !next.is_ascii_alphanumeric(),
            [next, ..] => !next.is_ascii_alphanumeric() && *next != b'_',
            [] => true,
        }
    }
}

/// The length of what can separate two groups of digits, if digits follow it.
fn separator(text: &[u8]) -> usize {
    const NO_BREAK_SPACE: &[u8] = "\u{a0}".as_bytes();
    if text.starts_with(NO_BREAK_SPACE) && text.get(2).is_some_and(u8::is_ascii_digit) {
        return 2;
    }
    let length = run(text, |byte| is_one_of(byte, b" -.()/"));
    let fits = length <= 3 && text.get(length).is_some_and(u8::is_ascii_digit);
    if fits { length } else { 0 }
}
