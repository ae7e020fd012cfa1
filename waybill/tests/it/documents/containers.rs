//! `compose.yaml`, `.env.example` and the files that compose mounts: they name settings, programs, files
//! and services that there are, and images of one version each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use config::{Mode, SETTINGS};

use super::markdown::root;
use super::units::secrets;
use super::yaml::{Entry, at, entries, value};
use crate::support::process::programs;
use crate::support::scrape::promtool_run;

/// Variables of the images that others make.
const OTHERS: [&str; 10] = [
    "GF_ANALYTICS_CHECK_FOR_UPDATES",
    "GF_ANALYTICS_REPORTING_ENABLED",
    "GF_AUTH_ANONYMOUS_ENABLED",
    "GF_AUTH_DISABLE_LOGIN_FORM",
    "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION",
    "POSTGRES_DB",
    "POSTGRES_PASSWORD",
    "POSTGRES_USER",
    "RABBITMQ_DEFAULT_PASS",
    "RABBITMQ_DEFAULT_USER",
];

/// What Caddy's file reads.
const OF_CADDY: &str = "PUBLIC_URL";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The services that run a program of ours, with that program.
fn ours(compose: &[Entry]) -> BTreeMap<&str, &str> {
    let merged = at(compose, "services/*/<<").into_iter();
    let ours = merged.filter(|entry| ["*waybill", "*worker"].contains(&entry.value.as_str()));
    ours.map(|entry| {
        let service = entry.path[1].as_str();
        let command = value(compose, &format!("services/{service}/command"));
        (service, command.trim_matches(['[', ']']))
    })
    .collect()
}

#[test]
fn compose_sets_settings_and_starts_programs_that_there_are() {
    let text = read("compose.yaml");
    let compose = entries(&text);
    let ours = ours(&compose);
    assert!(ours.len() >= 5, "{ours:?}");
    let programs = programs();
    for program in ours.values() {
        assert!(programs.contains(*program), "{program}");
    }
    let mut set = at(&compose, "x-waybill/environment/*");
    set.extend(at(&compose, "services/*/environment/*"));
    assert!(set.len() > 12, "{set:?}");
    for entry in set {
        let name = entry.path.last().unwrap().as_str();
        let service = (entry.path[0] == "services").then(|| entry.path[1].as_str());
        let is_ours = service.is_none_or(|service| ours.contains_key(service));
        let is_setting = SETTINGS.iter().any(|setting| setting.name == name);
        let is_known = match service {
            _ if is_ours => is_setting || name == "<<",
            Some("proxy") => name == OF_CADDY,
            _ => OTHERS.contains(&name),
        };
        assert!(is_known, "{service:?} sets {name}");
    }
    // What it takes out of `.env` is in the example of it.
    let example = read(".env.example");
    for rest in text.split("${").skip(1) {
        let name = rest.split([':', '}']).next().unwrap();
        let line = format!("{name}=");
        let mut lines = example.lines();
        assert!(
            lines.any(|it| it.trim_start_matches('#').starts_with(&line)),
            "{name} is not in .env.example"
        );
    }
}

#[test]
fn compose_passes_every_setting_on_and_secrets_to_the_processes_that_read_them() {
    let compose = entries(&read("compose.yaml"));
    let names = |path: &str| -> BTreeSet<String> {
        let names = at(&compose, path).into_iter();
        let names = names.map(|entry| entry.path.last().unwrap().clone());
        names.filter(|name| name != "<<").collect()
    };
    let of_all = names("x-waybill/environment/*");
    let is_secret = |name: &&str| {
        let setting = SETTINGS.iter().find(|setting| setting.name == *name);
        setting.is_some_and(|setting| setting.secret)
    };
    let passed_on: BTreeSet<&str> = of_all.iter().map(String::as_str).collect();
    let settings = SETTINGS.iter().filter(|setting| !setting.secret);
    for setting in settings {
        assert!(passed_on.contains(setting.name), "{}", setting.name);
    }
    for (service, program) in ours(&compose) {
        let path = format!("services/{service}/environment");
        let alias = at(&compose, &path);
        let path = match alias.first().map(|entry| entry.value.as_str()) {
            Some("*callers") => "services/orders/environment".to_owned(),
            _ => path,
        };
        let own = names(&format!("{path}/*"));
        let given = of_all.iter().chain(&own).map(String::as_str);
        let given: BTreeSet<&str> = given.filter(is_secret).collect();
        let mode = match program.strip_prefix("waybill-").unwrap() {
            "ingress" => Mode::Production,
            queue => Mode::Worker(queue.parse().unwrap()),
        };
        assert_eq!(given, secrets(mode), "{service}");
    }
}

