//! The image and compose.yaml are set up as docs/security.md says.

use std::path::{Path, PathBuf};

use config::SETTINGS;
use config::protections::PROTECTIONS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of a service in compose.yaml, without comments.
fn of_service(name: &str) -> Vec<String> {
    let compose = read("compose.yaml");
    let lines = compose
        .lines()
        .skip_while(|line| *line != "services:")
        .skip(1);
    let heading = format!("  {name}:");
    let lines = lines.skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.starts_with('#'))
        .collect()
}

#[test]
fn compose_mounts_exports_wherever_the_journal_of_erasures_is_read() {
    for name in ["ingress", "orders", "payments", "privacy", "endpoints"] {
        let lines = of_service(name);
        let mounts = lines.iter().find(|line| line.starts_with("volumes:"));
        let mounts = mounts.unwrap_or_else(|| panic!("{name} mounts nothing: {lines:?}"));
        assert!(
            mounts.contains("\"exports:/var/lib/waybill/data\""),
            "{name}: {mounts}"
        );
    }
    // Where the default PRIVACY_EXPORT_URL leads in the image.
    assert!(read("Dockerfile").contains("WORKDIR /var/lib/waybill\n"));
}

#[test]
fn compose_names_its_own_hosts_that_are_spoken_to_in_clear() {
    let compose = read("compose.yaml");
    let allowed = compose
        .lines()
        .find_map(|line| line.trim().strip_prefix("ALLOW_CLEARTEXT: "))
        .expect("compose sets ALLOW_CLEARTEXT");
    for host in ["postgres", "rabbitmq"] {
        assert!(allowed.contains(host), "{allowed}");
        assert!(
            compose.contains(&format!("@{host}:")),
            "{host} is spoken to"
        );
    }
    for service in ["postgres", "rabbitmq"] {
        let lines = of_service(service);
        assert!(!lines.is_empty());
        assert!(
            !lines.iter().any(|line| line.starts_with("ports:")),
            "{service} is published to nobody"
        );
    }
}

#[test]
fn the_image_serves() {
    let dockerfile = read("Dockerfile");
    let command = dockerfile.lines().rfind(|line| line.starts_with("CMD "));
    assert_eq!(command, Some(r#"CMD ["waybill", "serve"]"#));
    assert!(dockerfile.contains("\nUSER 10001"), "as nobody's root");
}

#[test]
fn every_protection_names_settings_that_there_are() {
    let known = |name: &str| SETTINGS.iter().any(|setting| setting.name == name);
    for protection in PROTECTIONS {
        assert!(
            protection.setting.split(", ").all(known),
            "{}",
            protection.name
        );
    }
}
