//! The fields of a query or of a form. Each is there once, and none has a character that no database takes.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::error::Error;

/// Fields of which one is there twice or has such a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongFields;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    pub fn of_query(query: &str) -> Result<Self, WrongFields> {
        let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        let is_twice = |(at, (name, _)): (usize, &(String, String))| {
            fields[..at].iter().any(|(other, _)| other == name)
        };
        let has_nul = fields.iter().any(|(_, value)| value.contains('\0'));
        if has_nul || fields.iter().enumerate().any(is_twice) {
            return Err(WrongFields);
        }
        Ok(Fields(fields))
    }

    /// The value of a field without space around it; empty when it is not there.
    pub fn get(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        fields
            .find(|(field, _)| field == name)
            .map_or("", |(_, value)| value.trim())
    }

    /// The value of a field that must be there.
    pub fn read<T: FromStr>(&self, name: &str) -> Result<T, WrongFields> {
        self.get(name).parse().map_err(|_| WrongFields)
    }

    /// The value of a field that may be left out.
    pub fn maybe<T: FromStr>(&self, name: &str) -> Result<Option<T>, WrongFields> {
        match self.get(name) {
            "" => Ok(None),
            _ => self.read(name).map(Some),
        }
    }

    /// A number within these bounds that may be left out.
    pub fn within<T>(&self, name: &str, bounds: RangeInclusive<T>) -> Result<Option<T>, Error>
    where
        T: FromStr + PartialOrd + Display,
    {
        let wrong = || {
            let (least, most) = (bounds.start(), bounds.end());
            Error::impossible(format!(
                "the {name} must be a number from {least} to {most}"
            ))
        };
        match self.get(name) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) if bounds.contains(&number) => Ok(Some(number)),
                _ => Err(wrong()),
            },
        }
    }

    /// The query of these fields with another value for one of them, or without it when that is empty. What
    /// was done before a page is said by that page alone.
    pub fn with(&self, name: &str, value: &str) -> String {
        let others = self
            .0
            .iter()
            .filter(|(field, given)| field != name && field != "done" && !given.is_empty());
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(others);
        if !value.is_empty() {
            query.append_pair(name, value);
        }
        format!("?{}", query.finish())
    }
}

#[cfg(test)]
#[path = "../tests/unit/fields.rs"]
mod tests;
