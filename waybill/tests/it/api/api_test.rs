//! A shortened run of `scripts/api-test`: the answers of a service agree with its description.

use std::path::Path;
use std::process::Command;

use crate::support::process::binary;

const SKIPPED: i32 = 77;

#[test]
fn heavy_every_answer_to_generated_requests_is_as_described() {
    let report = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/api-test");
    let output = Command::new(script)
        .args(["--requests", "2000", "--binary"])
        .arg(binary())
        .arg("--report")
        .arg(report.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(SKIPPED) {
        eprintln!("{said}");
        return;
    }
    let figures = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{figures}{said}");
    assert!(
        figures.contains("every answer is as described"),
        "{figures}"
    );
}
