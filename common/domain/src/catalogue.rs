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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_has_its_own_templates_and_those_of_lower_tiers() {
        let catalogue = Catalogue::built_in();
        let counts = Tier::ALL.map(|tier| catalogue.of(tier).count());
        assert!(counts[0] > 0);
        assert!(counts.is_sorted(), "{counts:?}");
        assert_eq!(counts[3], catalogue.templates.len());
        let free = catalogue.of(Tier::Free);
        assert!(free.into_iter().all(|template| template.tier == Tier::Free));
    }

    #[test]
    fn a_catalogue_with_a_mistake_is_refused_with_its_place() {
        let twice = r#"{"templates": [
            {"id": "a", "name": "A", "description": "", "tier": "free"},
            {"id": "a", "name": "B", "description": "", "tier": "pro"}]}"#;
        assert!(Catalogue::read(twice).unwrap_err().contains("same id"));
        let gold = twice.replace("pro", "gold");
        assert!(Catalogue::read(&gold).unwrap_err().contains("line 3"));
    }
}
