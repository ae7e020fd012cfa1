//! The tables of the documents that are generated from the program. Each is between
//! `<!-- generated: name -->` and `<!-- end -->`; `UPDATE_DOCS=1` writes them anew.

use std::fmt::Write as _;

use config::protections::PROTECTIONS;
use config::{Readers, SETTINGS};
use domain::attention::Condition;
use domain::code::Code;
use domain::profile::{OWN_HEADERS, PAYMENTS, STOREFRONTS, StorefrontApi};
use platform::metrics::{ALL, By, Kind};
use serde_json::Value;

use super::cli;
use super::markdown::{documents, root};
use crate::support::service;

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

struct Table {
    name: &'static str,
    text: String,
}

/// A table in Markdown.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        assert_eq!(row.len(), head.len(), "{row:?}");
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// In a table a bar ends a cell even within backticks.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// Plain text as Markdown shows it.
fn plain(text: &str) -> String {
    text.replace('<', "\\<").replace('|', "\\|")
}

fn settings() -> String {
    let rows = SETTINGS.iter().map(|setting| {
        let default = setting.default.map_or("-".to_owned(), code);
        let secret = if setting.secret { " (*)" } else { "" };
        let name = format!("`{}`{secret}", setting.name);
        vec![name, default, plain(setting.meaning)]
    });
    table(&["name", "default", "meaning"], rows)
}

/// The profiles of storefronts, row by row as the program has them.
fn storefronts() -> String {
    let rows = STOREFRONTS.iter().map(|profile| {
        let names = &profile.headers;
        let own = profile.name == OWN_HEADERS.name;
        let name = |name: Option<&str>| match name {
            Some(_) if own => "yours".to_owned(),
            Some(name) => code(name),
            None => "-".to_owned(),
        };
        let topic = match names.topic {
            None => "`type` of the body".to_owned(),
            topic => name(topic),
        };
        vec![
            code(profile.name),
            name(Some(names.signature)),
            name(names.id),
            topic,
            name(names.shop),
            profile.duplicate_status.to_string(),
            match profile.api {
                StorefrontApi::Rest { token_header, .. } => code(token_header),
                StorefrontApi::WooCommerce => "user and password".to_owned(),
            },
        ]
    });
    let head = [
        "profile",
        "signature",
        "delivery id",
        "topic",
        "shop",
        "duplicate",
        "token of its API",
    ];
    table(&head, rows)
}

/// What each storefront calls the topics that something is done with.
fn topics() -> String {
    let rows = STOREFRONTS.iter().flat_map(|profile| {
        let topics = profile.topics.iter();
        topics.map(|(theirs, ours)| vec![code(profile.name), code(theirs), code(ours)])
    });
    table(&["profile", "its topic", "ours"], rows)
}

fn payment_providers() -> String {
    let rows = PAYMENTS.iter().map(|profile| {
        let id = profile.id.map_or("`id` of the body".to_owned(), code);
        let thin = if profile.thin_events {
            "fetched"
        } else {
            "kept"
        };
        vec![
            code(profile.name),
            code(profile.signature),
            id,
            thin.to_owned(),
        ]
    });
    table(&["profile", "signature", "event id", "thin events"], rows)
}

/// What `waybill connect` says of each provider.
/// What operators are notified of (W), and what Prometheus is (P).
fn conditions() -> String {
    let rows = Condition::ALL.into_iter().map(|condition| {
        let row = condition.row();
        let by = match (row.is_looked_at, row.rules) {
            (true, []) => "W",
            (true, _) => "W, P",
            (false, _) => "P",
        };
        vec![
            code(condition.into_str()),
            by.to_owned(),
            row.severity.into_str().to_owned(),
            row.mend.to_owned(),
        ]
    });
    table(&["condition", "by", "severity", "what to do"], rows)
}

fn protections() -> String {
    let rows = PROTECTIONS.iter().map(|it| {
        let settings: Vec<String> = it.setting.split(", ").map(code).collect();
        vec![it.name.to_owned(), settings.join(", "), it.open.to_owned()]
    });
    table(&["protection", "setting", "what is open without it"], rows)
}

/// Which processes read which secrets.
fn secrets() -> String {
    let rows = Readers::ALL.into_iter().map(|readers| {
        let names: Vec<String> = readers.secrets().map(|secret| code(secret.name)).collect();
        vec![readers.name().to_owned(), names.join(", ")]
    });
    table(&["processes", "secrets that they read"], rows)
}

fn limits() -> String {
    let rows = ingress::limit::allowances::all().into_iter();
    let rows = rows.map(|it| {
        let texts = [it.of, &it.limit, it.protects, it.reached];
        texts.map(ToOwned::to_owned).to_vec()
    });
    table(
        &["what is counted", "limit", "for", "when it is reached"],
        rows,
    )
}

fn codes() -> String {
    let rows = Code::ALL.into_iter().map(|code| {
        let it = code.meaning();
        let statuses: Vec<String> = it.statuses.iter().map(u16::to_string).collect();
        let statuses = if statuses.is_empty() {
            "none".to_owned()
        } else {
            statuses.join(", ")
        };
        let texts = [it.message, it.description, it.resolution].map(ToOwned::to_owned);
        let mut row = vec![format!("`{}`", it.id), statuses];
        row.extend(texts);
        row
    });
    let when = "when, and where beside the header";
    table(&["code", "status", "message", when, "what to do"], rows)
}

