//! The Helm chart in `deploy/helm`, as helm itself renders it: programs, settings, queues and paths
//! that there are, and expressions that the metrics can answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Output};

use config::{Mode, SETTINGS};
use domain::job::Queue;

use super::dashboards::{self, LabelValues};
use super::markdown::root;
use super::units::secrets;
use super::yaml::{Entry, at, entries, value};
use crate::support::process::{output, programs};
use crate::support::tools;

/// What the chart insists on.
const NEEDED: [&str; 4] = [
    "--set",
    "secret=waybill",
    "--set",
    "settings.PRIVACY_EXPORT_URL=s3://exports/waybill",
];

/// Runs helm on the chart. Nothing where it is not installed.
fn helm(arguments: &[&str], values: &[&str]) -> Option<Output> {
    let mut command = Command::new(tools::find("helm", "version")?);
    command.args(arguments).arg("deploy/helm/waybill");
    command.args(values).current_dir(root());
    Some(output(command))
}

/// The objects that the chart makes, by kind and the last part of the name.
fn objects(values: &[&str]) -> Option<BTreeMap<(String, String), Vec<Entry>>> {
    let rendered = helm(&["template", "shop"], &[&NEEDED, values].concat())?;
    let said = String::from_utf8_lossy(&rendered.stderr);
    assert!(rendered.status.success(), "{said}");
    let text = String::from_utf8(rendered.stdout).unwrap();
    let documents = text.split("---\n").map(entries);
    let documents = documents.filter(|document| !document.is_empty());
    let named = documents.map(|document| {
        let name = value(&document, "metadata/name").to_owned();
        let name = name.strip_prefix("shop-").unwrap_or(&name).to_owned();
        ((value(&document, "kind").to_owned(), name), document)
    });
    Some(named.collect())
}

fn names<'a>(objects: &'a BTreeMap<(String, String), Vec<Entry>>, kind: &str) -> Vec<&'a str> {
    let of_kind = objects.keys().filter(|(it, _)| it == kind);
    of_kind.map(|(_, name)| name.as_str()).collect()
}

