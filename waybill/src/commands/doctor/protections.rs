//! Checks of the protections that settings can switch off, made from the list of all of them.

use config::Config;
use config::protections::{PROTECTIONS, Protection, State};

use super::Finding;

pub fn look(config: &Config) -> Vec<Finding> {
    PROTECTIONS
        .iter()
        .filter_map(|protection| judge(protection, config))
        .collect()
}

fn judge(protection: &Protection, config: &Config) -> Option<Finding> {
    let Protection {
        name,
        setting,
        open,
        advice,
        ..
    } = protection;
    let advice = format!("{setting}: {advice}");
    match protection.state(config) {
        State::Unused => None,
        State::On => Some(Finding::ok(name, "on")),
        State::Off(places) if places.is_empty() => {
            Some(Finding::warning(name, format!("off: {open}"), &advice))
        }
        State::Off(places) => {
            let found = format!("off ({places}): {open}");
            Some(Finding::warning(name, found, &advice))
        }
    }
}
