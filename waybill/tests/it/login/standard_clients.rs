//! Published OAuth libraries of other languages log in at `waybill` without arguments.

use std::path::Path;
use std::process::Command;

use crate::support::process::{Process, free_port, is_ready};

const SKIPPED: i32 = 77;

#[tokio::test]
async fn oauth_libraries_of_other_languages_log_in_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let url = format!("http://{address}");
    let database = folder.path().join("clients.db");
    let settings = [
        ("PUBLIC_URL".into(), url.clone()),
        ("LISTEN_ADDR".into(), address),
        (
            "DATABASE_URL".into(),
            format!("sqlite://{}", database.display()),
        ),
        ("RUST_LOG".into(), "warn".into()),
    ];
    let _process = Process::start("waybill", &[], &settings);
    is_ready(port).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/standard-clients");
    let output = Command::new(script).arg(&url).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(SKIPPED) {
        eprintln!("{said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches("logged in as octavia").count(), 3, "{said}");
}
