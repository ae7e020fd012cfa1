//! The Debian package that `scripts/package-deb` makes of the binaries that were built.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::markdown::root;
use crate::support::process::{binary, output, programs};
use crate::support::tools;

/// What a command prints, which must succeed.
fn printed(program: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the package in a folder, or nothing where there is no `dpkg-deb`.
fn package(folder: &Path) -> Option<PathBuf> {
    tools::find("dpkg-deb", "--version")?;
    let programs = binary();
    let programs = programs.parent().unwrap();
    let arguments = ["--compression", "none", "--binaries"].map(Path::new);
    let arguments = [&arguments[..], &[programs, Path::new("--output"), folder]].concat();
    let made = printed("scripts/package-deb", &arguments);
    Some(PathBuf::from(made.trim()))
}

/// The entries of the package: the mode and the owner of each path.
fn entries(package: &Path) -> BTreeMap<String, (String, String)> {
    let listed = printed("dpkg-deb", &[Path::new("--contents"), package]);
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let path = words[5].trim_start_matches('.').to_owned();
        (path, (words[0].to_owned(), words[1].to_owned()))
    };
    listed.lines().map(entry).collect()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn the_debian_package_has_the_programs_their_units_and_nothing_that_others_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let Some(package) = package(folder.path()) else {
        return;
    };
    let entries = entries(&package);
    for (path, (mode, owner)) in &entries {
        assert_eq!(owner, "root/root", "{path}");
        let expected = match mode.as_bytes()[0] {
            b'd' => "drwxr-xr-x",
            b'l' => "lrwxrwxrwx",
            _ if path.starts_with("/usr/bin/") => "-rwxr-xr-x",
            // What an operator writes into it is nobody else's business.
            _ if path.starts_with("/etc/") => "-rw-------",
            _ => "-rw-r--r--",
        };
        assert_eq!(mode, expected, "{path}");
    }
    for path in [
        "/usr/share/man/man1/waybill-doctor.1.gz",
        "/usr/share/bash-completion/completions/waybill",
        "/usr/share/zsh/vendor-completions/_waybill",
        "/usr/share/fish/vendor_completions.d/waybill.fish",
        "/usr/share/doc/waybill/copyright",
        "/usr/share/doc/waybill/changelog.gz",
        "/usr/share/doc/waybill/notices.txt",
        "/usr/share/doc/waybill/sbom.json",
        "/usr/share/doc/waybill/deploy.md",
        "/usr/share/doc/waybill/examples/alerts.yml",
        "/usr/share/doc/waybill/examples/Caddyfile",
        "/usr/share/doc/waybill/examples/dashboards/money.json",
        "/usr/lib/sysusers.d/waybill.conf",
    ] {
        assert!(entries.contains_key(path), "{path}");
    }

    let unpacked = folder.path().join("unpacked");
    printed(
        "dpkg-deb",
        &[Path::new("--raw-extract"), &package, &unpacked],
    );
    let units = unpacked.join("usr/lib/systemd/system");
    let mut started = BTreeSet::new();
    for unit in names(&units) {
        if units.join(&unit).is_dir() {
            let path = |folder: PathBuf| folder.join(&unit).join("secrets.conf");
            let text = fs::read_to_string(path(units.clone())).unwrap();
            let ours = fs::read_to_string(path(root().join("deploy/systemd"))).unwrap();
            assert_eq!(text, ours, "{unit}");
            continue;
        }
        let text = fs::read_to_string(units.join(&unit)).unwrap();
        let ours = root().join("deploy/systemd").join(&unit);
        assert_eq!(text, fs::read_to_string(ours).unwrap(), "{unit}");
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("ExecStart="));
        for line in lines {
            let program = line.split([' ', '%']).next().unwrap();
            assert!(
                entries.keys().any(|path| path.starts_with(program)),
                "{unit} starts {program}"
            );
            started.insert(program.to_owned());
        }
        assert!(
            text.contains("file:///usr/share/doc/waybill/deploy.md"),
            "{unit}"
        );
    }
    assert!(started.len() >= 3, "{started:?}");
    assert_eq!(names(&unpacked.join("usr/bin")), programs());

    // dpkg keeps what an operator has changed in these.
    let kept = fs::read_to_string(unpacked.join("DEBIAN/conffiles")).unwrap();
    let kept: BTreeSet<&str> = kept.lines().collect();
    let in_etc = entries
        .iter()
        .filter(|(_, (mode, _))| mode.starts_with('-'));
    let in_etc = in_etc.filter_map(|(path, _)| path.starts_with("/etc/").then_some(path.as_str()));
    assert_eq!(kept, in_etc.collect());

    let control = fs::read_to_string(unpacked.join("DEBIAN/control")).unwrap();
    let version = format!("Version: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(control.contains(&version), "{control}");
    for (name, is) in [
        ("waybill", "waybill "),
        ("waybill-orders", "waybill-worker "),
    ] {
        let program = unpacked.join("usr/bin").join(name);
        let said = printed(program.to_str().unwrap(), &[Path::new("--version")]);
        assert_eq!(said, format!("{is}{}\n", env!("CARGO_PKG_VERSION")));
    }
    for script in ["postinst", "prerm", "postrm"] {
        printed(
            "sh",
            &[Path::new("-n"), &unpacked.join("DEBIAN").join(script)],
        );
    }
}

