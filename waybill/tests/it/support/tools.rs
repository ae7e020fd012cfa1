//! Programs of others that check what we make. `scripts/test` without arguments puts them into
//! `target/tools`, or installs them. Where one is missing, its tests leave that behind for `.ci/run`, which says it at the end.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program in `target/tools` or in the PATH. `argument` makes it do nothing but say its version. None:
/// there is no such program, which is noted for `.ci/run`.
pub fn find(name: &str, argument: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let ours = target.join("tools").join(name);
    let program = if ours.exists() { ours } else { name.into() };
    let run = Command::new(&program).arg(argument).output();
    if run.is_ok_and(|run| run.status.success()) {
        return Some(program);
    }
    missing(name);
    None
}

/// The folder of the OAuth libraries of other makers, with the versions that `tests/clients/oauth` names. None: they are not
/// there, which is noted for `.ci/run`.
pub fn oauth_clients() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted = here.join("tests/clients/oauth");
    let found = here.join("../target/tools/oauth-clients");
    let are_same = ["package-lock.json", "requirements.txt"].map(|name| {
        let wanted = std::fs::read(wanted.join(name)).unwrap();
        std::fs::read(found.join(name)).is_ok_and(|found| found == wanted)
    });
    if are_same == [true, true] {
        return Some(found);
    }
    missing("oauth-clients");
    None
}

/// Notes for `.ci/run` that a test was skipped because this is not here.
pub fn missing(name: &str) {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    eprintln!("skipped: {name} is not installed; scripts/test without arguments brings it");
    let mut noted = OpenOptions::new();
    let noted = noted
        .create(true)
        .append(true)
        .open(target.join("tools-missing"));
    noted
        .unwrap()
        .write_all(format!("{name}\n").as_bytes())
        .unwrap();
}