/// Not even a new patch is started by itself, because a tag without it means another image each time.
#[test]
fn compose_names_one_version_of_each_image() {
    let compose = entries(&read("compose.yaml"));
    let images = at(&compose, "services/*/image");
    assert!(images.len() >= 5, "{images:?}");
    for image in images {
        let version = image
            .value
            .split_once(':')
            .map_or("", |(_, version)| version);
        let numbers = version.trim_start_matches('v').split('.');
        let numbers: Vec<_> = numbers.map(str::parse::<u32>).collect();
        assert!(numbers.len() >= 2, "{}", image.value);
        assert!(numbers.iter().all(Result::is_ok), "{}", image.value);
    }
    assert_eq!(value(&compose, "x-waybill/image"), "waybill:local");
}

#[test]
fn what_compose_mounts_is_there() {
    let compose = entries(&read("compose.yaml"));
    let volumes: BTreeSet<&str> = at(&compose, "volumes/*")
        .into_iter()
        .map(|entry| entry.path[1].as_str())
        .collect();
    let mut mounted = BTreeSet::new();
    let in_line = at(&compose, "services/*/volumes").into_iter();
    let in_lines = at(&compose, "services/*/volumes/-").into_iter();
    for entry in in_line
        .chain(in_lines)
        .filter(|entry| !entry.value.is_empty())
    {
        let mount = entry.value.trim_matches(['[', ']', '"']);
        let from = mount.split(':').next().unwrap();
        match from.strip_prefix("./") {
            Some(file) => assert!(root().join(file).exists(), "{mount}"),
            None => assert!(volumes.contains(from), "{mount}"),
        }
        mounted.insert(from);
    }
    assert!(mounted.len() > 8, "{mounted:?}");
    assert!(
        volumes.iter().all(|volume| mounted.contains(volume)),
        "{volumes:?}"
    );
}

#[test]
fn prometheus_scrapes_every_service_of_ours_at_its_port() {
    let compose = entries(&read("compose.yaml"));
    let text = read("deploy/prometheus/prometheus.yml");
    let prometheus = entries(&text);
    let port = |setting: &str| {
        let address = value(&compose, &format!("x-waybill/environment/{setting}"));
        address.rsplit_once(':').unwrap().1.to_owned()
    };
    let names = at(&prometheus, "scrape_configs/-/dns_sd_configs/-/names").into_iter();
    let ports = at(&prometheus, "scrape_configs/-/dns_sd_configs/-/port").into_iter();
    let mut scraped = BTreeMap::new();
    for (names, port) in names.zip(ports) {
        for name in names.value.trim_matches(['[', ']']).split(", ") {
            scraped.insert(name, port.value.clone());
        }
    }
    let expected = ours(&compose).into_keys().map(|service| match service {
        "ingress" => (service, port("LISTEN_ADDR")),
        _ => (service, port("WORKER_LISTEN_ADDR")),
    });
    assert_eq!(scraped, expected.collect());

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("alerts.yml"), read("docs/alerts.yml")).unwrap();
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, text).unwrap();
    promtool_run(&["check", "config", file.to_str().unwrap()], "");
}

#[test]
fn grafana_finds_prometheus_and_the_dashboards() {
    let compose = read("compose.yaml");
    let folder = "deploy/grafana/provisioning";
    let sources = entries(&read(&format!("{folder}/datasources/waybill.yaml")));
    assert_eq!(
        value(&sources, "datasources/-/url"),
        "http://prometheus:9090"
    );
    assert!(!at(&entries(&compose), "services/prometheus/image").is_empty());
    let prometheus = entries(&read("deploy/prometheus/prometheus.yml"));
    let interval = value(&prometheus, "global/scrape_interval");
    assert_eq!(
        value(&sources, "datasources/-/jsonData/timeInterval"),
        interval
    );
    let dashboards = entries(&read(&format!("{folder}/dashboards/waybill.yaml")));
    let path = value(&dashboards, "providers/-/options/path");
    let mount = format!("- ./deploy/grafana/dashboards:{path}:ro");
    assert!(compose.contains(&mount), "{mount}");
    assert!(compose.contains("- ./deploy/grafana/provisioning:/etc/grafana/provisioning:ro"));
}

/// It says what is set where nothing is set, so it has every setting with its default.
#[test]
fn the_example_of_an_environment_has_every_setting_with_its_default() {
    let example = read(".env.example");
    let is_name = |name: &str| {
        let mut letters = name.chars();
        name.contains('_')
            && letters.all(|it| it.is_ascii_uppercase() || "_0123456789".contains(it))
    };
    let lines = example
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once('='));
    let mut named: BTreeMap<&str, &str> = lines.filter(|(name, _)| is_name(name)).collect();
    for setting in SETTINGS {
        let value = named.remove(setting.name);
        let value = value.unwrap_or_else(|| panic!("{} is not there", setting.name));
        if let Some(default) = setting.default {
            assert_eq!(value, default, "{}", setting.name);
        }
    }
    // The rest are compose's own.
    let compose = read("compose.yaml");
    named.retain(|name, _| !compose.contains(&format!("${{{name}:")));
    assert!(named.is_empty(), "{named:?}");
}
