//! Takes personal data and secrets out of text that is about to be logged or kept as an
//! error, and escapes what could forge a log line.
//!
//! One pass from left to right; text with nothing to hide is returned as it is. What is
//! recognised by its form is listed at each function, with what it must leave alone:
//! UUIDs, ULIDs, provider ids, plain numbers, amounts, times and IP addresses survive.
//! Form alone cannot find a name or a street: those are found by their key.
//!
//! A value that cannot be looked through is left out and counted (COMMERCE_010): whoever logs
//! does not fail by it, and nothing gets out unseen.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub const REDACTED: &str = "[redacted]";

/// Stands in place of a value that could not be redacted.
pub const WITHHELD: &str = "[withheld: COMMERCE_010]";

thread_local! {
    static UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}

/// How a token begins that must never be logged: ours, the identity provider's, the
/// payment provider's and the storefront provider's.
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

/// Last words of keys, lower case and without separators: `API_KEY`, `api-key` and
/// `paymentApiKey` all end with `apikey`.
const SECRET_KEYS: &[&str] = &[
    "accesskey",
    "apikey",
    "authorization",
    "cookie",
    "credentials",
    "devicecode",
    "passwd",
    "password",
    "secret",
    "token",
    "usercode",
];

const PERSONAL_KEYS: &[&str] = &[
    "address1",
    "address2",
    "billingaddress",
    "browserip",
    "city",
    "company",
    "customerdetails",
    "customername",
    "defaultaddress",
    "displayname",
    "email",
    "familyname",
    "firstname",
    "fullname",
    "givenname",
    "lastname",
    "latitude",
    "line1",
    "line2",
    "longitude",
    "mobile",
    "note",
    "noteattributes",
    "phone",
    "phonenumber",
    "postalcode",
    "postcode",
    "province",
    "shippingaddress",
    "street",
    "surname",
    "zip",
    "zipcode",
];

/// Personal in a provider's JSON (`"name": "..."`), everyday words of ours elsewhere
/// (`name=orders`, `address=127.0.0.1:8000`).
const PERSONAL_QUOTED_KEYS: &[&str] = &["address", "country", "name", "properties"];

/// A longer user and password are not looked for in a URL, which bounds the work.
const LONGEST_USERINFO: usize = 512;

/// What is hidden. Control characters are escaped in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hide {
    PersonalDataAndSecrets,
    Secrets,
}

/// The text without personal data, secrets and control characters.
pub fn redact(text: &str) -> Cow<'_, str> {
    Hide::PersonalDataAndSecrets.within(text)
}

/// Whether this thread is redacting: a panic is then told by [`WITHHELD`], because a line about
/// it would have to be redacted itself.
pub fn is_under_way() -> bool {
    UNDER_WAY.get()
}

/// Does what may fail or panic; None, and counted, when it does.
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

    /// The same of values that may fail to tell themselves.
    pub fn told(self, values: fmt::Arguments<'_>) -> String {
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

    /// Whether whatever stands under this key is hidden, as in `key=value`.
    pub fn key(self, key: &str) -> bool {
        self.kind(key.as_bytes(), false).is_some()
    }

    fn kind(self, key: &[u8], quoted: bool) -> Option<Kind> {
        let ends_with = |words: &[&str]| words.iter().any(|word| ends_with_words(key, word));
        if ends_with(SECRET_KEYS) {
            return Some(Kind::Secret);
        }
        let personal = self == Hide::PersonalDataAndSecrets
            && (ends_with(PERSONAL_KEYS) || (quoted && ends_with(PERSONAL_QUOTED_KEYS)));
        personal.then_some(Kind::Personal)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Personal,
    Secret,
}

/// A piece of the text and what is written in its place. It may begin before the place
/// where it was noticed, but never before what is already done.
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
    /// Everything before this has been copied or replaced.
    done: usize,
    /// The end of the run of token characters that was last looked at.
    run_end: usize,
}

