//! The names in the documents exist: files, links, functions, commands and their options,
//! settings, metrics, events, fields. If somebody changes a name only in the code, a test fails.
//! Names that do not belong to Waybill are listed in [`OTHERS`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use config::SETTINGS;
use domain::code::Code;
use platform::metrics::ALL;

use super::cli::{self, Command};
use super::markdown::{Document, documents, root};
use super::sources::{Sources, is_kind};

/// Names that are not ours, or of values that somebody else chooses.
const OTHERS: &[&str] = &[
    // Of operating systems, brokers and Prometheus.
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "delivery_mode",
    "dns_sd_configs",
    "drop-head",
    "pg_dump",
    "pg_read_all_stats",
    "pg_statistic",
    "rabbitmqadmin",
    "remote_apply",
    "remote_write",
    "synchronous_standby_names",
    // Of providers' bodies, where Waybill knows only what else there can be.
    "in_progress",
    "invoice_item_details",
    "invoiceitem",
    // Of OpenTelemetry, where they are about what is not sent.
    "url.full",
    "url.path",
    // Of Rust and its crates, where they are about what the code does not do.
    "OrderModel",
    "mimalloc",
    "tokio::spawn",
    "unsafe",
    "utils",
    // Parts of names, and places for names.
    "/name",
    "DEBUG",
    "NAME_FILE",
    "NOTIFICATION_",
    "QR_",
];

struct Names {
    sources: Sources,
    cli: Command,
    /// The flags that every command has.
    flags: Vec<String>,
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn is_constant(text: &str) -> bool {
    is_identifier(text) && text.contains('_') && !text.chars().any(|it| it.is_ascii_lowercase())
}

fn is_file(text: &str) -> bool {
    const KINDS: [&str; 14] = [
        "rs", "md", "toml", "sql", "yml", "yaml", "css", "lua", "py", "mjs", "lock", "html", "txt",
        "json",
    ];
    let path = text
        .chars()
        .all(|it| it.is_ascii_alphanumeric() || "_-./".contains(it));
    path && text
        .rsplit_once('.')
        .is_some_and(|(name, kind)| !name.is_empty() && KINDS.contains(&kind))
}

fn found(is_found: bool, what: &str) -> Result<(), String> {
    if is_found {
        Ok(())
    } else {
        Err(format!("there is no {what}"))
    }
}

impl Names {
    fn read() -> Self {
        let settings = SETTINGS
            .iter()
            .filter(|it| !it.secret || it.name == "DATABASE_URL");
        let flag = |name: &str| format!("--{}", name.to_lowercase().replace('_', "-"));
        Names {
            sources: Sources::read(),
            cli: cli::read(),
            flags: settings.map(|setting| flag(setting.name)).collect(),
        }
    }

    /// What is wrong with a text in backticks, if anything is.
    fn check(&self, span: &str) -> Result<(), String> {
        if OTHERS.contains(&span) {
            return Ok(());
        }
        if span == "waybill" || span.starts_with("waybill ") || span.starts_with("cargo run -- ") {
            return self.command(span);
        }
        if span.starts_with("--") {
            let flag = span.split([' ', '=']).next().unwrap_or(span);
            let known = self.cli.has(flag) || self.flags.iter().any(|it| it == flag);
            return found(
                known || self.sources.has_text(&format!("{flag} ")),
                "such option",
            );
        }
        if let Some((method, path)) = span.split_once(' ')
            && ["GET", "POST", "DELETE", "HEAD"].contains(&method)
        {
            return self.path(path);
        }
        if span.starts_with('/') && !span.contains(' ') {
            return self.path(span);
        }
        if let Some((path, name)) = span.split_once(".rs::") {
            let files = self.sources.at(&format!("{path}.rs"));
            let test = format!("fn {name}(");
            return found(files.iter().any(|file| file.has(&test)), "such test");
        }
        if is_file(span) || span.starts_with("scripts/") && !span.contains(' ') {
            return found(!self.sources.at(span).is_empty(), "such file");
        }
        let call = span.split(['(', '{']).next().unwrap_or(span);
        if call.contains("::") && call.split("::").all(is_identifier) {
            return found(self.sources.has_item(call), "such item");
        }
        if span.starts_with("waybill_") {
            return Names::metric(call);
        }
        let word = span.split('=').next().unwrap_or(span);
        if is_constant(word) {
            return self.constant(word);
        }
        self.word(call)
    }

    fn command(&self, line: &str) -> Result<(), String> {
        let line = line
            .strip_prefix("cargo run -- ")
            .unwrap_or_else(|| line.trim_start_matches("waybill"));
        self.cli.check(line, &self.flags)
    }

