//! Completions, manual pages and the first page of help.

use std::path::Path;
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
        for word in ["dead", "requeue", "discard", "doctor"] {
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
    assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), "requeue");
    let unknown = {
        let mut command = command("waybill", &[]);
        command.args(["completions", "tcsh"]);
        output(command)
    };
    assert_eq!(unknown.status.code(), Some(2));
}

/// As bash does when this line is followed by a tab.
fn completed(script: &Path, line: &[&str]) -> Vec<String> {
    let (last, before) = line.split_last().unwrap();
    let ask = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={}; _waybill waybill '{last}' '{}'; echo ${{COMPREPLY[@]}}",
        script.display(),
        line.join(" "),
        before.len(),
        before.last().unwrap(),
    );
    let asked = Command::new("bash").args(["-c", &ask]).output().unwrap();
    let said = String::from_utf8(asked.stdout).unwrap();
    said.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn values_are_completed_and_others_than_the_usual_ones_are_still_taken() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("waybill.bash");
    std::fs::write(&script, printed(&["completions", "bash"])).unwrap();
    for (line, expected) in [
        (&["jobs", "list", "--state", "d"][..], &["done", "dead"][..]),
        (&["jobs", "list", "--queue", "p"], &["payments", "privacy"]),
        (
            &["jobs", "list", "--kind", "charge.refund"],
            &["charge.refund.updated", "charge.refunded"],
        ),
        (&["jobs", "requeue", "--kind", "shop"], &["shop/redact"]),
        (&["dead", "list", "--queue", "end"], &["endpoints"]),
        (&["listen", "--source", "s"], &["storefront"]),
        (&["listen", "--topic", "orders/p"], &["orders/paid"]),
        (&["orders", "list", "--state", "init"], &["initiated"]),
        (&["orders", "list", "--financial-status", "v"], &["voided"]),
        (
            &["orders", "list", "--fulfillment-status", "p"],
            &["partial", "pending"],
        ),
        (&["payments", "list", "--state", "can"], &["canceled"]),
        (
            &["events", "tail", "--type", "order.c"],
            &["order.created", "order.cancelled"],
        ),
        (
            &["endpoints", "add", "--type", "order.created"],
            &["order.created"],
        ),
        (&["privacy", "list", "--state", "h"], &["held"]),
        (
            &["privacy", "list", "--topic", "customers/r"],
            &["customers/redact"],
        ),
        (
            &["keys", "create", "--scope", "deliveries"],
            &["deliveries:read"],
        ),
        (&["licenses", "grant", "--tier", "e"], &["enterprise"]),
        (&["connect", "w"], &["woocommerce"]),
        (&["trigger", "orders/cr"], &["orders/create"]),
        (&["completions", "z"], &["zsh"]),
    ] {
        let line = [&["waybill"], line].concat();
        let mut found = completed(&script, &line);
        let mut expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
        found.retain(|word| !word.starts_with('-'));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{line:?}");
    }
    // A topic that nobody knows is refused for want of a sample, and not as a word.
    let mut unknown = command("waybill", &[("LISTEN_ADDR", "127.0.0.1:9")]);
    unknown.args(["trigger", "carts/update"]);
    let said = String::from_utf8(output(unknown).stderr).unwrap();
    assert!(said.contains("there is no sample"), "{said}");
    let mut misspelt = command("waybill", &[]);
    misspelt.args(["jobs", "list", "--state", "waiting"]);
    let misspelt = output(misspelt);
    assert_eq!(misspelt.status.code(), Some(2));
    let said = String::from_utf8(misspelt.stderr).unwrap();
    assert!(
        said.contains("[possible values: ready, done, dead]"),
        "{said}"
    );
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let said = printed(&["man", "--output", pages.to_str().unwrap()]);
    assert!(said.contains("man -l"), "{said}");
    for page in ["waybill.1", "waybill-dead-requeue.1", "waybill-doctor.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH "), "{page}");
    }
    let settings = |page: &str| {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        text.contains("DATABASE_URL")
    };
    assert!(settings("waybill.1") && !settings("waybill-dead-requeue.1"));
    assert!(printed(&["man"]).contains("waybill"));
    // Where there is a formatter, it must find nothing wrong.
    let format = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww", "-z"])
        .arg(pages.join("waybill-dead-requeue.1"))
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
