//! The defects that `scripts/wrong-builds` puts into the sources.

use std::process::Command;

use super::markdown::root;

#[test]
fn every_wrong_build_can_still_be_made_and_names_its_tests() {
    let folder = root().join("scripts/wrong_builds");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "patch") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, _) = text.split_once("\ndiff ").unwrap();
        let mut lines = head.lines();
        assert!(lines.next().unwrap().ends_with('.'), "{name}: a sentence");
        let mut field = |field: &str| lines.find_map(|line| line.strip_prefix(field));
        assert!(
            field("Tests: ").is_some_and(|it| it.contains('(')),
            "{name}"
        );
        let backend = field("Backend: ");
        assert!(
            backend.is_some_and(|it| ["embedded", "distributed"].contains(&it)),
            "{name}"
        );
        let mut apply = Command::new("git");
        apply.args(["apply", "--check"]).arg(&path);
        let applied = apply.current_dir(root()).output().unwrap();
        let why = String::from_utf8_lossy(&applied.stderr);
        assert!(applied.status.success(), "{name} does not apply: {why}");
        count += 1;
    }
    assert!(count >= 20, "{count}");
}