    /// A path of the API, of the sandbox or of a provider.
    fn path(&self, path: &str) -> Result<(), String> {
        let path = path.split('?').next().unwrap_or(path);
        if path.contains("..") || path.contains('<') || path.contains(' ') {
            return Ok(());
        }
        // The code may have its parameters under other names, so what stands between them counts.
        let mut parts = path.split(['{', '}']).step_by(2);
        let known = parts.all(|part| self.sources.has_text(part.trim_end_matches('/')));
        found(known, "such path")
    }

    fn metric(name: &str) -> Result<(), String> {
        let name = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        found(ALL.iter().any(|metric| metric.name == name), "such metric")
    }

    /// A setting, an application code, a constant, or a variable of scripts and tests.
    fn constant(&self, name: &str) -> Result<(), String> {
        let is_setting = SETTINGS.iter().any(|setting| {
            setting.name == name
                || setting.secret && name.strip_suffix("_FILE") == Some(setting.name)
        });
        let is_code = Code::ALL.into_iter().any(|code| code.id() == name);
        let files = &self.sources.files;
        let (defined, read) = (format!("const {name}:"), format!("(\"{name}\")"));
        let is_elsewhere = files.iter().any(|file| {
            let is_place = file.path.starts_with("scripts/") || file.path == "compose.yaml";
            is_kind(&file.path, "rs") && (file.has(&defined) || file.has(&read))
                || is_place && file.has(name)
        });
        found(
            is_setting || is_code || is_elsewhere,
            "such setting, code or constant",
        )
    }

    /// A name of one word or of several with dots, slashes or dashes between them.
    fn word(&self, span: &str) -> Result<(), String> {
        let span = span.trim_end_matches(['.', '?', '!']);
        if is_identifier(span) {
            let test = format!("fn {span}(");
            let is_test = || self.sources.files.iter().any(|file| file.has(&test));
            return found(
                self.sources.has_word(span) || is_test(),
                "such word in the code",
            );
        }
        if span.contains('/') && !self.sources.at(span).is_empty() {
            return Ok(());
        }
        let is_name = |separators: &[char]| {
            span.contains(separators)
                && span
                    .split(separators)
                    .all(|part| part.is_empty() || is_identifier(part))
        };
        let is_field = is_name(&['.', '[', ']']);
        if is_field && !span.ends_with("example") && !span.contains("..") {
            let mut parts = span.split(['.', '[', ']']).filter(|part| !part.is_empty());
            return found(
                parts.all(|part| self.sources.has_word(part)),
                "such field or event",
            );
        }
        if is_name(&['/']) || is_name(&['-']) {
            return found(self.sources.has_text(span), "such text in the code");
        }
        Ok(())
    }

