//! Secrets that are recognized by their form: tokens, digests, and passwords in URLs.

use std::borrow::Cow;

use super::{Hit, Scanner, is_one_of, is_token, run};

/// Prefixes of tokens that must never be logged: our own, the identity provider's, the payment
/// provider's and the storefront provider's.
const TOKEN_PREFIXES: &[&str] = &[
    "wb_",
    "gho_",
    "ghp_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "whsec_",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "shpat_",
    "shpss_",
];

/// The longest user and password that is searched for in a URL. The limit bounds the work.
const LONGEST_USERINFO: usize = 512;

/// A run of token characters of at least this length may be a digest.
const LONG: usize = 40;

impl Scanner<'_> {
    /// Finds `gho_...` and the like, at the first underscore.
    pub(super) fn prefixed_token(&self, at: usize) -> Option<Hit> {
        let (start, prefix) = TOKEN_PREFIXES.iter().find_map(|prefix| {
            let start = at.checked_sub(prefix.find('_')?)?;
            let begins = start >= self.done && self.bytes[start..].starts_with(prefix.as_bytes());
            (begins && self.starts_word(start)).then_some((start, prefix))
        })?;
        let token = start + prefix.len();
        let length = run(&self.bytes[token..], |byte| is_token(byte) || byte == b'=');
        if length == 0 {
            return None;
        }
        Hit::hidden(start, token + length)
    }

    /// Finds the word after `Bearer`. A short word in lower-case letters counts as prose and
    /// stays.
    pub(super) fn bearer_token(&self, at: usize) -> Option<Hit> {
        let start = at.checked_sub(b"bearer".len())?;
        if start < self.done
            || !self.bytes[start..at].eq_ignore_ascii_case(b"bearer")
            || !self.starts_word(start)
        {
            return None;
        }
        let token = at + run(&self.bytes[at..], |byte| byte == b' ');
        let rest = &self.bytes[token..];
        let length = run(rest, |byte| is_token(byte) || is_one_of(byte, b".~="));
        if length < 16 && rest[..length].iter().all(u8::is_ascii_lowercase) {
            return None;
        }
        Hit::hidden(token, token + length)
    }

    /// Finds 40 or more characters of hex or base64: signatures, digests, tokens. A run of words,
    /// numbers, UUIDs or ULIDs that are joined by `/`, `-` and `_` is a path or a name and stays.
    pub(super) fn long_token(&mut self, at: usize) -> Option<Hit> {
        if at < self.run_end {
            return None;
        }
        self.run_end = at + run(&self.bytes[at..], is_token);
        if self.run_end - at < LONG {
            return None;
        }
        let after = &self.bytes[self.run_end..];
        let padding = match run(after, |byte| byte == b'=') {
            length @ 1..=2 if !after.get(length).is_some_and(u8::is_ascii_alphanumeric) => length,
            _ => 0,
        };
        if !is_random(&self.bytes[at..self.run_end], padding > 0) {
            return None;
        }
        Hit::hidden(self.past_escape(at), self.run_end + padding)
    }

    /// Finds the password of `scheme://user:password@host`. A password that contains a bare `/`,
    /// `?` or `#` makes the URL invalid, but it is still a password and is hidden too.
    pub(super) fn password_in_url(&self, at: usize) -> Option<Hit> {
        let rest = self.bytes[at..].strip_prefix(b"://")?;
        let rest = &rest[..rest.len().min(LONGEST_USERINFO)];
        let word = &rest[..run(rest, |byte| {
            byte > b' ' && !is_one_of(byte, b"\"'`<>\\\x7f")
        })];
        let authority = &word[..run(word, |byte| !is_one_of(byte, b"/?#"))];
        let last_at = |text: &[u8]| text.iter().rposition(|&byte| byte == b'@');
        let colon = authority.iter().position(|&byte| byte == b':')?;
        let is_host_and_port =
            authority[0] == b'[' || authority[colon + 1..].iter().all(u8::is_ascii_digit);
        let end = match last_at(authority) {
            Some(end) => end,
            None if is_host_and_port => return None,
            None => last_at(word)?,
        };
        if end < colon {
            return None;
        }
        let start = at + b"://".len();
        let user = self.hide.scan(&self.text[start..start + colon]);
        Some(Hit {
            start,
            end: start + end,
            with: Cow::Owned(format!("{user}:***")),
        })
    }
}

/// True when the characters look random. In base64 about six of ten neighbours are of different
/// kinds (lower case, upper case, digit), in hex five of ten, and in words and names at most
/// three.
fn is_random(run: &[u8], padded: bool) -> bool {
    let has = |part: &[u8], kind: fn(&u8) -> bool| part.iter().any(kind);
    let is_hex = |part: &[u8]| {
        part.iter().all(u8::is_ascii_hexdigit)
            && has(part, u8::is_ascii_digit)
            && has(part, u8::is_ascii_alphabetic)
    };
    let is_mixed = |part: &[u8]| {
        let changes = part.windows(2).filter(|pair| {
            let (left, right) = (class(pair[0]), class(pair[1]));
            left != right && left.is_some() && right.is_some()
        });
        has(part, u8::is_ascii_digit) && changes.count() * 3 >= part.len()
    };
    let is_word = |part: &[u8]| {
        part.len() >= 4
            && (part.iter().all(u8::is_ascii_digit) || part[1..].iter().all(u8::is_ascii_lowercase))
    };
    let parts = || run.split(|byte| !byte.is_ascii_alphanumeric());
    if parts().any(|part| part.len() >= LONG && (is_hex(part) || is_mixed(part))) {
        return true;
    }
    let both_cases = has(run, u8::is_ascii_uppercase) && has(run, u8::is_ascii_lowercase);
    both_cases && (padded || (is_mixed(run) && !parts().any(is_word)))
}

fn class(byte: u8) -> Option<u8> {
    match byte {
        b'a'..=b'z' => Some(b'a'),
        b'A'..=b'Z' => Some(b'A'),
        b'0'..=b'9' => Some(b'0'),
        _ => None,
    }
}
