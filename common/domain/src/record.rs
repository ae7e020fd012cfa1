//! Records: everything that is known of an object, as JSON in one column of its row.
//!
//! `#[derive(Record)]` makes a struct one. A member that this version does not know is kept as it was
//! written, because a newer version that runs beside this one may have written it. But a part that a
//! newer delivery replaces is replaced as a whole, with what is unknown in it. So a new fact is a member
//! of its own at the top of its record, and not one inside of another part. When a person is forgotten,
//! unknown members go too, because they may be about the person.
//!
//! A record's schema is raised only when an older version would misunderstand what it reads, as by a new
//! variant of an enum of ours. A new member does not raise it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::money::Currency;

/// Implemented by `#[derive(Record)]`.
pub trait Record: Serialize + DeserializeOwned {
    /// The newest schema that this version knows. Zero for a record inside of another, which has none.
    const SCHEMA: u32 = 0;

    /// Reads all members of an object.
    fn of_members<'de, M: MapAccess<'de>>(members: &mut Members<M>) -> Result<Self, M::Error>;
}

/// Makes an enum of the words that a provider has for something. A word that this version does not know is kept as the
/// provider wrote it.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$of_word:meta])* $known:ident = $word:literal,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
        #[serde(from = "String")]
        pub enum $name {
            Other(String),
            $($(#[$of_word])* $known,)*
        }

        impl $name {
            /// The words that have a meaning here.
            pub const KNOWN: &[Self] = &[$(Self::$known),*];

            pub fn as_str(&self) -> &str {
                match self {
                    Self::Other(other) => other,
                    $(Self::$known => $word,)*
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($word => Self::$known,)*
                    _ => Self::Other(text),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
        crate::record::things!($name);
    )*};
}
pub(crate) use words;

/// What a member of a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may identify somebody.
    Person,
    /// It is about nobody.
    Thing,
}

/// What says of all that is in it what it is about. A text does not, so whatever holds one says it. `#[derive(Record)]`
/// implements it.
#[diagnostic::on_unimplemented(
    message = "nothing says what a `{Self}` is about",
    label = "say of it that it is about a #[person] or about a #[thing], or make it a record"
)]
pub trait Forget {
    /// Removes what may identify a person.
    fn forget_person(&mut self);

    /// Says of each member what it is about, by its path in the JSON below `at`: names with dots between them, and a
    /// star for each item of a list or a map.
    fn classes(at: &str, see: &mut dyn FnMut(&str, Class));
}

/// The path of a member.
pub fn member(at: &str, name: &str) -> String {
    let dot = if at.is_empty() { "" } else { "." };
    format!("{at}{dot}{name}")
}

/// Says of types that they are about nobody.
macro_rules! things {
    ($($of_type:ty),*) => {
        $(impl crate::record::Forget for $of_type {
            fn forget_person(&mut self) {}

            fn classes(at: &str, see: &mut dyn FnMut(&str, crate::record::Class)) {
                see(at, crate::record::Class::Thing);
            }
        })*
    };
}
pub(crate) use things;

things!(bool, i64, (i64, i64), Uuid, Currency);

impl<T: Forget> Forget for Option<T> {
    fn forget_person(&mut self) {
        self.iter_mut().for_each(T::forget_person);
    }

    fn classes(at: &str, see: &mut dyn FnMut(&str, Class)) {
        T::classes(at, see);
    }
}

impl<T: Forget> Forget for Vec<T> {
    fn forget_person(&mut self) {
        self.iter_mut().for_each(T::forget_person);
    }

    fn classes(at: &str, see: &mut dyn FnMut(&str, Class)) {
        T::classes(&member(at, "*"), see);
    }
}

/// The keys are about nobody.
impl<K, T: Forget> Forget for BTreeMap<K, T> {
    fn forget_person(&mut self) {
        self.values_mut().for_each(T::forget_person);
    }

