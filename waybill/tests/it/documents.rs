//! The documents agree with the program: their tables are generated from it (`generated`), their links
//! and commands exist (`links`), and the crates have the documented layers (`layers`). So do the files
//! with which Waybill is deployed: the units of systemd (`units`), the dashboards of Grafana
//! (`dashboards`), the containers and the example of their settings (`containers`), the Debian package
//! (`package`), the Helm chart (`chart`), and the list of what the program is made of (`components`).
//! The pages that a new user follows are followed (`walk`).
//! The defects of `scripts/wrong-builds` can be made (`wrong_builds`).

mod chart;
mod cli;
mod components;
mod containers;
mod dashboards;
pub mod generated;
mod layers;
mod links;
pub mod markdown;
mod package;
mod sources;
mod units;
mod walk;
mod wrong_builds;
mod yaml;
