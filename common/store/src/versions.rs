//! Which event reported each part of a payment, session or subscription. This is a JSON column
//! beside the parts themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::parsed;
use crate::sql::Result;
use domain::payment::record::{Part, Version};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Versions(BTreeMap<String, Version>);

pub(super) fn of<T>(part: Option<&Part<T>>) -> Option<&Version> {
    part.map(|part| &part.version)
}

impl Versions {
    pub(super) fn of<const N: usize>(parts: [(&str, Option<&Version>); N]) -> Self {
        let parts_known = parts
            .into_iter()
            .filter_map(|(name, version)| Some((name.to_owned(), version?.clone())));
        Versions(parts_known.collect())
    }

    pub(super) fn parse(json: Option<&str>) -> Result<Self> {
        json.map_or_else(|| Ok(Versions::default()), parsed)
    }

    /// When the part was reported, in Unix seconds.
    pub(super) fn time(&self, name: &str) -> Option<i64> {
        self.0.get(name).map(|version| version.created)
    }

    /// The part with the version of the event that reported it. A part of a row without versions
    /// is older than any other.
    pub(super) fn part<T>(&self, name: &str, value: T) -> Part<T> {
        let version = self.0.get(name).cloned().unwrap_or(Version {
            created: 0,
            event: String::new(),
        });
        Part { version, value }
    }

    pub(super) fn some<T>(&self, name: &str, value: Option<T>) -> Option<Part<T>> {
        value.map(|value| self.part(name, value))
    }

    /// The part in a column that has a value even if none was reported.
    pub(super) fn part_if_known<T>(&self, name: &str, value: T) -> Option<Part<T>> {
        let is_known = self.0.is_empty() || self.0.contains_key(name);
        is_known.then(|| self.part(name, value))
    }
}
