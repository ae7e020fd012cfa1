//! What no longer is in this version: commands, their options, and profiles of providers. Whoever uses one is told what
//! to use in its place.

use std::ffi::OsString;

/// Each as it ends a command line, or as the value of a setting; the last word is the one that is not known.
const GONE: &[(&str, &str)] = &[
    (
        "audit checkpoint --since",
        "`waybill audit verify --head` takes the second and third line of a checkpoint, with a colon between, and says \
         whether the entries of then are still there",
    ),
    (
        "conformance",
        "Waybill's own tests try its receiver so. `waybill trigger` posts a delivery, and `waybill connect` says why \
         one of a provider is refused",
    ),
    ("dead --newer-than", "use --since"),
    ("dead --older-than", "use --before"),
    ("dead replay", "use `waybill dead requeue`"),
    ("events --kind", "use --type"),
    ("jobs replay", "use `waybill jobs requeue`"),
    ("jobs retry", "use `waybill dead requeue`"),
    ("jobs --until", "use --before"),
    (
        "shopify-events",
        "use shopify, whose webhooks bring the whole order",
    ),
];

/// What to say of a word that is not known, on this command line. None if there never was such a thing.
pub fn advice(wrong: &str, line: &[OsString]) -> Option<String> {
    GONE.iter().find_map(|(what, instead)| {
        let mut words = what.split(' ');
        let is_meant = words.next_back() == Some(wrong)
            && words.all(|word| line.iter().any(|given| given == word));
        is_meant.then(|| format!("{what} is not in this version: {instead}"))
    })
}
