//! Reads JSON that others wrote: field by field and by need, never by a schema.
//! A struct of `Field`s is filled in one pass; what a field means is decided
//! when it is read, so that a wrong type costs that field and not the body.
//! Missing, null and the empty string are the same: nothing; where it matters
//! whether a key was there at all, a field knows.
//! No error carries a value of the input, because values are personal data.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::money::{self, AmountError};
use crate::time::Timestamp;

/// Longer than any amount of money; an amount above it is an attack.
const DECIMAL_MAX_LEN: usize = 64;

/// Why a body cannot be acted on. Trying again will not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("the body {problem} at line {line}, column {column}")]
    NotJson {
        problem: &'static str,
        line: usize,
        column: usize,
    },
    #[error("{field} {problem}")]
    Field {
        field: &'static str,
        problem: Problem,
    },
}

/// What is wrong with one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("is missing")]
    Missing,
    #[error("has the wrong type or shape")]
    WrongShape,
    #[error("is not an integer")]
    NotAnInteger,
    #[error("is not an id")]
    NotAnId,
    #[error("is out of range")]
    OutOfRange,
    #[error("{0}")]
    NotAnAmount(#[from] AmountError),
    #[error("is not a currency code")]
    NotACurrency,
    #[error("is not an ISO 8601 time")]
    NotATime,
    #[error("occurs twice")]
    Repeated,
    #[error("belongs to another kind of body")]
    Foreign,
}

/// Names the field that a problem is in: `body.id.id().at("id")?`. Where the
/// field does not matter, `.unwrap_or_default()` makes the problem a nothing.
pub trait At<T> {
    fn at(self, field: &'static str) -> Result<T, Unreadable>;
}

impl<T> At<T> for Result<T, Problem> {
    fn at(self, field: &'static str) -> Result<T, Unreadable> {
        self.map_err(|problem| Unreadable::Field { field, problem })
    }
}

/// Reads a whole body, which must be one JSON object, into a struct of fields.
///
/// The struct derives `Default` and `Deserialize` and carries
/// `#[serde(default, bound(deserialize = "'de: 'a"))]`. A key that it names
/// must not occur twice; keys it does not name are skipped, however deep.
pub fn object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotUtf8)?;
    let Object(object) = serde_json::from_str(text).map_err(|error| {
        // Not the error's own text: that quotes the input.
        let problem = match error.classify() {
            Category::Io | Category::Syntax => "is not JSON",
            Category::Eof => "ends too early",
            Category::Data => "is not an object or has a key twice",
        };
        Unreadable::NotJson {
            problem,
            line: error.line(),
            column: error.column(),
        }
    })?;
    Ok(object)
}

/// One value as it stands in the body, not yet read.
/// Has no Debug, because its value would be in it.
#[derive(Clone, Copy, Default)]
pub struct Field<'a> {
    /// None is nothing.
    value: Option<&'a str>,
    present: bool,
}

impl<'a> Field<'a> {
    pub fn is_nothing(self) -> bool {
        self.value.is_none()
    }

    /// The body has the key, be it with null: it says that there is nothing. A key that was
    /// cut from the body says nothing.
    pub fn is_present(self) -> bool {
        self.present
    }

    /// A string that any database can hold: a lone surrogate, which is legal in
    /// JSON and in no Unicode string, and NUL, which PostgreSQL refuses in text,
    /// are U+FFFD.
    pub fn text(self) -> Result<Option<String>, Problem> {
        Ok(self.string()?.map(Cow::into_owned))
    }

    /// An id: above zero, exact to the last of 64 bits. Exports write ids as
    /// strings, so digits in quotes are as good.
    pub fn id(self) -> Result<Option<i64>, Problem> {
        match self.integer()? {
            Some(..=0) => Err(Problem::OutOfRange),
            id => Ok(id),
        }
    }

