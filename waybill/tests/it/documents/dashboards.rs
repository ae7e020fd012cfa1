//! The dashboards in `deploy/grafana`: each of their expressions is one that Prometheus can read, and
//! names metrics and labels of the table of metrics in a way that fits their type.

use std::collections::BTreeSet;
use std::fs;

use domain::job::Queue;
use platform::metrics::{ALL, Kind, Metric};
use serde_json::{Value, json};

use super::markdown::root;
use super::sources::Sources;
use crate::support::scrape::promtool_run;

const DASHBOARDS: [&str; 6] = [
    "endpoints",
    "intake",
    "money",
    "privacy",
    "providers",
    "queues",
];

/// Labels that Prometheus gives to everything that it scrapes.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

struct Dashboard {
    name: String,
    json: Value,
}

fn dashboards() -> Vec<Dashboard> {
    let files = fs::read_dir(root().join("deploy/grafana/dashboards")).unwrap();
    let mut dashboards: Vec<Dashboard> = files
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let json = serde_json::from_str(&fs::read_to_string(&path).unwrap());
            let json = json.unwrap_or_else(|error| panic!("{name}: {error}"));
            Dashboard { name, json }
        })
        .collect();
    dashboards.sort_by(|one, other| one.name.cmp(&other.name));
    dashboards
}

impl Dashboard {
    fn panels(&self) -> &[Value] {
        self.json["panels"].as_array().expect("panels")
    }

    /// The expressions, each with its place and what its legend shows.
    fn queries(&self) -> Vec<(String, &str, &str)> {
        let mut queries = Vec::new();
        for panel in self.panels() {
            let place = format!("{}: {}", self.name, panel["title"]);
            let targets = panel["targets"].as_array().expect("targets");
            assert!(!targets.is_empty(), "{place}");
            for target in targets {
                let text = |key: &str| {
                    target[key]
                        .as_str()
                        .unwrap_or_else(|| panic!("{place}: {key}"))
                };
                queries.push((place.clone(), text("expr"), text("legendFormat")));
            }
        }
        queries
    }
}

/// A metric of an expression, and what is asked of it.
#[derive(Debug)]
struct Named {
    name: String,
    /// The function around it, such as `rate`.
    within: String,
    /// Each label with the value to which it is compared.
    matchers: Vec<(String, String)>,
}

/// What an expression names.
#[derive(Debug, Default)]
struct Expression {
    metrics: Vec<Named>,
    /// The labels of `by (..)`.
    grouped: BTreeSet<String>,
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// Up to the end of a name at the beginning of a text.
fn name(text: &str) -> &str {
    text.split(|letter| !is_of_name(letter))
        .next()
        .unwrap_or("")
}

/// The matchers of a selector without its braces: `queue="orders", outcome=~"retry|dead"`.
fn matchers(text: &str) -> Vec<(String, String)> {
    let mut matchers = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let label = name(rest);
        let (_, after) = rest.split_once('"').expect(text);
        let (value, after) = after.split_once('"').expect(text);
        matchers.push((label.to_owned(), value.to_owned()));
        rest = after.trim_start_matches([',', ' ']);
    }
    matchers
}

fn read(text: &str) -> Expression {
    let mut found = Expression::default();
    let mut rest = text;
    let mut before = String::new();
    while let Some(first) = rest.chars().next() {
        let word = name(rest);
        if word.is_empty() {
            if first != '(' && first != ' ' {
                before.clear();
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        rest = &rest[word.len()..];
        let argument = rest.trim_start();
        if word.starts_with("waybill_") || word.starts_with("process_") {
            let selector = argument
                .strip_prefix('{')
                .map(|it| it.split_once('}').expect(text));
            let (selector, after) = selector.unwrap_or(("", rest));
            found.metrics.push(Named {
                name: word.to_owned(),
                within: before.clone(),
                matchers: matchers(selector),
            });
            rest = after;
        } else if word == "by" {
            let labels = argument.strip_prefix('(').expect(text);
            let (labels, after) = labels.split_once(')').expect(text);
            let labels = labels.split(',').map(|label| label.trim().to_owned());
            found.grouped.extend(labels);
            rest = after;
        } else {
            word.clone_into(&mut before);
        }
    }
    found
}

/// The metric that a series belongs to, if a series of this name is scraped.
fn metric(series: &str) -> Option<&'static Metric> {
    let of = |name: &str| ALL.iter().find(|metric| metric.name == name);
    let base = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| series.strip_suffix(suffix))
        .and_then(of)
        .filter(|metric| metric.kind == Kind::Histogram);
    let whole = of(series).filter(|metric| metric.kind != Kind::Histogram);
    base.or(whole)
}

/// The values that labels can have: those in docs/metrics.md, and the names of queues and routes.
pub struct LabelValues {
    rows: Vec<(String, String)>,
    sources: Sources,
}

impl LabelValues {
    pub fn read() -> Self {
        let document = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
        let (_, table) = document
            .split_once("## Values of labels")
            .expect("the table");
        let rows = table.lines().filter_map(|line| {
            let (label, values) = line.strip_prefix("| `")?.split_once('`')?;
            Some((label.to_owned(), values.to_owned()))
        });
        LabelValues {
            rows: rows.collect(),
            sources: Sources::read(),
        }
    }

    fn has(&self, label: &str, value: &str) -> bool {
        let mut rows = self.rows.iter();
        match label {
            "queue" => Queue::ALL.iter().any(|queue| queue.into_str() == value),
            "route" => self.sources.has("ingress/src/", &format!("\"{value}\"")),
            _ => rows.any(|(of, values)| of == label && values.contains(&format!("`{value}`"))),
        }
    }
}

