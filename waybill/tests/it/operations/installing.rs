//! Completions, manual pages and the first page of help.

use std::process::{Command, Stdio};

use crate::support::process::{command, output};

fn printed(arguments: &[&str]) -> String {
    let mut command = command("waybill", &[]);
    command.args(arguments);
    let output = output(command);
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn completions_know_every_command_and_bash_can_read_them() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for word in ["dead", "replay", "discard", "doctor"] {
            assert!(script.contains(word), "{word} in {shell}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("waybill.bash");
    std::fs::write(&file, printed(&["completions", "bash"])).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&file).status().unwrap();
    assert!(checked.success());
    // As the shell does when `waybill dead re` is followed by a tab.
    let ask = format!(
        "source {}; COMP_WORDS=(waybill dead re); COMP_CWORD=2; _waybill waybill re dead; \
         echo ${{COMPREPLY[@]}}",
        file.display()
    );
    let asked = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), "replay");
    let unknown = {
        let mut command = command("waybill", &[]);
        command.args(["completions", "tcsh"]);
        output(command)
    };
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let said = printed(&["man", "--output", pages.to_str().unwrap()]);
    assert!(said.contains("man -l"), "{said}");
    for page in ["waybill.1", "waybill-dead-replay.1", "waybill-doctor.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH "), "{page}");
    }
    let settings = |page: &str| {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        text.contains("DATABASE_URL")
    };
    assert!(settings("waybill.1") && !settings("waybill-dead-replay.1"));
    assert!(printed(&["man"]).contains("waybill"));
    // Where there is a formatter, it must find nothing wrong.
    let format = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww", "-z"])
        .arg(pages.join("waybill-dead-replay.1"))
        .stderr(Stdio::piped())
        .output();
    if let Ok(formatted) = format {
        assert_eq!(String::from_utf8_lossy(&formatted.stderr), "");
    }
}

#[test]
fn the_first_page_of_help_is_by_what_one_wants_to_do() {
    let short = printed(&["-h"]);
    let at = |text: &str| {
        short
            .find(text)
            .unwrap_or_else(|| panic!("{text} in\n{short}"))
    };
    assert!(at("Try it:") < at("Keep it running:"));
    assert!(at("Keep it running:") < at("  doctor") && at("  doctor") < at("Options:"));
    let long = printed(&["--help"]);
    for help in [&short, &long] {
        assert!(
            !help.contains("--database-url"),
            "`waybill config` lists settings"
        );
        assert!(help.contains("`waybill config` lists all"), "{help}");
    }
    assert!(!long.contains('\x1b'), "no colour when piped");
    let mut lines = short.lines().skip(1);
    assert!(lines.all(|line| line.chars().count() <= 100), "{short}");
}
