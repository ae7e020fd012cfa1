//! Reads JSON that others wrote, field by field and only as far as it is needed, without a
//! schema.
//!
//! A struct of `Field`s is filled in one pass. The type of a field is decided only when the field
//! is read, so a wrong type affects that field and not the whole body. A missing key, null and
//! the empty string all count as "nothing"; where it matters whether the key was there,
//! [`Field::is_present`] says so.
//!
//! No error carries a value of the input, because values are personal data.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::money::{self, AmountError};
use crate::shape::{Member, Shape};
use crate::time::Timestamp;

/// Longer than any real amount of money.
const DECIMAL_MAX_LEN: usize = 64;

/// What is noted of a body while it is read.
#[derive(Default)]
pub(crate) struct Reading {
    /// The fields that have a value which could not be read, each once.
    pub unread: Vec<&'static str>,
    pub shape: Shape,
    /// True for the resource of a provider's API as it is documented, which has its nullable members too.
    pub is_resource: bool,
}

impl Reading {
    pub fn note(&mut self, field: &'static str) {
        if !self.unread.contains(&field) {
            self.unread.push(field);
        }
    }

    /// Notes whether the body has members that must have a value.
    pub fn values<const N: usize>(&mut self, members: [(Member, Field<'_>); N]) {
        for (member, field) in members {
            self.shape.note(member, !field.is_nothing());
        }
    }

    /// Notes whether the body has members whose value may be null, if whoever sent it always writes them.
    pub fn nullable<const N: usize>(&mut self, members: [(Member, Field<'_>); N]) {
        if self.is_resource {
            self.keys(members);
        }
    }

    /// Notes whether the body has members whose value may be null.
    pub fn keys<const N: usize>(&mut self, members: [(Member, Field<'_>); N]) {
        for (member, field) in members {
            self.shape.note(member, field.is_present());
        }
    }

    pub fn or_none<T: Default>(&mut self, read: Result<T, Problem>, field: &'static str) -> T {
        read.unwrap_or_else(|_| {
            self.note(field);
            T::default()
        })
    }

    /// The objects of a list. None when the field is no list.
    pub fn list<'a, T: Deserialize<'a>>(
        &mut self,
        list: Field<'a>,
        field: &'static str,
    ) -> Option<Vec<T>> {
        let Ok(values) = list.values() else {
            self.note(field);
            return None;
        };
        let read = |value: Field<'a>| {
            let item = value.object().unwrap_or_default();
            if item.is_none() {
                self.note(field);
            }
            item
        };
        Some(values.into_iter().filter_map(read).collect())
    }

    /// The items without those that have the same id as an earlier one.
    pub fn unique<T>(
        &mut self,
        mut items: Vec<T>,
        id: fn(&T) -> i64,
        field: &'static str,
    ) -> Vec<T> {
        let mut seen = HashSet::new();
        items.retain(|item| {
            let is_new = seen.insert(id(item));
            if !is_new {
                self.note(field);
            }
            is_new
        });
        items
    }
}

/// Why a body cannot be used. Trying again does not help.
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

/// Adds the name of the field to a problem: `body.id.id().at("id")?`. Where a wrong field should
/// count as nothing, use `.unwrap_or_default()` instead.
pub trait At<T> {
    fn at(self, field: &'static str) -> Result<T, Unreadable>;
}

impl<T> At<T> for Result<T, Problem> {
    fn at(self, field: &'static str) -> Result<T, Unreadable> {
        self.map_err(|problem| Unreadable::Field { field, problem })
    }
}

/// Declares a struct of [`Field`]s, each of which is the value of the key of its name.
macro_rules! fields {
    ($name:ident { $($(#[$meta:meta])* $field:ident),+ $(,)? }) => {
        #[derive(Default, serde::Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        struct $name<'a> {
            $($(#[$meta])* $field: $crate::json::Field<'a>,)+
        }
    };
}
pub(crate) use fields;

/// Reads a whole body, which must be one JSON object, into a struct of fields.
///
/// The struct is declared by `fields!`. A key that it names must not occur twice. Keys that it does
/// not name are skipped, however deep they are nested.
pub fn object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotUtf8)?;
    let Object(object) = serde_json::from_str(text).map_err(|error| {
        // The error's own text is not used, because it quotes the input.
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

/// One value of the body that is not read yet. It has no Debug, because that would show the
/// value.
#[derive(Clone, Copy, Default)]
pub struct Field<'a> {
    /// None when the value is nothing: null, the empty string, or a missing key.
    value: Option<&'a str>,
    present: bool,
}

impl<'a> Field<'a> {
    pub fn is_nothing(self) -> bool {
        self.value.is_none()
    }

    /// True when the body has the key, even with null, which says that there is nothing. A
    /// missing key says nothing at all.
    pub fn is_present(self) -> bool {
        self.present
    }

    /// A string that every database can hold. U+FFFD replaces a lone surrogate, which is legal in
    /// JSON but in no Unicode string, and NUL, which PostgreSQL refuses in text.
    pub fn text(self) -> Result<Option<String>, Problem> {
        Ok(self.string()?.map(Cow::into_owned))
    }

    /// An id: an integer above zero, exact to 64 bits. Exports write ids as strings, so digits in
    /// quotes are accepted too.
    pub fn id(self) -> Result<Option<i64>, Problem> {
        match self.integer()? {
            Some(..=0) => Err(Problem::OutOfRange),
            id => Ok(id),
        }
    }

    /// An integer, as a number or as digits in quotes. `5.0` and `5e0` are errors.
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

    /// A decimal amount with the digits that the body has, whether it is a string or a number. It
    /// never becomes a float.
    pub fn decimal(self) -> Result<Option<String>, Problem> {
        match self.literal()? {
            None => Ok(None),
            Some(text) if text.len() <= DECIMAL_MAX_LEN && money::is_decimal(&text) => {
                Ok(Some(text.into_owned()))
            }
            Some(_) => Err(AmountError::NotADecimal.into()),
        }
    }

    /// A time in any form of ISO 8601, as Unix milliseconds. Without an offset it is in UTC;
    /// finer fractions are cut off.
    pub fn instant(self) -> Result<Option<i64>, Problem> {
        let Some(text) = self.string()? else {
            return Ok(None);
        };
        let Timestamp(millis) = text.parse().map_err(|_| Problem::NotATime)?;
        Ok(Some(millis))
    }

    /// An object. A value of any other type counts as nothing, because some senders write an
    /// absent object as `[]`.
    pub fn object<T: Deserialize<'a>>(self) -> Result<Option<T>, Problem> {
        match self.value {
            Some(raw) if raw.starts_with('{') => {
                let Object(object) = serde_json::from_str(raw).map_err(|_| Problem::WrongShape)?;
                Ok(Some(object))
            }
            _ => Ok(None),
        }
    }

    /// A list of objects. Nothing counts as an empty list.
    pub fn list<T: Deserialize<'a>>(self) -> Result<Vec<T>, Problem> {
        let Some(raw) = self.value else {
            return Ok(Vec::new());
        };
        let list: Vec<Object<T>> = serde_json::from_str(raw).map_err(|_| Problem::WrongShape)?;
        Ok(list.into_iter().map(|Object(item)| item).collect())
    }

    /// A list of values of any type. Nothing counts as an empty list.
    pub fn values(self) -> Result<Vec<Self>, Problem> {
        let Some(raw) = self.value else {
            return Ok(Vec::new());
        };
        serde_json::from_str(raw).map_err(|_| Problem::WrongShape)
    }

    /// The content of a string, or the digits of a number.
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
        // serde_json finds the end of a raw value without recursion, so deep nesting does no
        // harm.
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let nothing = matches!(raw, "null" | "\"\"");
        Ok(Self {
            value: (!nothing).then_some(raw),
            present: true,
        })
    }
}

/// Decodes a JSON string with its quotes. serde_json refuses a lone surrogate when it is asked
/// for a string. When it is asked for bytes, it passes the surrogate on as three bytes that are
/// not UTF-8.
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
                // Only the first of the three bytes of a surrogate is not a continuation byte, so
                // one replacement character is written for each surrogate.
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

/// Reads `T` only from an object. A derived struct alone would also accept an array and fill its
/// fields by position.
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
