//! The commands of `waybill`, as its own help lists them.

use crate::support::process::{command, output};

/// A command and what is below it.
pub struct Command {
    /// As it is typed: `waybill jobs list`.
    pub path: String,
    pub about: String,
    /// As its help lists them, without `--help`: `--kind <PATTERN>`.
    pub options: Vec<String>,
    /// With the heading under which the help lists each; empty below the first page.
    pub commands: Vec<(String, Command)>,
}

/// All commands, from `waybill -h` downwards.
pub fn read() -> Command {
    at("waybill")
}

fn at(path: &str) -> Command {
    let mut words = path.split(' ');
    let mut process = command(words.next().unwrap(), &[]);
    process.args(words).arg("-h");
    let output = output(process);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{path} -h: {help}");
    let mut command = Command {
        path: path.to_owned(),
        about: help.lines().next().unwrap_or_default().to_owned(),
        options: Vec::new(),
        commands: Vec::new(),
    };
    let mut heading = "";
    for line in help.lines() {
        if !line.starts_with(' ') {
            heading = line.strip_suffix(':').unwrap_or_default();
        } else if let Some(option) = option(line) {
            // Below the first page only what a command has for itself.
            let is_own = option != "--help" && (path == "waybill" || option != "--utc");
            command.options.extend(is_own.then_some(option));
        } else if !matches!(heading, "" | "Arguments" | "Options")
            && let Some(name) = line
                .strip_prefix("  ")
                .and_then(|line| line.split(' ').next())
            && !matches!(name, "" | "help")
        {
            let below = at(&format!("{path} {name}"));
            command.commands.push((heading.to_owned(), below));
        }
    }
    command
}

/// The long name of an option and its value, on a line of a help's list.
fn option(line: &str) -> Option<String> {
    let line = line.trim_start();
    let line = if line.strip_prefix('-')?.starts_with('-') {
        line
    } else {
        line.split_once(", ")?.1
    };
    let option = line.split("  ").next()?;
    Some(option.to_owned())
}

impl Command {
    /// The commands that do something, with the headings of the first page.
    pub fn leaves(&self) -> Vec<(&str, &Command)> {
        let mut leaves = Vec::new();
        for (heading, command) in &self.commands {
            if command.commands.is_empty() {
                leaves.push((heading.as_str(), command));
            }
            let below = command.leaves().into_iter();
            leaves.extend(below.map(|(_, leaf)| (heading.as_str(), leaf)));
        }
        leaves
    }

    fn names(&self, flag: &str) -> bool {
        let mut options = self.options.iter();
        options.any(|option| option.split([' ', '[', '=']).next() == Some(flag))
    }

    /// What is wrong with a line that runs it, if anything is; `settings` are flags of all.
    pub fn check(&self, line: &str, settings: &[String]) -> Result<(), String> {
        let mut command = self;
        let mut is_command = true;
        for word in line.split_whitespace() {
            let word = word.trim_end_matches([',', ';']);
            if matches!(word, "|" | ">" | "&&" | "#" | "&") {
                break;
            }
            if let Some(flag) = word.strip_prefix("--") {
                let flag = format!("--{}", flag.split('=').next().unwrap_or(flag));
                let of_all = ["--help", "--version", "--utc"].contains(&flag.as_str());
                if !of_all && !settings.contains(&flag) && !command.names(&flag) {
                    return Err(format!("{} has no {flag}", command.path));
                }
                is_command = false;
            } else if is_command && word.starts_with(|letter: char| letter.is_ascii_lowercase()) {
                let mut below = command.commands.iter().map(|(_, below)| below);
                let found = below.find(|it| it.path.ends_with(&format!(" {word}")));
                match found {
                    Some(below) => command = below,
                    None if word == "help" => return Ok(()),
                    None if command.commands.is_empty() => is_command = false,
                    None => return Err(format!("{} has no command {word}", command.path)),
                }
            }
        }
        Ok(())
    }
}