impl Scanner<'_> {
    /// What is noticed at a byte. Each kind has a byte that gives it away, so that most
    /// of a text costs one `match`.
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

    /// Control characters but the tab, line and paragraph separators, and the marks that
    /// turn the direction of writing.
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

    /// `local@domain`, the `@` also as `%40`. The domain needs a dot and two letters after
    /// it, which leaves `user@host` and `package@1.2.3` alone.
    fn email(&self, at: usize, width: usize) -> Option<Hit> {
        let domain = &self.bytes[at + width..];
        let domain = &domain[..run(domain, |byte| is_letter(byte) || is_one_of(byte, b".-"))];
        let has_top_level = domain.windows(4).any(|part| {
            let [before, dot, top_level @ ..] = part else {
                return false;
            };
            *before != b'.' && *dot == b'.' && top_level.iter().all(|&byte| is_alphabetic(byte))
        });
        // The domain first: going back at every `@` would take the square of a text's length.
        let start = if has_top_level {
            self.local_part(at)
        } else {
            at
        };
        if start == at {
            return None;
        }
        let trailing = domain
            .iter()
            .rev()
            .take_while(|&&byte| is_one_of(byte, b".-"));
        Hit::hidden(start, at + width + domain.len() - trailing.count())
    }

    /// Where the part before the `@` begins. Of the signs that RFC 5322 allows, those that
    /// usually part words (`=`, `/`, `?`, `&`, `|`, braces) are taken to part words.
    fn local_part(&self, at: usize) -> usize {
        let before = &self.bytes[self.done..at];
        let length = (0..before.len())
            .rev()
            .take_while(|&index| {
                let byte = before[index];
                let inner = index > 0 && is_letter(before[index - 1]);
                is_letter(byte)
                    || is_one_of(byte, b"._%+-")
                    || (inner && is_one_of(byte, b"!#$'*^`~"))
            })
            .count();
        let start = self.past_escape(at - length);
        if length > 1 { start } else { at - length }
    }

    /// `gho_...` and its like, at the first underscore.
    fn prefixed_token(&self, at: usize) -> Option<Hit> {
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

    /// The word after `Bearer`, unless it is a short one in small letters: prose.
    fn bearer_token(&self, at: usize) -> Option<Hit> {
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

    /// 40 and more characters of hex or base64: signatures, digests, tokens. A run of
    /// words, numbers, UUIDs or ULIDs joined by `/`, `-` and `_` is a path or a name.
    fn long_token(&mut self, at: usize) -> Option<Hit> {
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

    /// The password of `scheme://user:password@host`. One with a bare `/`, `?` or `#` in
    /// it does not make a URL any more, but is a password all the same.
    fn password_in_url(&self, at: usize) -> Option<Hit> {
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

    /// What serde quotes when it refuses a value: `invalid type: string "Mary", expected`.
    fn refused_input(&self, at: usize) -> Option<Hit> {
        let before = &self.bytes[self.done..at];
        if !before.ends_with(b"invalid type") && !before.ends_with(b"invalid value") {
            return None;
        }
        let value = self.bytes[at..].strip_prefix(b": string ")?;
        self.quoted(self.bytes.len() - value.len())
    }

    /// What PostgreSQL shows of a row that it refuses: `Failing row contains (...)`.
    fn refused_row(&self, at: usize) -> Option<Hit> {
        if !self.bytes[self.done..at].ends_with(b"Failing row contains ") {
            return None;
        }
        Hit::hidden(at, self.bytes.len())
    }

    /// The value at the `=` or `:` after a key that tells what it is: `key=value`,
    /// `key = "value"`, `"key": value`, `key: Some("value")`, `object[key]=value`,
    /// `Key (key)=(value)`. JSON may itself be inside a string, with its quotes escaped.
    ///
    /// `key: value` without quotes is prose and stays, unless it looks like a header.
    fn keyed_value(&self, at: usize) -> Option<Hit> {
        let key = Key::before(&self.bytes[self.done..at])?;
        let quoted = !key.quote.is_empty();
        let kind = self.hide.kind(key.name, quoted)?;
        let start = at + 1 + run(&self.bytes[at + 1..], |byte| byte == b' ');
        let tight = !key.spaced && start == at + 1;
        let value = &self.bytes[start..];
        if value.starts_with(REDACTED.as_bytes()) || is_literal(value) {
            return None;
        }
        let inside = start + wrapping_length(value);
        if is_quote_ahead(&self.bytes[inside..]) {
            return self.quoted(inside);
        }
        let length = match (self.bytes[at], kind) {
            _ if matches!(self.bytes.get(inside), Some(b'{' | b'[')) => {
                self.bracket_end(inside) - start
            }
            (b':', _) if quoted => run(value, |byte| byte > b' ' && !is_one_of(byte, b",]}\\")),
            (b':', Kind::Secret) if !key.is_prose() => word_length(value),
            (b'=', Kind::Secret) if tight => word_length(value),
            (b'=', Kind::Personal) if tight => phrase_length(value),
            _ => 0,
        };
        let quote = String::from_utf8_lossy(key.quote);
        (length > 0).then(|| Hit {
            start,
            end: start + length,
            with: Cow::Owned(format!("{quote}{REDACTED}{quote}")),
        })
    }

    /// The inside of the string whose opening quote (with its backslashes) is at `start`;
    /// to the end of the text when it was cut off.
    fn quoted(&self, start: usize) -> Option<Hit> {
        if !is_quote_ahead(&self.bytes[start..]) {
            return None;
        }
        let quote_at = start + run(&self.bytes[start..], |byte| byte == b'\\');
        Hit::hidden(quote_at + 1, self.string_end(quote_at))
    }

    /// Where the string opened at `quote_at` ends, before its closing quote and the
    /// backslashes of that. A string within n strings has 2^n - 1 backslashes before its
    /// quotes; other counts belong to quotes that are inside it.
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

    /// Where the object or array ends that begins at `start`; brackets in its strings do
    /// not count.
    fn bracket_end(&self, start: usize) -> usize {
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

    /// A telephone number; [`Digits`] tells what counts as one.
    fn phone(&self, at: usize) -> Option<Hit> {
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

    /// A word begins after the letter of an escape: at `j` in `\njohn`.
    fn past_escape(&self, at: usize) -> usize {
        match (&self.bytes[self.done..at], &self.bytes[at..]) {
            ([.., b'\\'], [b'n' | b'r' | b't' | b'b' | b'f', ..]) => at + 1,
            _ => at,
        }
    }

    /// Nothing of a word stands before; in escaped text `\n` and `%20` are no part of one.
    fn starts_word(&self, at: usize) -> bool {
        match &self.bytes[self.done..at] {
            [] | [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
            [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [.., last] => !last.is_ascii_alphanumeric() && *last != b'_',
        }
    }
}

/// The key before a `=` or `:`.
struct Key<'a> {
    name: &'a [u8],
    /// `"` or `'` and the backslashes before it; empty when there is none.
    quote: &'a [u8],
    /// Blanks stand between the key and the sign.
    spaced: bool,
}

impl<'a> Key<'a> {
    const LONGEST: usize = 64;

    fn before(text: &'a [u8]) -> Option<Self> {
        let blanks = text.iter().rev().take_while(|&&byte| byte == b' ').count();
        let (name, quote) = match &text[..text.len() - blanks] {
            quoted @ [rest @ .., b'"' | b'\''] => {
                let (inside, quote) = quoted.split_at(rest.len() - backslashes_before(rest));
                let name = Self::last_name(inside);
                if !inside[..inside.len() - name.len()].ends_with(quote) {
                    return None;
                }
                (name, quote)
            }
            [rest @ .., b']' | b')'] | rest => (Self::last_name(rest), &[][..]),
        };
        (!name.is_empty()).then_some(Key {
            name,
            quote,
            spaced: blanks > 0,
        })
    }

    fn last_name(text: &[u8]) -> &[u8] {
        let length = text
            .iter()
            .rev()
            .take(Self::LONGEST)
            .take_while(|&&byte| is_key(byte))
            .count();
        &text[text.len() - length..]
    }

    /// A word that sentences have before a colon: `invalid token: expired`.
    fn is_prose(&self) -> bool {
        ["token", "secret", "cookie", "credentials"]
            .iter()
            .any(|word| self.name.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// The most that E.164 allows, and the fewest that are a number of their own.
const MOST_DIGITS: usize = 15;
const FEWEST_DIGITS: usize = 7;
const MOST_GROUPS: usize = 8;

/// Groups of digits in a text and what parts them.
struct Digits<'a> {
    text: &'a [u8],
    start: usize,
    groups: [Range<usize>; MOST_GROUPS],
    count: usize,
}

impl<'a> Digits<'a> {
    /// Reads from a digit, `+` or `(` for as long as a number may be.
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

    /// Where the longest telephone number ends that these groups begin with.
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

    /// The ways in which numbers are written without a country code. A number without any
    /// separator is none of them, and neither are times, IP addresses and amounts.
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
            // With dots 123.456.789 is an amount.
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

    /// What follows does not go on with the same word; an extension (`x12`) does not count.
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

/// The length of what may part two groups of digits, when digits follow it.
fn separator(text: &[u8]) -> usize {
    const NO_BREAK_SPACE: &[u8] = "\u{a0}".as_bytes();
    if text.starts_with(NO_BREAK_SPACE) && text.get(2).is_some_and(u8::is_ascii_digit) {
        return 2;
    }
    let length = run(text, |byte| is_one_of(byte, b" -.()/"));
    let fits = length <= 3 && text.get(length).is_some_and(u8::is_ascii_digit);
    if fits { length } else { 0 }
}

/// From here on a run of token characters may be a digest.
const LONG: usize = 40;

/// In base64 six of ten neighbours are of different kinds (small, capital, digit), in hex
/// five of ten, in words and names at most three.
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

/// `key` ends with these words as words of its own: `customer_email` and `customerEmail`
/// end with `email`, `capacity` does not end with `city`.
fn ends_with_words(key: &[u8], words: &str) -> bool {
    let mut rest = key;
    for expected in words.bytes().rev() {
        while let [before @ .., b'_' | b'-'] = rest {
            rest = before;
        }
        match rest {
            [before @ .., byte] if byte.to_ascii_lowercase() == expected => rest = before,
            _ => return false,
        }
    }
    match rest {
        [.., last] if last.is_ascii_alphabetic() => {
            last.is_ascii_lowercase() && key[rest.len()].is_ascii_uppercase()
        }
        _ => true,
    }
}

/// A value that says nothing about anyone.
fn is_literal(value: &[u8]) -> bool {
    let word = &value[..run(value, |byte| byte.is_ascii_alphanumeric())];
    matches!(word, b"null" | b"None" | b"true" | b"false")
}

/// The length of what `Debug` puts around a string, list or object: `Some(`, `Object `.
fn wrapping_length(value: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let name = run(&value[length..], |byte| byte.is_ascii_alphanumeric());
        match &value[length + name..] {
            [b'(', ..] if name > 0 => length += name + 1,
            [b' ', b'{' | b'[', ..] if value[length].is_ascii_uppercase() => {
                return length + name + 1;
            }
            [b'{' | b'[' | b'"' | b'\\', ..] if name == 0 => return length,
            _ => return 0,
        }
    }
}

fn is_quote_ahead(value: &[u8]) -> bool {
    let escapes = run(value, |byte| byte == b'\\');
    matches!(value.get(escapes), Some(b'"' | b'\''))
}

/// The word that `value` begins with, and the next after a scheme like `Basic`.
fn word_length(value: &[u8]) -> usize {
    let word = |text: &[u8]| {
        run(text, |byte| {
            byte > b' ' && !is_one_of(byte, b"\",;&)]}<>\\")
        })
    };
    let length = word(value);
    let is_scheme = [&b"basic"[..], b"bearer", b"digest", b"token"]
        .iter()
        .any(|scheme| value[..length].eq_ignore_ascii_case(scheme));
    match &value[length..] {
        [b' ', rest @ ..] if is_scheme => length + 1 + word(rest),
        _ => length,
    }
}

/// To the next sign that ends a value or the next `key=`: streets and names have blanks.
fn phrase_length(value: &[u8]) -> usize {
    let mut length = 0;
    while let Some(&byte) = value.get(length) {
        let ends = match byte {
            b' ' => {
                let rest = &value[length + 1..];
                let key = run(&rest[..rest.len().min(Key::LONGEST)], is_key);
                key > 0 && rest.get(key) == Some(&b'=')
            }
            byte => byte < b' ' || is_one_of(byte, b",;&)]}\"<>\\"),
        };
        if ends {
            break;
        }
        length += 1;
    }
    value[..length].trim_ascii_end().len()
}

fn backslashes_before(text: &[u8]) -> usize {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count()
}

/// How many bytes from the start on fit.
fn run(text: &[u8], fits: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|&&byte| fits(byte)).count()
}

fn is_one_of(byte: u8, set: &[u8]) -> bool {
    set.contains(&byte)
}

/// Letters of all scripts and digits; a byte of a longer character counts as a letter.
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
