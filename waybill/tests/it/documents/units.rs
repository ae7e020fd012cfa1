//! The units of systemd in `deploy/systemd`: the programs, settings and files that they name exist,
//! and systemd finds nothing wrong with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use config::{Mode, SETTINGS};
use domain::job::Queue;

use super::cli;
use super::markdown::root;
use crate::support::process::{link_programs, output, programs};
use crate::support::tools;

const WORKER: &str = "waybill-worker@.service";
const UNITS: [&str; 3] = ["waybill.service", "waybill-ingress.service", WORKER];

/// systemd's measure of what a service may do, from 0 to 10. The units have 1.1 with systemd 252.
const MOST_EXPOSED: &str = "1.5";

fn folder() -> PathBuf {
    root().join("deploy/systemd")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The values of a key, in the order of the unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit.lines();
    lines
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .collect()
}

/// A value of a unit for each of its instances.
fn of_instances(unit: &str, value: &str) -> Vec<String> {
    if unit != WORKER {
        assert!(!value.contains('%'), "{unit} has no instances: {value}");
        return vec![value.to_owned()];
    }
    let queues = Queue::ALL.into_iter();
    queues
        .map(|queue| value.replace("%i", queue.into_str()))
        .collect()
}

/// The names and values of a file of settings, with those that are commented out.
fn settings(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().map(|line| line.trim_start_matches('#'));
    lines
        .filter(|line| !line.starts_with(' ') && !line.is_empty())
        .map(|line| line.split_once('=').unwrap_or_else(|| panic!("{line:?}")))
        .collect()
}

/// The secrets that a process reads.
pub fn secrets(mode: Mode) -> BTreeSet<&'static str> {
    let read = SETTINGS
        .iter()
        .filter(|it| it.secret && it.readers.have(mode));
    read.map(|setting| setting.name).collect()
}

#[test]
fn a_process_reads_no_secret_that_it_does_not_need() {
    let all = secrets(Mode::Production).len();
    assert_eq!(secrets(Mode::Worker(Queue::Orders)).len(), all - 3);
    assert_eq!(secrets(Mode::Worker(Queue::Privacy)).len(), all - 6);
}

#[test]
fn every_secret_is_a_credential_of_the_processes_that_read_it() {
    let credentials = |files: &[String]| -> BTreeSet<String> {
        let lines = files.iter().flat_map(|text| values(text, "LoadCredential"));
        lines.map(ToOwned::to_owned).collect()
    };
    let expected = |mode| -> BTreeSet<String> {
        let names = secrets(mode).into_iter();
        names.map(|name| format!("{name}:waybill.{name}")).collect()
    };
    for unit in UNITS {
        if unit != WORKER {
            assert_eq!(
                credentials(&[read(unit)]),
                expected(Mode::Production),
                "{unit}"
            );
        }
    }
    for queue in Queue::ALL {
        let own = format!(
            "{}.d/secrets.conf",
            WORKER.replace('@', &format!("@{queue}"))
        );
        let mut files = vec![read(WORKER)];
        files.extend(fs::read_to_string(folder().join(&own)));
        let mode = Mode::Worker(queue);
        assert_eq!(credentials(&files), expected(mode), "{own}");
    }
}

#[test]
fn the_files_of_settings_are_there_and_have_settings_that_are_no_secrets() {
    let mut named = BTreeSet::new();
    for unit in UNITS {
        for value in values(&read(unit), "EnvironmentFile") {
            for path in of_instances(unit, value) {
                let file = path.strip_prefix("-/etc/waybill/");
                named.insert(file.unwrap_or_else(|| panic!("{path}")).to_owned());
            }
        }
    }
    let mut ports = BTreeSet::new();
    for file in &named {
        for (name, value) in settings(&read(file)) {
            let setting = SETTINGS.iter().find(|setting| setting.name == name);
            let setting = setting.unwrap_or_else(|| panic!("{file}: {name} is no setting"));
            assert!(!setting.secret, "{file}: {name} is a secret");
            if name == "WORKER_LISTEN_ADDR" {
                assert!(ports.insert(value.to_owned()), "{file}: {value} is taken");
            }
        }
    }
    assert_eq!(ports.len(), Queue::ALL.len());
    let files = fs::read_dir(folder()).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = files
        .filter(|name| Path::new(name).extension().is_some_and(|it| it == "env"))
        .collect();
    assert_eq!(named, there);
}

#[test]
fn every_program_of_the_units_is_there_and_every_program_has_a_unit() {
    let (commands, mut started) = (cli::read(), BTreeSet::new());
    for unit in UNITS {
        for value in values(&read(unit), "ExecStart") {
            for line in of_instances(unit, value) {
                let line = line.strip_prefix("/usr/bin/").expect("a whole path");
                let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
                if program == "waybill" {
                    assert_eq!(commands.check(arguments, &[]), Ok(()), "{unit}");
                }
                started.insert(program.to_owned());
            }
        }
    }
    assert_eq!(started, programs());
}

/// Each unit can be read by itself, so each has the whole list. What one of them may not do, the
/// others may not do either.
#[test]
fn all_units_may_do_the_same() {
    let may_do = |unit: &str| {
        let text = read(unit);
        let (_, after) = text.split_once("# What the program may do.").expect(unit);
        after.split_once("[Install]").expect(unit).0.to_owned()
    };
    for unit in UNITS {
        assert_eq!(may_do(unit), may_do(UNITS[0]), "{unit}");
    }
}

/// `systemd-analyze` with these arguments and a unit, or None where it is not installed.
fn analyze(arguments: &[&str], unit: &Path) -> Option<Output> {
    let mut command = Command::new(tools::find("systemd-analyze", "--version")?);
    command.args(arguments).arg(unit);
    Some(output(command))
}

/// The units in a folder of its own, where their programs are those that were built.
fn installed(folder: &Path) -> Vec<PathBuf> {
    link_programs(folder);
    let programs = folder.display();
    for unit in UNITS {
        let text = read(unit).replace("=/usr/bin/", &format!("={programs}/"));
        fs::write(folder.join(unit), text).unwrap();
    }
    let names = UNITS
        .iter()
        .flat_map(|unit| of_instances(unit, &unit.replace('@', "@%i")));
    names.map(|name| folder.join(name)).collect()
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let folder = tempfile::tempdir().unwrap();
    for unit in installed(folder.path()) {
        let arguments = ["verify", "--man=no", "--recursive-errors=no"];
        let Some(verified) = analyze(&arguments, &unit) else {
            return;
        };
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success(), "{}: {said}", unit.display());
        // About a key that it does not know it only warns.
        assert!(!said.contains("waybill"), "{}: {said}", unit.display());
    }
}

#[test]
fn systemd_counts_the_units_among_the_least_exposed() {
    let folder = tempfile::tempdir().unwrap();
    for unit in installed(folder.path()) {
        let threshold = format!("--threshold={}", MOST_EXPOSED.replace('.', ""));
        let arguments = ["security", "--offline=true", "--no-pager", &threshold];
        let Some(rated) = analyze(&arguments, &unit) else {
            return;
        };
        let said = String::from_utf8_lossy(&rated.stdout);
        assert!(said.contains("Overall exposure level"), "{said}");
        assert!(rated.status.success(), "{}: {said}", unit.display());
    }
}
