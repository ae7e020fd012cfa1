//! Which templates a tier has, and which catalogues are refused.

use domain::catalogue::Catalogue;
use domain::license::Tier;
use serde_json::Value;

#[test]
fn a_tier_has_its_own_templates_and_those_of_lower_tiers() {
    let catalogue = Catalogue::built_in();
    let file = include_str!("../../../../templates.json");
    let file: Value = serde_json::from_str(file).unwrap();
    let counts = Tier::ALL.map(|tier| catalogue.of(tier).count());
    assert!(counts[0] > 0);
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!(counts[3], file["templates"].as_array().unwrap().len());
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
