//! The first page of `--help`: it lists the commands in groups by purpose, because in one flat list
//! of twenty commands nobody finds what they look for.

use std::fmt::Write as _;

use clap::Command;
use config::Settings;

/// The groups of commands with their titles. Every command that is not hidden is in one of them.
const GROUPS: &[(&str, &str)] = &[
    ("Run it", "serve ingress worker"),
    ("Try it", "trigger demo connect sandbox login"),
    (
        "Look at what came of it",
        "listen deliveries orders payments ledger notifications events",
    ),
    (
        "Keep it running",
        "doctor health attention jobs refused dead operations pauses connections endpoints reconcile secrets config migrate backup restore copy",
    ),
    ("Personal data", "privacy audit"),
    ("Who may use it", "keys licenses users orgs identity"),
    ("This command", "completions man version help"),
];

/// Gives the command its first page of help.
pub fn grouped(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}\n",
        groups(&command),
        heading(&command, "Options")
    );
    let services = GROUPS[0].1.split(' ');
    let command = services.fold(command.help_template(template), |command, name| {
        command.mut_subcommand(name, Settings::explained)
    });
    Settings::explained(command)
}

/// The command with its settings listed only once, and not again at every subcommand. The
/// documents and manual pages are generated from it.
pub fn without_repeated_help(command: Command) -> Command {
    command.mut_args(|argument| {
        let argument = argument.global(false);
        argument.hide_short_help(false).hide_long_help(false)
    })
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    let is_listed = |name: &&str| listed().any(|listed| listed == *name);
    let others: Vec<&str> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .filter(|name| !is_listed(name))
        .collect();
    let others = others.join(" ");
    let literal = command.get_styles().get_literal();
    for (title, names) in GROUPS.iter().copied().chain([("Others", others.as_str())]) {
        if names.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", heading(command, title));
        for name in names.split(' ') {
            let about = match command.find_subcommand(name) {
                Some(command) => command.get_about().map(ToString::to_string),
                None => Some("Print the help of a command: `waybill help jobs`".to_owned()),
            };
            let about = about.unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<13}{literal:#}  {about}");
        }
        text.push('\n');
    }
    text
}

/// The names of all commands that a group has.
fn listed() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| names.split(' '))
}

fn heading(command: &Command, title: &str) -> String {
    let header = command.get_styles().get_header();
    format!("{header}{title}:{header:#}")
}

#[cfg(test)]
#[path = "../tests/unit/help.rs"]
mod tests;
