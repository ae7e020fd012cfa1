//! Tests of what is private in `src/help.rs`.

use clap::CommandFactory;

use super::*;
use crate::Arguments;

#[test]
fn every_command_has_its_place_on_the_first_page() {
    let command = Arguments::command();
    assert!(!groups(&command).contains("Others"), "{}", groups(&command));
    for name in listed().filter(|name| *name != "help") {
        assert!(command.find_subcommand(name).is_some(), "{name}");
    }
}

#[test]
fn no_command_or_option_is_without_a_word_about_it() {
    fn check(command: &Command) {
        let name = command.get_name();
        assert!(command.get_about().is_some(), "{name}");
        for argument in command.get_opts().filter(|it| !it.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{name} {argument}");
        }
        command.get_subcommands().for_each(check);
    }
    Arguments::command().get_subcommands().for_each(check);
    Arguments::command().debug_assert();
}
