//! `waybill man` writes manual pages, one for each command, with the same texts as `--help`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;

use crate::help;
use crate::table;

#[derive(clap::Args)]
pub struct Arguments {
    /// Write the pages of all commands to this folder, which is made if it is missing. Without it
    /// the page of `waybill` goes to standard output
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(command: Command, arguments: &Arguments) -> Result<()> {
    let command = help::without_repeated_help(command).disable_help_subcommand(true);
    let Some(folder) = &arguments.output else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return table::print(&String::from_utf8_lossy(&page));
    };
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    let folder = folder.display();
    written.with_context(|| format!("cannot write manual pages to {folder}"))?;
    table::print(&format!(
        "Manual pages are in {folder}.\nRead one: man -l {folder}/waybill.1\n"
    ))
}