    fn classes(at: &str, see: &mut dyn FnMut(&str, Class)) {
        T::classes(&member(at, "*"), see);
    }
}

/// Why a record cannot be read. It has no value of the record, because values are personal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error(
        "it has schema {found}, and this version knows {known}, so a newer version must read it"
    )]
    Newer { found: u32, known: u32 },
    #[error(
        "it is damaged at line {line}, column {column}, so restore its row from a backup and requeue its job"
    )]
    Damaged { line: usize, column: usize },
}

/// Reads a record.
pub fn read<R: Record>(text: &str) -> Result<R, Unreadable> {
    serde_json::from_str(text).map_err(|error| match serde_json::from_str(text) {
        Ok(Schema { schema: found }) if found > R::SCHEMA => Unreadable::Newer {
            found,
            known: R::SCHEMA,
        },
        _ => Unreadable::Damaged {
            line: error.line(),
            column: error.column(),
        },
    })
}

#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

/// Keeps the newer of two parts. The version decides, and the value decides if the two versions are the
/// same. Any part is newer than None.
pub(crate) fn newest<T: Ord>(part: &mut T, other: T) {
    if other > *part {
        *part = other;
    }
}

/// The members that this version does not know, as they were written. Debug does not show them.
#[derive(Clone, Default)]
pub struct Rest(Vec<(String, Box<RawValue>)>);

impl Rest {
    pub fn write<M: SerializeMap>(&self, members: &mut M) -> Result<(), M::Error> {
        let mut all = self.0.iter();
        all.try_for_each(|(name, value)| members.serialize_entry(name, value))
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }
}

impl Ord for Rest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.texts().cmp(other.texts())
    }
}

impl PartialOrd for Rest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rest {
    fn eq(&self, other: &Self) -> bool {
        self.texts().eq(other.texts())
    }
}

impl Eq for Rest {}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} unknown members", self.0.len())
    }
}

/// The members of an object that is read.
pub struct Members<M>(M);

impl<'de, M: MapAccess<'de>> Members<M> {
    /// The name of the next member.
    pub fn name(&mut self) -> Result<Option<Cow<'de, str>>, M::Error> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        Ok(self.0.next_key()?.map(|Name(name)| name))
    }

    /// Reads the value of the member, which must not come twice.
    pub fn read<T: Deserialize<'de>>(
        &mut self,
        value: &mut Option<T>,
        name: &'static str,
    ) -> Result<(), M::Error> {
        match value.replace(self.0.next_value()?) {
            None => Ok(()),
            Some(_) => Err(M::Error::duplicate_field(name)),
        }
    }

    /// Keeps the value of a member that is not known.
    pub fn keep(&mut self, rest: &mut Rest, name: Cow<'_, str>) -> Result<(), M::Error> {
        let value = self.0.next_value()?;
        rest.0.push((name.into_owned(), value));
        Ok(())
    }

    /// Passes over the value of a member that is not known.
    pub fn skip(&mut self) -> Result<(), M::Error> {
        self.0.next_value().map(|IgnoredAny| ())
    }

    /// Refuses a schema that is newer than the one that is known.
    pub fn check(&mut self, known: u32) -> Result<(), M::Error> {
        let found: u32 = self.0.next_value()?;
        if found > known {
            return Err(M::Error::custom("a newer schema"));
        }
        Ok(())
    }
}

/// Reads the object of a record.
pub struct Reader<R>(pub PhantomData<R>);

impl<'de, R: Record> Visitor<'de> for Reader<R> {
    type Value = R;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, members: M) -> Result<R, M::Error> {
        R::of_members(&mut Members(members))
    }
}

/// Writes a member, unless it has its default, which a reader adds again.
pub fn write_unless_default<M: SerializeMap, T: Serialize + Default + PartialEq>(
    members: &mut M,
    name: &'static str,
    value: &T,
) -> Result<(), M::Error> {
    if *value == T::default() {
        return Ok(());
    }
    members.serialize_entry(name, value)
}
