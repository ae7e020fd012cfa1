//! The pages that a new user follows: each command of them is run, and prints what the page shows.

use std::path::Path;
use std::process::Command;

use crate::support::process::{free_port, output};
use crate::support::tools;

fn walk(page: &str) {
    if tools::find("python3", "--version").is_none() {
        return;
    }
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/walk"));
    command.args(["--page", page, "--program", env!("CARGO_BIN_EXE_waybill")]);
    command.args(["--port", &free_port().to_string()]);
    let walked = output(command);
    let said = String::from_utf8_lossy(&walked.stderr);
    assert!(walked.status.success(), "{said}");
}

#[test]
fn the_tour_is_as_it_says() {
    walk("tour");
}

#[test]
fn the_way_to_the_first_order_is_as_it_says() {
    walk("first-order");
}

#[test]
fn webhooks_are_as_their_page_says() {
    walk("webhooks");
}
