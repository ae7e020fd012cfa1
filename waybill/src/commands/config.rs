//! `waybill config`: every setting, its value and where it came from.

use anyhow::Result;
use config::{Config, Mode, SETTINGS, Settings};
use serde_json::json;

use crate::table::{self, Table};

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the settings, and then the mistakes in them; if there are any, the exit code is 2. A
/// signing secret that is not set is no mistake here, because `waybill` without arguments has
/// development secrets.
pub fn run(settings: &Settings, arguments: &Arguments) -> Result<()> {
    if arguments.json {
        let rows: Vec<_> = SETTINGS
            .iter()
            .map(|setting| {
                json!({
                    "name": setting.name,
                    "value": settings.get(setting.name).map(|_| settings.shown(setting)),
                    "origin": settings.origin(setting.name).to_string(),
                    "default": setting.default,
                    "meaning": setting.meaning,
                })
            })
            .collect();
        table::print_json(&rows)?;
    } else {
        let mut rows = Table::new(["SETTING", "VALUE", "FROM", "MEANING"]);
        for setting in SETTINGS {
            rows.row([
                setting.name.to_owned(),
                settings.shown(setting),
                settings.origin(setting.name).to_string(),
                setting.meaning.to_owned(),
            ]);
        }
        table::print(&rows.render())?;
    }
    Config::load(settings, Mode::Development)?;
    Ok(())
}
