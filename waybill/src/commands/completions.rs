//! `waybill completions` prints a script with which a shell completes commands and options.

use anyhow::Result;
use clap::Command;
use clap_complete::Shell;

use crate::help;
use crate::table;

#[derive(clap::Args)]
pub struct Arguments {
    /// The shell for which the script is
    shell: Shell,
}

pub fn run(command: Command, arguments: &Arguments) -> Result<()> {
    let mut script = Vec::new();
    let mut command = help::without_repeated_help(command);
    clap_complete::generate(arguments.shell, &mut command, "waybill", &mut script);
    table::print(&String::from_utf8_lossy(&script))
}
