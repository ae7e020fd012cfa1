//! `waybill version`: which Waybill this is, and what it is made of.
//!
//! The list of components and their licences are files of the sources that `UPDATE_DOCS=1` with the test
//! `the_components_are_those_that_are_built_in` writes, so that a build needs nothing but the sources.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::table::{self, Table};

/// CycloneDX 1.6, <https://cyclonedx.org/docs/1.6/json/>.
const SBOM: &str = include_str!("../../components/sbom.json");
const NOTICES: &str = include_str!("../../components/notices.txt");

#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Arguments {
    /// Print every library in the program with its version, licence and checksum, as JSON in the form of
    /// `CycloneDX` 1.6. Scanners for known vulnerabilities read it
    #[arg(long)]
    sbom: bool,
    /// Print the licences of the libraries in the program
    #[arg(long)]
    notices: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    /// As `linux`.
    system: &'static str,
    /// As `x86_64`.
    machine: &'static str,
    /// The version of SQLite that is in the program.
    sqlite: String,
    /// The newest migration, which a database has that this version serves.
    migration: i64,
    /// How many libraries of others are in the program.
    libraries: usize,
}

/// What is read again of the list of components.
#[derive(Deserialize)]
struct Sbom {
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    version: String,
    /// Waybill's own crates have none.
    purl: Option<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.sbom {
        return table::print(SBOM);
    }
    if arguments.notices {
        return table::print(NOTICES);
    }
    let version = version()?;
    if arguments.json {
        return table::print_json(&version);
    }
    let Version {
        system, machine, ..
    } = version;
    let mut rows = Table::plain();
    rows.row(["Version".into(), version.version.into()]);
    rows.row(["Built for".into(), format!("{system} on {machine}")]);
    rows.row(["SQLite".into(), version.sqlite]);
    rows.row(["Migration".into(), version.migration.to_string()]);
    let libraries = format!(
        "{}, which --sbom lists; --notices prints their licences",
        version.libraries
    );
    rows.row(["Libraries".into(), libraries]);
    table::print(&rows.render())
}

fn version() -> Result<Version> {
    let sbom: Sbom = serde_json::from_str(SBOM).context("the list of components")?;
    let others = || sbom.components.iter().filter(|it| it.purl.is_some());
    let sqlite = others().find(|it| it.name == "sqlite");
    Ok(Version {
        version: env!("CARGO_PKG_VERSION"),
        system: std::env::consts::OS,
        machine: std::env::consts::ARCH,
        sqlite: sqlite.context("SQLite is no component")?.version.clone(),
        migration: store::migrations::newest(),
        libraries: others().count(),
    })
}
