//! The metrics of the real processes agree with the table of metrics, and no sender can make their
//! number grow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use platform::clock::Clock;
use platform::metrics::{ALL, By, Kind, Metric};
use sandbox::{Options, STOREFRONT_TOKEN, Sandbox};

use crate::support::backend::{Backend, is_distributed};
use crate::support::delivery::{Delivery, SHOP, order, payment_at, storefront};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::scrape::{Family, parse, parse_open, promtool_run, scrape, scrape_open};
use crate::support::within;

type Families = BTreeMap<String, Family>;

fn kind(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

/// The processes of a product, and where each can be scraped.
struct Product {
    _processes: Vec<Process>,
    ingress: u16,
    workers: Vec<u16>,
}

async fn start(backend: &Backend, more: &[(&str, &str)]) -> Product {
    let ingress = free_port();
    let mut settings = settings(backend, ingress);
    let more = more
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    settings.extend(more);
    let product = if is_distributed() {
        let mut processes = vec![Process::start("waybill-ingress", &[], &settings)];
        let mut workers = Vec::new();
        for name in ["waybill-orders", "waybill-payments", "waybill-privacy"] {
            let port = free_port();
            let address = format!("127.0.0.1:{port}");
            let arguments = ["--worker-listen-addr", address.as_str()];
            processes.push(Process::start(name, &arguments, &settings));
            workers.push(port);
        }
        Product {
            _processes: processes,
            ingress,
            workers,
        }
    } else {
        Product {
            _processes: vec![Process::start("waybill", &["serve"], &settings)],
            ingress,
            workers: Vec::new(),
        }
    };
    for port in product.ports() {
        is_ready(port).await;
    }
    product
}

impl Product {
    fn ports(&self) -> impl Iterator<Item = u16> {
        [self.ingress].into_iter().chain(self.workers.clone())
    }
}

async fn post(client: &reqwest::Client, port: u16, delivery: &Delivery) -> u16 {
    let url = format!("http://127.0.0.1:{port}{}", delivery.path);
    let mut request = client.post(url).body(delivery.body.clone());
    for (name, value) in &delivery.headers {
        request = request.header(*name, value.as_slice());
    }
    request.send().await.unwrap().status().as_u16()
}

/// Words that a sender chose, none of which may be in a label.
const CANARIES: [&str; 5] = ["canary", SHOP, "987654321", "BREW", "nowhere"];

/// Real deliveries of many kinds, accepted and refused, and requests that would like to grow the
/// metrics.
async fn traffic(port: u16) {
    let client = reqwest::Client::new();
    for seed in 1..=5 {
        let version = "X-Storefront-API-Version";
        let delivery = order("orders/paid", seed).id(&format!("canary-{seed}"));
        let delivery = delivery.header(version, "2026-10");
        assert_eq!(post(&client, port, &delivery).await, 200);
        assert_eq!(post(&client, port, &delivery).await, 409);
        let unknown = storefront(&format!("canary/{seed}"), "{}");
        let unknown = unknown.header(version, format!("canary-{seed}"));
        assert_eq!(post(&client, port, &unknown).await, 200);
    }
    let forged = order("orders/create", 1).header("X-Storefront-Hmac-Sha256", "canary");
    assert_eq!(post(&client, port, &forged).await, 401);
    let now = Clock::system().now().unix_seconds();
    let broken = r#"{"id": "evt_canary", "type": "charge.refunded", "data": {}}"#;
    let broken = payment_at(now, broken);
    assert_eq!(post(&client, port, &broken).await, 200);
    for nth in 0..40 {
        for path in [
            format!("/nowhere/{nth}"),
            format!("/orders/9876543210{nth}/track?canary={nth}"),
            format!("/tracking/canary{nth}"),
        ] {
            let url = format!("http://127.0.0.1:{port}{path}");
            let method = format!("BREW{nth}").parse().unwrap();
            let request = if nth % 2 == 0 {
                client.get(url)
            } else {
                client.request(method, url)
            };
            let request = request.header("X-Request-Id", format!("canary-{nth}"));
            request.send().await.unwrap();
        }
    }
}

fn value(families: &Families, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let base = ["_count", "_sum"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    let family = families.get(name).or_else(|| families.get(base?))?;
    let fits = |sample: &&crate::support::scrape::Sample| {
        let label =
            |(name, value): &(&str, &str)| sample.labels.get(*name).is_some_and(|it| it == value);
        sample.name == name && labels.iter().all(label)
    };
    family.samples.iter().find(fits).map(|sample| sample.value)
}

/// What every scrape must keep, whichever process it is of.
fn check(families: &Families, shown_by: &[By]) {
    for (name, family) in families {
        let metric = ALL.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the table"));
        assert!(
            shown_by.contains(&metric.by),
            "{name} is of another process"
        );
        assert_eq!(family.kind, kind(metric), "{name}");
        assert_eq!(family.help, metric.help, "{name}");
        assert!(!family.samples.is_empty(), "{name}");
        match metric.kind {
            Kind::Counter => assert!(name.ends_with("_total"), "{name}"),
            Kind::Gauge => assert!(!name.ends_with("_total"), "{name}"),
            Kind::Histogram => assert!(name.ends_with("_seconds") || name.ends_with("_size")),
        }
        for sample in &family.samples {
            let mut labels: BTreeSet<&str> = sample.labels.keys().map(String::as_str).collect();
            assert_eq!(
                labels.remove("le"),
                sample.name.ends_with("_bucket"),
                "{sample:?}"
            );
            assert_eq!(
                labels,
                metric.labels.iter().copied().collect(),
                "{sample:?}"
            );
            let of_sender = |value: &String| CANARIES.iter().any(|word| value.contains(word));
            assert!(!sample.labels.values().any(of_sender), "{sample:?}");
            assert!(metric.kind != Kind::Counter || sample.value >= 0.0);
        }
        let series = family
            .samples
            .iter()
            .filter(|sample| !sample.labels.contains_key("le"));
        assert!(series.count() <= 60, "{name} grows");
        if metric.kind == Kind::Histogram {
            buckets(name, family);
        }
    }
}

/// Buckets hold those before them, and the last holds all.
fn buckets(name: &str, family: &Family) {
    let mut last: BTreeMap<BTreeMap<String, String>, (f64, f64)> = BTreeMap::new();
    for sample in family
        .samples
        .iter()
        .filter(|sample| sample.name.ends_with("_bucket"))
    {
        let mut labels = sample.labels.clone();
        let bound: f64 = labels
            .remove("le")
            .unwrap()
            .replace("+Inf", "inf")
            .parse()
            .unwrap();
        let (before, count) = last
            .insert(labels, (bound, sample.value))
            .unwrap_or((-1.0, 0.0));
        assert!(bound > before && sample.value >= count, "{name}");
    }
    for sample in family
        .samples
        .iter()
        .filter(|sample| sample.name.ends_with("_count"))
    {
        let (bound, count) = last[&sample.labels];
        assert!(
            bound.is_infinite() && count.to_bits() == sample.value.to_bits(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn what_is_scraped_after_real_traffic_is_what_the_table_says() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let backend = Backend::create().await;
    let api = sandbox.storefront_url();
    let more = [
        ("STOREFRONT_API_URL", api.as_str()),
        ("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN),
    ];
    let product = start(&backend, &more).await;
    traffic(product.ingress).await;
    let orders = *product.workers.first().unwrap_or(&product.ingress);
    let payments = *product.workers.get(1).unwrap_or(&product.ingress);
    let soon = Duration::from_mins(1);
    within(
        soon,
        "the calls were made and the broken one is dead",
        async || {
            let (orders, payments) = (parse(&scrape(orders).await), parse(&scrape(payments).await));
            let called = [("operation", "fulfillment"), ("outcome", "ok")];
            let dead = [
                ("queue", "payments"),
                ("kind", "charge.refunded"),
                ("outcome", "dead"),
            ];
            value(&orders, "waybill_provider_call_seconds_count", &called) == Some(5.0)
                && value(&payments, "waybill_jobs_run_total", &dead) == Some(1.0)
        },
    )
    .await;
    within(soon, "the dead job is seen by every process", async || {
        for port in product.ports() {
            let seen = parse(&scrape(port).await);
            let dead = value(&seen, "waybill_queue_dead_jobs", &[("queue", "payments")]);
            if dead != Some(1.0) {
                return false;
            }
        }
        true
    })
    .await;

    let mut seen = BTreeSet::new();
    for port in product.ports() {
        let text = scrape(port).await;
        let families = parse(&text);
        let shown_by: &[By] = match (product.workers.is_empty(), port == product.ingress) {
            (true, _) => &[By::Every, By::Ingress, By::Worker],
            (false, true) => &[By::Every, By::Ingress],
            (false, false) => &[By::Every, By::Worker],
        };
        check(&families, shown_by);
        let open = parse_open(&scrape_open(port).await);
        check(&open, shown_by);
        let names = |families: &Families| families.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&open), names(&families));
        promtool_run(&["check", "metrics"], &text);
        assert_eq!(value(&families, "waybill_database_up", &[]), Some(1.0));
        assert_eq!(
            value(&families, "waybill_broker_up", &[]),
            is_distributed().then_some(1.0)
        );
        let ready = [("queue", "orders")];
        assert_eq!(
            value(&families, "waybill_queue_ready_jobs", &ready),
            Some(0.0)
        );
        seen.extend(families.into_keys());
    }
    let ingress = parse(&scrape(product.ingress).await);
    for (name, labels, expected) in [
        (
            "waybill_deliveries_accepted_total",
            [("source", "storefront"), ("known", "yes")],
            5.0,
        ),
        (
            "waybill_deliveries_accepted_total",
            [("source", "storefront"), ("known", "no")],
            5.0,
        ),
        (
            "waybill_delivery_api_versions_total",
            [("source", "storefront"), ("version", "2026-10")],
            5.0,
        ),
        (
            "waybill_delivery_api_versions_total",
            [("source", "storefront"), ("version", "other")],
            5.0,
        ),
        (
            "waybill_delivery_api_versions_total",
            [("source", "payment"), ("version", "none")],
            1.0,
        ),
        (
            "waybill_deliveries_refused_total",
            [("source", "storefront"), ("reason", "signature")],
            1.0,
        ),
        (
            "waybill_http_request_seconds_count",
            [("route", "none"), ("method", "GET")],
            20.0,
        ),
        (
            "waybill_http_request_seconds_count",
            [("route", "none"), ("method", "other")],
            20.0,
        ),
    ] {
        assert_eq!(
            value(&ingress, name, &labels),
            Some(expected),
            "{name} {labels:?}"
        );
    }
    // What these count needs a login, a rotation, an old request, another provider, an endpoint, what never came, or a
    // broker.
    let rare = [
        "waybill_broker_up",
        "waybill_broker_connects_total",
        "waybill_old_secret_matches_total",
        "waybill_privacy_requests_repeated_total",
        "waybill_order_bodies_repeated_total",
        "waybill_order_topics_refuted_total",
        "waybill_privacy_deadline_notices_total",
        "waybill_login_polls_total",
        "waybill_tokens_asked_total",
        "waybill_webhooks_sent_total",
        "waybill_reconciled_deliveries_total",
    ];
    for metric in ALL.iter().filter(|metric| !rare.contains(&metric.name)) {
        assert!(
            seen.contains(metric.name),
            "{} was not scraped",
            metric.name
        );
    }
    if is_distributed() {
        assert!(seen.contains("waybill_broker_up"));
        assert!(seen.contains("waybill_broker_connects_total"));
    }
    sandbox.stop().await;
}