/// What is wrong with an expression and its legend, if anything is.
pub fn check(expression: &str, legend: &str, values: &LabelValues) -> Result<(), String> {
    let found = read(expression);
    if found.metrics.is_empty() {
        return Err("it names no metric".to_owned());
    }
    let mut known: BTreeSet<&str> = OF_PROMETHEUS.into();
    for named in &found.metrics {
        let series = &named.name;
        let metric = metric(series).ok_or_else(|| format!("{series} is not scraped"))?;
        let counts = metric.kind != Kind::Gauge;
        if counts != ["rate", "increase"].contains(&named.within.as_str()) {
            return Err(format!(
                "{series} is a {:?} within {:?}",
                metric.kind, named.within
            ));
        }
        let mut labels: BTreeSet<&str> = metric.labels.iter().copied().collect();
        if series.ends_with("_bucket") {
            labels.insert("le");
        }
        for (label, compared) in &named.matchers {
            if !labels.contains(label.as_str()) {
                return Err(format!("{series} has no label {label}"));
            }
            if let Some(value) = compared.split('|').find(|value| !values.has(label, value)) {
                return Err(format!("{label} of {series} is never {value}"));
            }
        }
        known.extend(labels);
    }
    let mut grouped = found.grouped.iter().map(String::as_str);
    if let Some(label) = grouped.find(|label| !known.contains(label)) {
        return Err(format!("no metric of it has a label {label}"));
    }
    for shown in legend.split("{{").skip(1) {
        let label = shown.split("}}").next().unwrap_or(shown);
        if !found.grouped.contains(label) {
            return Err(format!("the legend shows {label}, which is summed away"));
        }
    }
    Ok(())
}

#[test]
fn every_expression_of_the_dashboards_names_metrics_and_labels_that_there_are() {
    let values = LabelValues::read();
    let mut mistakes = Vec::new();
    let mut read = 0;
    for dashboard in dashboards() {
        for (place, expression, legend) in dashboard.queries() {
            read += 1;
            if let Err(mistake) = check(expression, legend, &values) {
                mistakes.push(format!("{place}: {mistake}: {expression}"));
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(read > 60, "{read}");
}

#[test]
fn a_mistake_in_an_expression_is_found() {
    let values = LabelValues::read();
    for (expression, legend) in [
        ("max by (queue) (waybill_queue_ready_jobs)", "{{queue}}"),
        (
            "sum(increase(waybill_jobs_run_total{queue=\"orders\", outcome=~\"retry|dead\"}[1h]))",
            "",
        ),
        (
            "histogram_quantile(0.95, sum by (le, route) (rate(waybill_http_request_seconds_bucket[5m])))",
            "{{route}}",
        ),
        (
            "max by (instance) (process_open_fds) / max by (instance) (process_max_fds)",
            "",
        ),
    ] {
        assert_eq!(check(expression, legend, &values), Ok(()), "{expression}");
    }
    for (expression, legend) in [
        ("1 + 1", ""),
        ("max(waybill_queue_ready)", ""),
        ("max by (shop) (waybill_queue_ready_jobs)", ""),
        ("max(waybill_queue_ready_jobs{source=\"storefront\"})", ""),
        ("max(waybill_queue_ready_jobs{queue=\"refunds\"})", ""),
        (
            "sum(increase(waybill_jobs_run_total{outcome=~\"retry|lost\"}[1h]))",
            "",
        ),
        (
            "sum(increase(waybill_http_request_seconds_count{route=\"/api/nowhere\"}[1h]))",
            "",
        ),
        ("sum(waybill_jobs_run_total)", ""),
        ("sum(rate(waybill_queue_ready_jobs[5m]))", ""),
        ("sum(rate(waybill_http_request_seconds[5m]))", ""),
        ("max(waybill_queue_ready_jobs_count)", ""),
        ("max(waybill_queue_ready_jobs)", "{{queue}}"),
    ] {
        assert!(check(expression, legend, &values).is_err(), "{expression}");
    }
}

/// Prometheus' own checker reads them as rules, with a time in place of Grafana's variable.
#[test]
fn prometheus_can_read_every_expression_of_the_dashboards() {
    let mut rules = Vec::new();
    for dashboard in dashboards() {
        for (place, expression, _) in dashboard.queries() {
            let expression = expression.replace("$__rate_interval", "1m");
            assert!(!expression.contains('$'), "{place}: {expression}");
            let record = format!("{}:query{}", dashboard.name, rules.len());
            rules.push(json!({ "record": record, "expr": expression }));
        }
    }
    let rules = json!({ "groups": [{ "name": "dashboards", "rules": rules }] });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules.to_string()).unwrap();
    promtool_run(&["check", "rules", file.to_str().unwrap()], "");
}

/// Grafana shows a dashboard whose panels overlap, or that has the id of another, in disorder or not
/// at all.
#[test]
fn each_dashboard_is_whole_and_its_panels_have_places_of_their_own() {
    let dashboards = dashboards();
    let names: Vec<&str> = dashboards.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, DASHBOARDS);
    for dashboard in &dashboards {
        let name = &dashboard.name;
        assert_eq!(dashboard.json["uid"], format!("waybill-{name}"));
        let sources = &dashboard.json["templating"]["list"];
        assert_eq!(sources[0]["name"], "datasource", "{name}");
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard.panels() {
            let place = format!("{name}: {}", panel["title"]);
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{place}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{place}");
            for key in ["title", "description"] {
                let text = panel[key].as_str().unwrap();
                assert!(!text.is_empty(), "{place}: {key}");
            }
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{place}");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{place} overlaps");
                }
            }
        }
    }
}
