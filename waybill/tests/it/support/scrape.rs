//! Reads `/metrics` strictly by the rules of Prometheus' text format, and checks it with
//! `promtool`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::tools;

/// A metric as it was scraped.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub samples: Vec<Sample>,
}

#[derive(Debug)]
pub struct Sample {
    /// With `_bucket`, `_sum` or `_count` after a histogram's name.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

pub async fn scrape(port: u16) -> String {
    let url = format!("http://127.0.0.1:{port}/metrics");
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), 200);
    let kind = answer.headers()["content-type"].to_str().unwrap();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    answer.text().await.unwrap()
}

/// The same as OpenMetrics, as Prometheus asks for it.
pub async fn scrape_open(port: u16) -> String {
    let url = format!("http://127.0.0.1:{port}/metrics");
    let asked = reqwest::Client::new().get(url).header(
        "Accept",
        "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    );
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let kind = answer.headers()["content-type"].to_str().unwrap();
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(kind, expected);
    answer.text().await.unwrap()
}

/// Reads OpenMetrics strictly: it ends with `# EOF` and has no empty line, and the samples of a
/// counter end with `_total`, which its family's name does not. The result is as that of [`parse`],
/// with the names that the text format has.
pub fn parse_open(text: &str) -> BTreeMap<String, Family> {
    let text = text.strip_suffix("# EOF\n").expect("it says where it ends");
    assert!(
        text.lines().all(|line| !line.is_empty()),
        "no line is empty"
    );
    let counters: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    assert!(!counters.is_empty() && counters.iter().all(|name| !name.ends_with("_total")));
    let named = text.lines().map(|line| {
        let family = line.strip_prefix("# ").and_then(|it| it.split(' ').nth(1));
        match family.filter(|family| counters.contains(family)) {
            Some(family) => line.replacen(family, &format!("{family}_total"), 1),
            None => line.to_owned(),
        }
    });
    parse(&named.map(|line| line + "\n").collect::<String>())
}

/// Panics at whatever is not in order: a sample before its TYPE, a HELP or TYPE that is missing
/// or comes twice, a family in two pieces, a series twice, a value that is no number.
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut series = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            let family = Family {
                help: help.to_owned(),
                ..Family::default()
            };
            let before = families.insert(name.to_owned(), family);
            assert!(before.is_none(), "twice: {line}");
            name.clone_into(&mut current);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(name, current, "TYPE follows HELP: {line}");
            let family = families.get_mut(name).unwrap();
            assert!(
                family.kind.is_empty() && family.samples.is_empty(),
                "{line}"
            );
            kind.clone_into(&mut family.kind);
        } else {
            let sample = sample(line);
            let family = families.get_mut(&current).expect(line);
            let suffix = sample.name.strip_prefix(&current).expect(line);
            let fits = match family.kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                "counter" | "gauge" => suffix.is_empty(),
                kind => panic!("{kind}: {line}"),
            };
            assert!(fits, "{line} in {current}");
            assert!(
                series.insert((sample.name.clone(), sample.labels.clone())),
                "{line}"
            );
            family.samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect(line);
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect(line), line)),
    };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    assert!(name.bytes().all(is_word), "{line}");
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().expect(line),
    }
}

/// No value of ours holds a quote, so none is escaped.
fn labels(text: &str, line: &str) -> BTreeMap<String, String> {
    assert!(!text.contains('\\'), "{line}");
    let mut labels = BTreeMap::new();
    for pair in text
        .split_inclusive("\",")
        .map(|pair| pair.trim_end_matches(','))
    {
        let (name, value) = pair.split_once("=\"").expect(line);
        let value = value.strip_suffix('"').expect(line);
        let before = labels.insert(name.to_owned(), value.to_owned());
        assert!(before.is_none(), "{line}");
    }
    labels
}

/// Runs Prometheus' own checker `promtool ..` with `input`. Where it is not installed nothing is checked.
pub fn promtool_run(arguments: &[&str], input: &str) {
    let Some(program) = tools::find("promtool", "--version") else {
        return;
    };
    let mut checking = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = checking.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let checked = checking.wait_with_output().unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(checked.status.success(), "promtool {arguments:?}: {said}");
}