    /// An integer, as a number or as digits in quotes. Neither `5.0` nor `5e0`.
    pub fn integer(self) -> Result<Option<i64>, Problem> {
        let Some(literal) = self.literal()? else {
            return Ok(None);
        };
        let digits = literal.strip_prefix('-').unwrap_or(&literal);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Problem::NotAnInteger);
        }
        let integer = literal.parse().map_err(|_| Problem::OutOfRange)?;
        Ok(Some(integer))
    }

    pub fn boolean(self) -> Result<Option<bool>, Problem> {
        match self.value {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::WrongShape),
        }
    }

    /// A decimal amount, digit by digit as it was given, be it a string or a
    /// number: it never passes through a float.
    pub fn decimal(self) -> Result<Option<String>, Problem> {
        match self.literal()? {
            None => Ok(None),
            Some(text) if text.len() <= DECIMAL_MAX_LEN && money::is_decimal(&text) => {
                Ok(Some(text.into_owned()))
            }
            Some(_) => Err(AmountError::NotADecimal.into()),
        }
    }

    /// A time in any form of ISO 8601, in UTC where it names no offset, as Unix milliseconds;
    /// finer fractions are cut off.
    pub fn instant(self) -> Result<Option<i64>, Problem> {
        let Some(text) = self.string()? else {
            return Ok(None);
        };
        let Timestamp(millis) = text.parse().map_err(|_| Problem::NotATime)?;
        Ok(Some(millis))
    }

    /// An object. Any other type is nothing: some senders write an absent
    /// object as `[]`.
    pub fn object<T: Deserialize<'a>>(self) -> Result<Option<T>, Problem> {
        match self.value {
            Some(raw) if raw.starts_with('{') => {
                let Object(object) = serde_json::from_str(raw).map_err(|_| Problem::WrongShape)?;
                Ok(Some(object))
            }
            _ => Ok(None),
        }
    }

    /// A list of objects; nothing is an empty list.
    pub fn list<T: Deserialize<'a>>(self) -> Result<Vec<T>, Problem> {
        let Some(raw) = self.value else {
            return Ok(Vec::new());
        };
        let list: Vec<Object<T>> = serde_json::from_str(raw).map_err(|_| Problem::WrongShape)?;
        Ok(list.into_iter().map(|Object(item)| item).collect())
    }

    /// A list of values of any type; nothing is an empty list.
    pub fn values(self) -> Result<Vec<Self>, Problem> {
        let Some(raw) = self.value else {
            return Ok(Vec::new());
        };
        serde_json::from_str(raw).map_err(|_| Problem::WrongShape)
    }

    /// What is inside a string, or the digits of a number.
    fn literal(self) -> Result<Option<Cow<'a, str>>, Problem> {
        match self.value {
            Some(raw) if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
                Ok(Some(Cow::Borrowed(raw)))
            }
            _ => self.string(),
        }
    }

    fn string(self) -> Result<Option<Cow<'a, str>>, Problem> {
        let Some(raw) = self.value else {
            return Ok(None);
        };
        let inside = raw
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .ok_or(Problem::WrongShape)?;
        if inside.contains('\\') {
            unescape(raw).map(|text| Some(Cow::Owned(text)))
        } else {
            Ok(Some(Cow::Borrowed(inside)))
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A raw value is found by a scan without recursion: depth is harmless.
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let nothing = matches!(raw, "null" | "\"\"");
        Ok(Self {
            value: (!nothing).then_some(raw),
            present: true,
        })
    }
}

/// Decodes a JSON string with its quotes. serde_json refuses lone surrogates
/// when asked for a string and passes them on, as three bytes that are not
/// UTF-8, when asked for bytes.
fn unescape(raw: &str) -> Result<String, Problem> {
    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                // Of a surrogate's three bytes only the first is no continuation.
                if chunk.invalid().first().is_some_and(|byte| *byte >= 0xC0) {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
            }
            if text.contains('\0') {
                text = text.replace('\0', "\u{FFFD}");
            }
            Ok(text)
        }
    }

    serde_json::Deserializer::from_str(raw)
        .deserialize_bytes(Bytes)
        .map_err(|_| Problem::WrongShape)
}

/// Reads `T` from an object alone. A derived struct would also take an array
/// and fill its fields by position.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Keys(PhantomData))
    }
}
