//! The metrics that the code counts are those of the table, and the alert rules are those of the conditions and name
//! no others.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use domain::attention::Condition;
use platform::metrics::ALL;

use crate::documents::generated::is_update;
use crate::support::scrape::promtool_run;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_table_has_every_metric_that_the_code_counts_and_no_other() {
    let mut files = Vec::new();
    for krate in ["common", "console", "ingress", "workers"] {
        sources(&workspace().join(krate), &mut files);
    }
    let mut counted = BTreeSet::new();
    for file in files
        .iter()
        .filter(|file| !file.ends_with("metrics/table.rs"))
    {
        let text = fs::read_to_string(file).unwrap();
        for rest in text.split("\"waybill_").skip(1) {
            let name = rest.split('"').next().unwrap();
            if name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                counted.insert(format!("waybill_{name}"));
            }
        }
    }
    let known = ALL.iter().map(|metric| metric.name.to_owned());
    let known: BTreeSet<String> = known.filter(|name| name.starts_with("waybill_")).collect();
    assert_eq!(counted, known);
}

/// What stands below this line of docs/alerts.yml is generated.
const BELOW: &str = "      # Generated from the table of conditions in domain::attention.\n";

fn rules() -> String {
    let mut text = String::new();
    for condition in Condition::ALL {
        let row = condition.row();
        for rule in row.rules {
            let severity = row.severity.into_str();
            let hours = match rule.hours {
                "" => String::new(),
                hours => format!(", hours: \"{hours}\""),
            };
            let label = format!("{{{{ $labels.{} }}}}", row.label);
            let _ = write!(
                text,
                "      - alert: {}\n        expr: >-\n          {}\n{}        labels: {{ severity: {severity}{hours} }}\n\
                 \x20       annotations:\n          summary: \"{}\"\n",
                condition.alert(),
                rule.expr,
                match rule.after {
                    "" => String::new(),
                    after => format!("        for: {after}\n"),
                },
                condition.summary(&label),
            );
        }
    }
    text
}

#[test]
fn the_alert_rules_are_those_of_the_table() {
    let path = workspace().join("docs/alerts.yml");
    let text = fs::read_to_string(&path).unwrap();
    let (head, _) = text.split_once(BELOW).unwrap();
    let expected = format!("{head}{BELOW}{}", rules());
    if is_update() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(
        text == expected || is_update(),
        "UPDATE_DOCS=1 with this test writes docs/alerts.yml anew"
    );
}

#[test]
fn the_alert_rules_are_rules_and_name_metrics_that_there_are() {
    let path = workspace().join("docs/alerts.yml");
    let rules = fs::read_to_string(&path).unwrap();
    let word = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let mut named = 0;
    for name in rules
        .split(word)
        .filter(|word| word.starts_with("waybill_"))
    {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        let known = |name: &str| ALL.iter().any(|metric| metric.name == name);
        assert!(known(name) || known(base), "{name} is no metric");
        named += 1;
    }
    assert!(named > 10, "{named}");
    promtool_run(&["check", "rules", path.to_str().unwrap()], "");
}

/// On deliveries of days and weeks, which the file of tests makes up.
#[test]
fn the_alerts_at_low_volume_wake_somebody_when_they_should_and_not_by_night() {
    let tests = workspace().join("waybill/tests/it/operations/alerts_test.yml");
    promtool_run(&["test", "rules", tests.to_str().unwrap()], "");
}
