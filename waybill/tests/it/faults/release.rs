//! A release build has no crash points: neither their code nor their names.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use memchr::memmem;
use platform::crash_point::POINTS;

use crate::documents::markdown::root;

/// A program that reaches points of both kinds.
fn source() -> String {
    let module = root().join("common/platform/src/crash_point.rs");
    format!(
        "#[path = \"{}\"] #[allow(dead_code)] mod crash_point;
         use crash_point::{{Moment, Point, Transaction}};
         fn end(future: impl Future) {{
             let mut context = std::task::Context::from_waker(std::task::Waker::noop());
             assert!(std::pin::pin!(future).poll(&mut context).is_ready());
         }}
         fn main() {{
             let mut transaction = Transaction::begun_here();
             end(transaction.ran(\"insert\"));
             end(transaction.reach(Moment::Commit));
             end(crash_point::reach(Point::SweepNotified));
         }}",
        module.display()
    )
}

fn build(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (folder.join("main.rs"), folder.join(name));
    std::fs::write(&file, source()).unwrap();
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition", "2024", "-C", "strip=none"])
        .args(options);
    let output = rustc.arg("-o").arg(&program).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    program
}

/// Whether it has this text anywhere.
fn has(program: &[u8], text: &str) -> bool {
    memmem::find(program, text.as_bytes()).is_some()
}

#[test]
fn a_release_build_has_no_trace_of_the_crash_points_of_a_debug_build() {
    let folder = tempfile::tempdir().unwrap();
    let debug = build(folder.path(), "debug", &[]);
    let release = build(folder.path(), "release", &["-O"]);
    for (program, ends) in [(&debug, Some(6)), (&release, None)] {
        let run = Command::new(program)
            .env("WAYBILL_CRASH_AT", "sweep-notified")
            .output();
        assert_eq!(run.unwrap().status.signal(), ends, "{}", program.display());
    }
    let (debug, release) = (
        std::fs::read(debug).unwrap(),
        std::fs::read(release).unwrap(),
    );
    let long = POINTS
        .iter()
        .map(|(_, name, _)| *name)
        .filter(|name| name.contains('-'));
    for text in ["WAYBILL_CRASH", "crash_point"].into_iter().chain(long) {
        assert!(has(&debug, text), "{text}");
        assert!(!has(&release, text), "{text}");
    }
}
