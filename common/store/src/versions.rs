//! Which event reported each part of a payment, session or subscription. This is a JSON column
//! beside the parts themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use domain::payment::record::{Part, Version};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Versions(BTreeMap<String, Version>);

pub(super) fn of<'a, T: 'a>(part: impl Into<Option<&'a Part<T>>>) -> Option<&'a Version> {
    part.into().map(|part| &part.version)
}

/// The text of a part.
pub(super) fn value<'a>(part: impl Into<Option<&'a Part<String>>>) -> Option<&'a str> {
    part.into().map(|part| part.value.as_str())
}

impl Versions {
    pub(super) fn of<const N: usize>(parts: [(&str, Option<&Version>); N]) -> Self {
        let parts_known = parts
            .into_iter()
            .filter_map(|(name, version)| Some((name.to_owned(), version?.clone())));
        Versions(parts_known.collect())
    }

    /// When the part was reported, in Unix seconds.
    pub(super) fn time(&self, name: &str) -> Option<i64> {
        self.0.get(name).map(|version| version.created)
    }

    /// The part with the version of the event that reported it. None when no event did, or when its value
    /// was erased.
    pub(super) fn part<T>(&self, name: &str, value: Option<T>) -> Option<Part<T>> {
        let version = self.0.get(name)?.clone();
        Some(Part {
            version,
            value: value?,
        })
    }
}