#[test]
fn a_package_is_not_made_of_binaries_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("scripts/package-deb");
    command.arg("--binaries").arg(folder.path());
    command.arg("--output").arg(folder.path());
    command.current_dir(root());
    let refused = output(command);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("cargo build --release") || said.contains("dpkg"),
        "{said}"
    );
    assert!(names(folder.path()).is_empty());
}

/// Makes the archive in a folder.
fn archive(folder: &Path) -> PathBuf {
    let programs = binary();
    let programs = programs.parent().unwrap();
    let arguments = ["--compression", "none", "--binaries"].map(Path::new);
    let arguments = [&arguments[..], &[programs, Path::new("--output"), folder]].concat();
    PathBuf::from(printed("scripts/package-tar", &arguments).trim())
}

#[test]
fn two_archives_of_the_same_programs_are_equal_to_the_byte() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = folders.each_ref().map(|folder| archive(folder.path()));
    assert_eq!(one.file_name(), other.file_name());
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
    let listed = printed("tar", &[Path::new("--list"), Path::new("--file"), &one]);
    for end in [
        "/waybill",
        "/waybill-endpoints",
        "/systemd/waybill.service",
        "/LICENSE-MIT",
        "/CHANGELOG.md",
    ] {
        assert!(
            listed.lines().any(|path| path.ends_with(end)),
            "{end} in {listed}"
        );
    }
}

#[test]
fn a_release_is_installed_by_its_installer_alone_and_nothing_that_was_changed_is() {
    if tools::find("dpkg-deb", "--version").is_none() || tools::find("curl", "--version").is_none()
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = binary();
    let [release, to] = ["release", "bin"].map(|name| folder.path().join(name));
    let url = format!("file://{}", release.display());
    let arguments = ["--compression", "none", "--url", &url, "--binaries"].map(Path::new);
    let rest = [programs.parent().unwrap(), Path::new("--output"), &release];
    printed("scripts/release", &[&arguments[..], &rest].concat());
    let made = names(&release);
    for end in [
        ".tar",
        ".deb",
        "sbom.json",
        "notices.txt",
        "install.sh",
        "SHA256SUMS",
    ] {
        assert!(
            made.iter().any(|name| name.ends_with(end)),
            "{end}: {made:?}"
        );
    }
    let installer = release.join("install.sh");
    let install = || {
        let mut command = Command::new("sh");
        command.arg(&installer).arg("--to").arg(&to);
        output(command)
    };
    let done = install();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && said.contains("Installed waybill"),
        "{said}"
    );
    printed(
        to.join("waybill-orders").to_str().unwrap(),
        &[Path::new("--version")],
    );
    fs::remove_dir_all(&to).unwrap();
    let archive = made.iter().find(|name| name.contains(".tar")).unwrap();
    let mut bytes = fs::read(release.join(archive)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(release.join(archive), bytes).unwrap();
    let refused = install();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("nothing was installed"), "{said}");
    assert!(!to.exists());
}

/// What the workflows of the forge run is there.
#[test]
fn the_workflows_run_programs_of_the_project_that_exist() {
    for file in ["ci.yml", "release.yml"] {
        let text = fs::read_to_string(root().join(".github/workflows").join(file)).unwrap();
        let words = text
            .split_whitespace()
            .map(|word| word.trim_end_matches('.'));
        let ours: Vec<&str> = words
            .filter(|word| word.starts_with("scripts/") || word.starts_with(".ci/"))
            .collect();
        assert!(!ours.is_empty(), "{file}");
        for path in ours {
            assert!(root().join(path).is_file(), "{file}: {path}");
        }
    }
}
