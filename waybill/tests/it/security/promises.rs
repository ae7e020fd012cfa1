//! docs/security.md agrees with the program: the tests that it names exist, and the image and
//! compose.yaml are set up as it says.

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

/// The rows of the table under a heading of docs/security.md, without its head.
fn rows(heading: &str) -> Vec<String> {
    let text = read("docs/security.md");
    let after = text.split_once(heading).expect(heading).1;
    let rows = after.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(ToOwned::to_owned).collect()
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

#[test]
fn every_attack_has_tests_that_exist() {
    let attacks = rows("## Attacks, and what prevents them");
    assert!(attacks.len() > 20);
    for attack in attacks {
        let cells: Vec<&str> = attack.trim_matches('|').split(" | ").collect();
        let [_, _, tests] = cells.as_slice() else {
            panic!("three cells: {attack}");
        };
        for test in tests.split(", ") {
            let test = test.trim().trim_matches('`');
            let (path, name) = test.split_once("::").unwrap_or_else(|| panic!("{test}"));
            let text = read(path);
            let at = text.find(&format!("fn {name}("));
            let at = at.unwrap_or_else(|| panic!("{path} has no test {name}"));
            let before = text[..at].lines().rev();
            let mut attributes = before.take_while(|line| !line.trim().is_empty());
            let in_proptest = text[..at].rfind("proptest! {").is_some();
            let is_test = attributes.any(|line| {
                line.trim_start().starts_with("#[test") || line.contains("tokio::test")
            });
            assert!(is_test || in_proptest, "{test} is a test");
        }
    }
}

#[test]
fn the_documents_name_each_other() {
    assert!(read("README.md").contains("(docs/security.md)"));
    assert!(read("SECURITY.md").contains("(docs/security.md)"));
    assert!(read("docs/security.md").contains("(../SECURITY.md)"));
    assert!(read("docs/operating.md").contains("(security.md"));
}
