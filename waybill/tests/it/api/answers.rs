//! An answer that Waybill gives before it has read the body arrives at HTTP clients of other
//! makers. The tests use the clients that are installed on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::backend::Backend;
use crate::support::process::{Process, free_port, is_ready, output, settings};

/// The status that each case of the clients gets, in their order.
const EXPECTED: [&str; 8] = ["413", "413", "401", "413", "404", "405", "415", "401"];
const ROUNDS: usize = 100;

/// A client: its program, its file, and which of the file's ways.
const CLIENTS: [(&str, &str, &str); 11] = [
    ("python3", "http_client.py", "http.client"),
    ("python3", "http_client.py", "urllib"),
    ("node", "node_client.mjs", "http"),
    ("node", "node_client.mjs", "fetch"),
    ("perl", "perl_client.pl", "tiny"),
    ("perl", "perl_client.pl", "socket"),
    ("java", "Client.java", "connection"),
    ("java", "Client.java", "client"),
    ("curl", "commands.sh", "curl"),
    ("curl", "commands.sh", "curl-at-once"),
    ("wget", "commands.sh", "wget"),
];

fn is_installed(program: &str) -> bool {
    let mut which = Command::new("/bin/sh");
    which.args(["-c", "command -v \"$1\"", "sh", program]);
    output(which).status.success()
}

#[tokio::test]
async fn heavy_no_client_of_another_maker_loses_an_answer_given_before_the_body() {
    let backend = Backend::create().await;
    let port = free_port();
    let _process = Process::start("waybill", &["serve"], &settings(&backend, port));
    is_ready(port).await;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    let mut answered = 0;
    for (program, file, way) in CLIENTS {
        if !is_installed(program) {
            missing.push(format!("{program} ({way}) is not installed"));
            continue;
        }
        let file = here.join("tests/clients").join(file);
        let mut client = if program == "curl" || program == "wget" {
            Command::new(file)
        } else {
            let mut client = Command::new(program);
            client.arg(file);
            client
        };
        client.args([way, &format!("127.0.0.1:{port}"), &ROUNDS.to_string()]);
        let ended = output(client);
        let said = String::from_utf8_lossy(&ended.stdout);
        let reported = String::from_utf8_lossy(&ended.stderr);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), ROUNDS, "{way}: {said}{reported}");
        for line in lines {
            let (case, status) = line.split_once(' ').unwrap();
            let case: usize = case.parse().unwrap();
            // Who guesses keys is slowed down after a while.
            let slowed = case == 7 && status == "429";
            assert!(status == EXPECTED[case] || slowed, "{way}: {said}");
            answered += 1;
        }
    }
    print_missing(here, &missing);
    assert_eq!(answered, (CLIENTS.len() - missing.len()) * ROUNDS);
}

/// Where `.ci/run` finds which clients were left out.
fn print_missing(here: &Path, missing: &[String]) {
    let folder: PathBuf = here.join("../target/answers");
    std::fs::create_dir_all(&folder).unwrap();
    let skipped = folder.join("skipped");
    if missing.is_empty() {
        let _ = std::fs::remove_file(skipped);
        return;
    }
    let said = missing.join(", ");
    eprintln!("skipped: {said}");
    std::fs::write(skipped, said + "\n").unwrap();
}
