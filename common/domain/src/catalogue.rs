//! The catalogue of templates that `GET /templates/list` shows, by tier. It is a JSON file that
//! is read at the start (docs/login.md). A tier has its own templates and those of all lower
//! tiers.

use serde::{Deserialize, Serialize};

use crate::license::Tier;

/// The catalogue that is used when no file is named.
const BUILT_IN: &str = include_str!("../../../templates.json");

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Template {
    pub id: String,
    pub name: String,
    pub description: String,
    /// The lowest tier that has it.
    pub tier: Tier,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    templates: Vec<Template>,
}

impl Catalogue {
    /// Reads a catalogue. The error says what is wrong and, for a mistake in the JSON, in which
    /// line.
    pub fn read(text: &str) -> Result<Self, String> {
        let catalogue: Catalogue = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut ids: Vec<&str> = catalogue
            .templates
            .iter()
            .map(|it| it.id.as_str())
            .collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        if ids.len() < all {
            return Err("two templates have the same id".to_owned());
        }
        Ok(catalogue)
    }

    pub fn built_in() -> Self {
        Catalogue::read(BUILT_IN).expect("the built-in catalogue can be read")
    }

    /// The templates that a tier has, in the order of the file.
    pub fn of(&self, tier: Tier) -> impl Iterator<Item = &Template> {
        let all = self.templates.iter();
        all.filter(move |template| template.tier.rank() <= tier.rank())
    }
}