fn queues() -> Vec<&'static str> {
    let mut queues = Queue::ALL.map(|it| it.into_str()).to_vec();
    queues.sort_unstable();
    queues
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart() {
    let Some(linted) = helm(&["lint", "--strict"], &NEEDED) else {
        return;
    };
    let said = String::from_utf8_lossy(&linted.stdout);
    assert!(linted.status.success(), "{said}");
    let chart =
        entries(&fs::read_to_string(root().join("deploy/helm/waybill/Chart.yaml")).unwrap());
    assert_eq!(value(&chart, "appVersion"), env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_chart_runs_every_program_without_rights_and_asks_it_how_it_is() {
    let Some(objects) = objects(&[]) else {
        return;
    };
    let mut expected = queues();
    expected.push("ingress");
    expected.sort_unstable();
    for kind in ["Deployment", "PodDisruptionBudget"] {
        assert_eq!(names(&objects, kind), expected, "{kind}");
    }
    assert!(names(&objects, "ScaledObject").is_empty());
    for ((kind, name), deployment) in &objects {
        if kind != "Deployment" {
            continue;
        }
        let pod = "spec/template/spec";
        let container = format!("{pod}/containers/-");
        let of = |path: &str| value(deployment, &format!("{container}/{path}"));
        let command = of("command").trim_matches(['[', ']']);
        assert_eq!(command, format!("waybill-{name}"));
        assert!(programs().contains(command));
        for (probe, path) in [
            ("startupProbe", "/livez"),
            ("livenessProbe", "/livez"),
            ("readinessProbe", "/readyz"),
        ] {
            let asked = of(&format!("{probe}/httpGet"));
            assert!(asked.contains(&format!("path: {path},")), "{name}: {asked}");
        }
        assert_eq!(of("securityContext/readOnlyRootFilesystem"), "true");
        assert_eq!(of("securityContext/allowPrivilegeEscalation"), "false");
        assert_eq!(of("securityContext/capabilities/drop"), "[ALL]");
        let of_pod = |path: &str| value(deployment, &format!("{pod}/{path}"));
        assert_eq!(of_pod("securityContext/runAsNonRoot"), "true");
        assert_eq!(of_pod("automountServiceAccountToken"), "false");
        let sources = format!("{pod}/volumes/-/projected/sources/-/secret");
        for source in at(deployment, &format!("{sources}/name")) {
            assert_eq!(source.value, "waybill");
        }
        let keys = at(deployment, &format!("{sources}/items/-")).into_iter();
        let keys = keys.map(|entry| {
            let key = entry.value.strip_prefix("{ key: ").unwrap();
            key.split(',').next().unwrap()
        });
        let mode = match name.as_str() {
            "ingress" => Mode::Production,
            queue => Mode::Worker(queue.parse().unwrap()),
        };
        assert_eq!(keys.collect::<BTreeSet<_>>(), secrets(mode), "{name}");
        assert!(!at(deployment, "spec/replicas").is_empty(), "{name}");
    }
}

#[test]
fn the_chart_gives_the_programs_settings_and_leads_them_to_the_secret() {
    let Some(objects) = objects(&["--set", "settings.STOREFRONT_SHOPS=shop.example"]) else {
        return;
    };
    let settings = &objects[&("ConfigMap".to_owned(), "settings".to_owned())];
    let mut set = BTreeMap::new();
    for entry in at(settings, "data/*") {
        set.insert(entry.path[1].as_str(), entry.value.as_str());
    }
    let folder = set
        .remove("CREDENTIALS_DIRECTORY")
        .expect("the folder of secrets");
    for name in set.keys() {
        let setting = SETTINGS.iter().find(|setting| setting.name == *name);
        assert!(setting.is_some_and(|setting| !setting.secret), "{name}");
    }
    assert_eq!(set["STOREFRONT_SHOPS"], "\"shop.example\"");
    let ports = [("ingress", "LISTEN_ADDR"), ("orders", "WORKER_LISTEN_ADDR")];
    for (name, setting) in ports {
        let deployment = &objects[&("Deployment".to_owned(), name.to_owned())];
        let container = "spec/template/spec/containers/-";
        let port = value(deployment, &format!("{container}/ports/-/containerPort"));
        assert_eq!(set[setting], format!("0.0.0.0:{port}"));
        let mounted = value(deployment, &format!("{container}/volumeMounts/-/mountPath"));
        assert_eq!(mounted, folder, "{name}");
    }
}

#[test]
fn keda_scales_each_queue_by_a_metric_that_there_is() {
    let Some(objects) = objects(&["--set", "keda.enabled=true"]) else {
        return;
    };
    assert_eq!(names(&objects, "ScaledObject"), queues());
    let values = LabelValues::read();
    for queue in queues() {
        let scaled = &objects[&("ScaledObject".to_owned(), queue.to_owned())];
        assert_eq!(
            value(scaled, "spec/scaleTargetRef/name"),
            format!("shop-{queue}")
        );
        let query = value(scaled, "spec/triggers/-/metadata/query");
        assert_eq!(dashboards::check(query, "", &values), Ok(()), "{query}");
        assert!(query.contains(&format!("queue=\"{queue}\"")), "{query}");
        let least: u32 = value(scaled, "spec/minReplicaCount").parse().unwrap();
        let most: u32 = value(scaled, "spec/maxReplicaCount").parse().unwrap();
        assert!((1..=most).contains(&least), "{least} to {most}");
        // Else helm and KEDA would take turns in setting it.
        let deployment = &objects[&("Deployment".to_owned(), queue.to_owned())];
        assert!(at(deployment, "spec/replicas").is_empty(), "{queue}");
    }
}

/// What the documents list of the API, but what is for monitoring and operators.
#[test]
fn the_public_reaches_every_route_but_those_of_operators() {
    let Some(objects) = objects(&["--set", "ingress.host=waybill.example"]) else {
        return;
    };
    let ingress = objects.iter().find(|((kind, _), _)| kind == "Ingress");
    let (_, ingress) = ingress.expect("an Ingress");
    let paths = at(ingress, "spec/rules/-/http/paths/-/path");
    let paths: BTreeSet<&str> = paths.iter().map(|entry| entry.value.as_str()).collect();
    let api = fs::read_to_string(root().join("docs/http-api.md")).unwrap();
    let mut routes = 0;
    for line in api.lines().filter(|line| line.starts_with("| `")) {
        let Some(route) = line.split('`').nth(1).and_then(|it| it.split_once(' ')) else {
            continue;
        };
        routes += 1;
        let is_under = |path: &&str| {
            let rest = route.1.strip_prefix(*path);
            rest.is_some_and(|rest| rest.is_empty() || *path != "/" && rest.starts_with('/'))
        };
        let is_public = !["/metrics", "/doctor"].contains(&route.1);
        assert_eq!(paths.iter().any(is_under), is_public, "{line}");
    }
    assert!(routes > 25, "{routes}");
}

#[test]
fn the_chart_says_what_it_lacks() {
    let lacks = [
        (&NEEDED[..2], "PRIVACY_EXPORT_URL"),
        (&NEEDED[2..], "name the Secret"),
    ];
    for (values, expected) in lacks {
        let Some(refused) = helm(&["template", "shop"], values) else {
            return;
        };
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(expected),
            "{said}"
        );
    }
}