    /// What is wrong with a document.
    fn mistakes(&self, document: &Document) -> Vec<String> {
        let spans = document.spans().into_iter();
        let spans = spans.map(|(line, span)| (line, self.check(&span), span));
        let commands = document.commands().into_iter();
        let commands = commands.map(|(line, text)| (line, self.command(&text), text));
        let mistakes = spans.chain(commands).filter_map(|(line, result, text)| {
            let problem = result.err()?;
            Some(format!("{}:{line}: `{text}`: {problem}", document.path))
        });
        mistakes.collect()
    }
}

#[test]
fn what_the_documents_name_exists() {
    let names = Names::read();
    let documents = documents();
    let mistakes: Vec<String> = documents
        .iter()
        .flat_map(|document| names.mistakes(document))
        .collect();
    assert!(
        mistakes.is_empty(),
        "{} names:\n{}",
        mistakes.len(),
        mistakes.join("\n")
    );
    let spans = documents.iter().flat_map(Document::spans);
    let named: BTreeSet<String> = spans.map(|(_, span)| span).collect();
    for name in OTHERS {
        assert!(named.contains(*name), "no document names {name} any more");
    }
}

#[test]
fn a_name_that_is_not_there_is_found() {
    let names = Names::read();
    for name in [
        "waybill jobs list --state dead",
        "common/Cargo.toml",
        "Tx::query",
        "waybill_jobs_run_total{outcome=\"dead\"}",
        "LISTEN_ADDR=0.0.0.0:8000",
        "DATABASE_URL_FILE",
        "AUTH_001",
        "GET /auth/validate",
        "order.created",
        "line_items[].variant_id",
        "orders/create",
        "X-Error-Code",
        "documents/names.rs::a_name_that_is_not_there_is_found",
    ] {
        assert_eq!(names.check(name), Ok(()), "{name}");
    }
    for name in [
        "waybill jobs relist",
        "waybill jobs list --colour",
        "--colourful",
        "common/src/utils.rs",
        "Tx::quarry",
        "jobs::no_such_function",
        "no_such_module::finish",
        "waybill_no_such_total",
        "NO_SUCH_SETTING",
        "LISTEN_ADDR_FILE",
        "GET /auth/no-such-path",
        "order.no_such_event",
        "line_items[].no_such_field",
        "orders/no_such_topic",
        "X-No-Such-Header",
        "no_such_word",
        "documents/names.rs::no_such_test",
    ] {
        assert!(names.check(name).is_err(), "{name}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let documents = documents();
    let sources = Sources::read();
    let mut links = 0;
    for document in &documents {
        let folder = document
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        for (line, target) in document.links() {
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match (path, path.strip_prefix("../"), folder) {
                ("", ..) => document.path.clone(),
                (_, Some(path), "docs") => path.to_owned(),
                (_, _, "") => path.to_owned(),
                _ => format!("{folder}/{path}"),
            };
            let place = format!("{}:{line}: ({target})", document.path);
            let folder = format!("{path}/");
            let mut files = sources.files.iter().map(|file| &file.path);
            let is_text = files.any(|file| *file == path || file.starts_with(&folder));
            let is_there = is_text || is_picture(&path) && root().join(&path).is_file();
            assert!(is_there, "{place}: no such file");
            if !anchor.is_empty() {
                let there = documents.iter().find(|it| it.path == path);
                let there = there.unwrap_or_else(|| panic!("{place}: no document"));
                assert!(there.anchors().contains(anchor), "{place}: no such heading");
            }
        }
    }
    assert!(links > 100, "{links}");
}

fn is_picture(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == "png")
}

/// A comment names documents of this repository alone, so that every reader has them.
#[test]
fn comments_name_documents_that_are_here() {
    let sources = Sources::read();
    let mut mistakes = Vec::new();
    for file in sources
        .files
        .iter()
        .filter(|file| !is_kind(&file.path, "md"))
    {
        for (number, line) in file.text.lines().enumerate() {
            let comment = ["//", "#", "--"]
                .iter()
                .any(|mark| line.trim_start().starts_with(mark));
            let words = line.split(|it: char| !it.is_ascii_alphanumeric() && !"_-./".contains(it));
            for word in words.map(|word| word.trim_matches('.')) {
                let is_document = is_kind(word, "md");
                let is_gone = is_document && sources.at(word).is_empty();
                let is_outside = word.to_lowercase() == "spec" || word.contains("../shared");
                if comment && (is_gone || is_outside) {
                    mistakes.push(format!("{}:{}: {line}", file.path, number + 1));
                }
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Every text that says how many jobs a message has says what is sent. What was changed or measured once is left as it was.
#[test]
fn every_text_says_how_many_jobs_a_message_has() {
    let mut said = 0;
    for file in &Sources::read().files {
        if ["CHANGELOG.md", "docs/performance.md"].contains(&file.path.as_str()) {
            continue;
        }
        let text = file.text.to_lowercase();
        for (at, words) in text.match_indices("up to ") {
            let rest = &text[at + words.len()..];
            let number = rest.split_once(" job").map(|(number, _)| number.parse());
            if let Some(Ok(number)) = number {
                let most: usize = number;
                assert_eq!(most, bus::MAX_JOBS_PER_MESSAGE, "{}", file.path);
                said += 1;
            }
        }
    }
    assert!(said >= 8, "{said} were found");
}

#[test]
fn the_example_of_an_environment_has_every_setting_with_its_default() {
    let example = std::fs::read_to_string(root().join(".env.example")).unwrap();
    let lines = example
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once('='));
    let mut named: BTreeMap<&str, &str> = lines.filter(|(name, _)| is_constant(name)).collect();
    for setting in SETTINGS {
        let value = named.remove(setting.name);
        let value = value.unwrap_or_else(|| panic!("{} is not there", setting.name));
        if let Some(default) = setting.default {
            assert_eq!(value, default, "{}", setting.name);
        }
    }
    // The rest are compose's own.
    let compose = std::fs::read_to_string(root().join("compose.yaml")).unwrap();
    named.retain(|name, _| !compose.contains(&format!("${{{name}:")));
    assert!(named.is_empty(), "{named:?}");
}

/// They are read first, so they are read whole.
#[test]
fn the_readme_and_the_architecture_are_short() {
    let length = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        (text.len(), text.lines().count())
    };
    assert!(length("README.md").0 < 10_000, "bytes");
    assert!(length("ARCHITECTURE.md").1 <= 150, "lines");
}