fn metrics(by: By) -> String {
    let rows = ALL.iter().filter(|metric| metric.by == by).map(|metric| {
        let name = match metric.kind {
            Kind::Counter | Kind::Gauge => code(metric.name),
            Kind::Histogram => format!("{} (h)", code(metric.name)),
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
        vec![name, labels.join(", "), plain(metric.help)]
    });
    table(&["name", "labels", "what it is"], rows)
}

/// The operations of the API's description, one group after the other.
fn endpoints(document: &Value) -> String {
    let mut text = String::new();
    let mut listed = 0;
    for tag in document["tags"].as_array().unwrap() {
        let mut rows = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if operation["tags"][0] == tag["name"] {
                    rows.push(endpoint(&method.to_uppercase(), path, operation));
                }
            }
        }
        if rows.is_empty() {
            continue;
        }
        listed += rows.len();
        let head = ["method and path", "authentication", "what it is"];
        let name = tag["name"].as_str().unwrap();
        let _ = writeln!(text, "**{name}**\n\n{}", table(&head, rows));
    }
    let items = document["paths"].as_object().unwrap().values();
    let operations: usize = items.map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(listed, operations, "every operation is in a group");
    text
}

fn endpoint(method: &str, path: &str, operation: &Value) -> Vec<String> {
    let security = operation["security"].as_array().into_iter().flatten();
    let scheme = security.filter_map(|it| it.as_object()?.keys().next());
    let authentication = scheme.map(|scheme| match scheme.as_str() {
        "apiKey" => "API key".to_owned(),
        "accessToken" => "access token".to_owned(),
        "exportLink" => "signature in the link".to_owned(),
        "storefrontSignature" => code("X-Storefront-Hmac-Sha256"),
        "paymentSignature" => code("Payment-Signature"),
        other => panic!("a way to authenticate that has no words yet: {other}"),
    });
    let authentication: Vec<String> = authentication.collect();
    let authentication = match authentication.as_slice() {
        [] => "none".to_owned(),
        schemes => schemes.join(" or "),
    };
    let summary = operation["summary"].as_str().unwrap().to_owned();
    vec![code(&format!("{method} {path}")), authentication, summary]
}

/// The commands, under the headings of the first page of the help, which says the rest about each.
fn commands() -> String {
    let cli = cli::read();
    let leaves = cli.leaves();
    assert!(leaves.len() > 40, "{}", leaves.len());
    let mut headings: Vec<&str> = leaves.iter().map(|(heading, _)| *heading).collect();
    headings.dedup();
    let mut text = String::new();
    for heading in headings {
        let leaves = leaves.iter().filter(|(it, _)| *it == heading);
        let rows = leaves.map(|(_, command)| {
            let name = command.path.trim_start_matches("waybill ");
            vec![code(name), plain(first_words(&command.about))]
        });
        let _ = writeln!(text, "{}", table(&[heading, ""], rows));
    }
    text
}

/// What fits on a line: the first sentence, without its last parts when it is long.
fn first_words(about: &str) -> &str {
    const LENGTH: usize = 80;
    let end = [". ", "; ", ": "]
        .iter()
        .filter_map(|it| about.find(it))
        .min();
    let sentence = &about[..end.unwrap_or(about.len())];
    if sentence.len() <= LENGTH {
        return sentence;
    }
    let end = sentence[..LENGTH].rfind(", ");
    &sentence[..end.unwrap_or(sentence.len())]
}

async fn tables() -> Vec<Table> {
    let commands = commands();
    let service = service().start().await;
    let answer = service.get("/openapi.json").send().await.unwrap();
    let document: Value = answer.json().await.unwrap();
    service.stop().await;
    let table = |name, text| Table { name, text };
    vec![
        table("settings", settings()),
        table("secrets", secrets()),
        table("limits", limits()),
        table("protections", protections()),
        table("conditions", conditions()),
        table("storefronts", storefronts()),
        table("topics", topics()),
        table("payment providers", payment_providers()),
        table("error codes", codes()),
        table("metrics of every process", metrics(By::Every)),
        table("metrics of ingress", metrics(By::Ingress)),
        table("metrics of workers", metrics(By::Worker)),
        table("endpoints", endpoints(&document)),
        table("commands", commands),
    ]
}

/// A document with its tables as they should be, and the names of these.
fn rewritten(path: &str, text: &str, tables: &[Table]) -> (String, Vec<&'static str>) {
    let (mut new, mut used) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").expect("the end of a marker");
        let (_, after) = after
            .split_once(END)
            .unwrap_or_else(|| panic!("{path}: the table {name} has no end"));
        let table = tables.iter().find(|table| table.name == name);
        let table = table.unwrap_or_else(|| panic!("{path}: nothing makes the table {name}"));
        let _ = write!(
            new,
            "{before}{BEGIN}{name} -->\n\n{}\n\n{END}",
            table.text.trim()
        );
        used.push(table.name);
        rest = after;
    }
    new.push_str(rest);
    (new, used)
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever changes a table has the documents written anew by it"
)]
pub fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[tokio::test]
async fn the_tables_of_the_documents_are_the_programs() {
    let tables = tables().await;
    let mut used = Vec::new();
    let mut stale = Vec::new();
    for document in documents() {
        let (text, names) = rewritten(&document.path, &document.text, &tables);
        used.extend(names);
        if text != document.text {
            if is_update() {
                std::fs::write(root().join(&document.path), text).unwrap();
            }
            stale.push(document.path);
        }
    }
    for Table { name, .. } in &tables {
        assert!(used.contains(name), "no document has the table {name}");
    }
    assert!(
        stale.is_empty() || is_update(),
        "{stale:?} differ from the program; UPDATE_DOCS=1 with this test writes their tables anew"
    );
}
