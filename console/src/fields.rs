//! The fields of a query or of a form. Each is there once, and none has a character that no database takes.

use std::str::FromStr;

use clap::Args;
use lists::form::{self, Empty};

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

    /// Whether a field is there, perhaps empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field == name)
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

    /// The arguments that a form was made of, as it was filled in.
    pub fn filled<T: Args>(&self, empty: Empty) -> Result<T, Error> {
        let given = |name: &str| self.has(name).then(|| self.get(name));
        form::read(given, empty).map_err(Error::impossible)
    }

    /// The fields whose names begin with this, without it, and their values.
    pub fn beginning<'a>(&'a self, with: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let fields = self.0.iter();
        fields.filter_map(move |(name, value)| Some((name.strip_prefix(with)?, value.as_str())))
    }

    /// The query of these fields without some of them.
    pub fn without(&self, names: &[&str]) -> String {
        let others = self
            .0
            .iter()
            .filter(|(name, value)| !names.contains(&name.as_str()) && !value.is_empty());
        let mut query = form_urlencoded::Serializer::new(String::new());
        format!("?{}", query.extend_pairs(others).finish())
    }

    /// The query of these fields with another value for one of them, or without it when that is empty. What
    /// was done before a page is said by that page alone.
    pub fn with(&self, name: &str, value: &str) -> String {
        let others = self.without(&[name, "done"]);
        if value.is_empty() {
            return others;
        }
        let mut query = form_urlencoded::Serializer::for_suffix(others, 1);
        query.append_pair(name, value).finish()
    }
}

#[cfg(test)]
#[path = "../tests/unit/fields.rs"]
mod tests;
