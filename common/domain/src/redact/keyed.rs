//! Values whose key says that they are personal or secret. Names and streets have no form by
//! which they could be found.

use std::borrow::Cow;

use super::quoted::{backslashes_before, is_quote_ahead};
use super::{Hide, Hit, REDACTED, Scanner, is_key, is_one_of, run};

/// The last words of keys, in lower case and without separators. `API_KEY`, `api-key` and
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

/// Keys that are personal in a provider's JSON (`"name": "..."`) but everyday words in our own
/// texts (`name=orders`, `address=127.0.0.1:8000`), so they count only in quotes.
const PERSONAL_QUOTED_KEYS: &[&str] = &["address", "country", "name", "properties"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Personal,
    Secret,
}

impl Hide {
    pub(super) fn kind(self, key: &[u8], quoted: bool) -> Option<Kind> {
        let ends_with = |words: &[&str]| words.iter().any(|word| ends_with_words(key, word));
        if ends_with(SECRET_KEYS) {
            return Some(Kind::Secret);
        }
        let personal = self == Hide::PersonalDataAndSecrets
            && (ends_with(PERSONAL_KEYS) || (quoted && ends_with(PERSONAL_QUOTED_KEYS)));
        personal.then_some(Kind::Personal)
    }
}

impl Scanner<'_> {
    /// Finds the value after the `=` or `:` of a key that is personal or secret: `key=value`,
    /// `key = "value"`, `"key": value`, `key: Some("value")`, `object[key]=value`, `Key
    /// (key)=(value)`. JSON may itself be inside a string, with its quotes escaped.
    ///
    /// `key: value` without quotes counts as prose and stays, unless it looks like a header.
    pub(super) fn keyed_value(&self, at: usize) -> Option<Hit> {
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
}

/// The key before a `=` or `:`.
struct Key<'a> {
    name: &'a [u8],
    /// The quote after the key, `"` or `'`, with the backslashes before it. Empty when the key
    /// has no quotes.
    quote: &'a [u8],
    /// True when there are spaces between the key and the `=` or `:`.
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

    /// True for a word that sentences use before a colon, as in `invalid token: expired`.
    fn is_prose(&self) -> bool {
        ["token", "secret", "cookie", "credentials"]
            .iter()
            .any(|word| self.name.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// True when `key` ends with these words as words of their own: `customer_email` and
/// `customerEmail` end with `email`, but `capacity` does not end with `city`.
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

/// True for a value that says nothing about anyone.
fn is_literal(value: &[u8]) -> bool {
    let word = &value[..run(value, |byte| byte.is_ascii_alphanumeric())];
    matches!(word, b"null" | b"None" | b"true" | b"false")
}

/// The length of what `Debug` writes before a string, list or object, such as `Some(` and `Object
/// `.
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

/// The length of the first word of `value`. After a scheme like `Basic` the next word belongs to
/// it too.
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

/// The length up to the next character that ends a value, or up to the next `key=`. Streets and
/// names contain spaces.
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
