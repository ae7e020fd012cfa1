//! Only Waybill's own user can read the files that it keeps on this machine, whatever the umask.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::canary::files;
use crate::support::process::{Process, binary, command, free_port, is_ready, output};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn settings(folder: &Path, port: u16) -> Vec<(String, String)> {
    [
        ("LISTEN_ADDR", format!("127.0.0.1:{port}")),
        ("PUBLIC_URL", format!("http://127.0.0.1:{port}")),
        (
            "DATABASE_URL",
            format!("sqlite://{}/data/waybill.db", folder.display()),
        ),
        (
            "PRIVACY_EXPORT_URL",
            format!("file://{}/data/exports", folder.display()),
        ),
        ("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET.to_owned()),
        ("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET.to_owned()),
        ("RUST_LOG", "warn".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// `waybill serve`, from a shell that makes files for everybody.
async fn serve(settings: &[(String, String)], port: u16) -> Process {
    let waybill = binary();
    let line = format!("umask 000; exec {} serve", waybill.display());
    let process = Process::start_as(Path::new("/bin/sh"), &["-c", &line], settings);
    is_ready(port).await;
    process
}

/// Every file and folder below is its owner's alone.
#[track_caller]
fn are_private(folder: &Path) {
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    let all = files(folder);
    assert!(!all.is_empty());
    for file in all {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        let within = file.parent().unwrap();
        assert_eq!(mode(within), 0o700, "{}", within.display());
    }
}

#[tokio::test]
async fn files_are_made_for_their_owner_alone_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = settings(folder.path(), port);
    let _process = serve(&settings, port).await;
    let data = folder.path().join("data");
    are_private(&data);
    let names: Vec<String> = files(&data)
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    for name in ["waybill.db", "waybill.db-wal", "waybill.db-shm"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
}

#[tokio::test]
async fn files_that_others_could_read_are_narrowed_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = settings(folder.path(), port);
    let data = folder.path().join("data");
    let mut process = serve(&settings, port).await;
    process.kill();
    let exports = data.join("exports");
    let export = exports.join("01a2013b-3d64-7c46-92ac-86c2fb92994c/1");
    std::fs::create_dir_all(&export).unwrap();
    std::fs::write(export.join("export.json"), "{}").unwrap();
    for file in files(&data) {
        set(&file, 0o644);
    }
    for folder in [&data, &exports, &export] {
        set(folder, 0o755);
    }
    let _again = serve(&settings, port).await;
    are_private(&data);
}

#[tokio::test]
async fn a_folder_that_holds_other_things_is_left_and_the_files_in_it_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = settings(folder.path(), port);
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("notes.txt"), "of somebody else").unwrap();
    set(&data, 0o755);
    set(&data.join("notes.txt"), 0o644);
    let _process = serve(&settings, port).await;
    assert_eq!(mode(&data), 0o755);
    assert_eq!(mode(&data.join("notes.txt")), 0o644);
    assert_eq!(mode(&data.join("waybill.db")), 0o600);
    assert_eq!(mode(&data.join("waybill.db-wal")), 0o600);
}

#[tokio::test]
async fn doctor_names_what_others_can_read_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = settings(folder.path(), port);
    let _process = serve(&settings, port).await;
    let look = || -> Vec<(String, String)> {
        let mut doctor = command("waybill", &[("PATH", "/usr/bin:/bin")]);
        doctor.envs(settings.iter().map(|(name, value)| (name, value)));
        doctor.args(["doctor", "--json"]).current_dir(folder.path());
        let report: Value = serde_json::from_slice(&output(doctor).stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        findings
            .filter(|finding| finding["check"] == "private files")
            .map(|finding| {
                let text = |name: &str| finding[name].as_str().unwrap().to_owned();
                (text("level"), text("found"))
            })
            .collect()
    };
    let well = look();
    assert!(well.len() == 1 && well[0].0 == "ok", "{well:?}");
    let database = folder.path().join("data/waybill.db");
    set(&database, 0o644);
    let found = look();
    assert!(found[0].0 == "warning", "{found:?}");
    assert!(found[0].1.contains("waybill.db"), "{found:?}");
    assert_eq!(mode(&database), 0o644, "looking changes nothing");
    let env_file = folder.path().join(".env");
    std::fs::write(&env_file, "").unwrap();
    set(&env_file, 0o644);
    let found = look();
    assert!(found[0].1.contains(".env has mode 644"), "{found:?}");
    set(&env_file, 0o600);
    assert!(!look()[0].1.contains(".env"));
}

#[test]
fn a_picture_of_a_qr_code_makes_no_folder_for_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("umask 000; exec {} migrate", binary().display());
    let mut migrate = Command::new("/bin/sh");
    migrate
        .args(["-c", &line])
        .env_clear()
        .current_dir(folder.path());
    assert!(output(migrate).status.success());
    are_private(&folder.path().join("data"));
}
