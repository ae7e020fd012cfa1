//! A shortened run of `scripts/api-test`: the answers of a service agree with its description.

use std::process::Command;

use crate::support::process::{binary, needs_registries, output, script};

#[test]
fn heavy_every_answer_to_generated_requests_is_as_described() {
    let report = tempfile::tempdir().unwrap();
    let mut test = Command::new(script("api-test"));
    test.args(["--requests", "2000", "--binary"])
        .arg(binary())
        .arg("--report")
        .arg(report.path());
    if let Some(figures) = needs_registries(&output(test)) {
        assert!(
            figures.contains("every answer is as described"),
            "{figures}"
        );
    }
}
