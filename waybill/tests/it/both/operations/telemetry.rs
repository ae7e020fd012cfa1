//! The real processes send spans and metrics to a collector that decodes what it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use domain::job::{Queue, State};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use sandbox::{Options, STOREFRONT_TOKEN, Sandbox};
use store::jobs;
use store::sql::Db;
use tokio::time::Instant;

use crate::support::backend::{Backend, is_distributed};
use crate::support::canary;
use crate::support::collector::{Answers, Collector, attributes};
use crate::support::delivery::{Delivery, order, storefront};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::scrape::{parse, scrape};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, eventually};

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Ingress and the workers of orders, in one process or two.
struct Running {
    processes: Vec<Process>,
    port: u16,
    db: Db,
    sandbox: Sandbox,
    log: PathBuf,
    _backend: Backend,
}

impl Running {
    async fn start(collector: &Collector, more: &[(&str, &str)]) -> Self {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let backend = Backend::create().await;
        let port = free_port();
        let mut settings = settings(&backend, port);
        let own = [
            ("STOREFRONT_API_URL", sandbox.storefront_url()),
            ("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN.to_owned()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.clone()),
            ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
            ("OTEL_METRIC_EXPORT_INTERVAL", "200".to_owned()),
        ];
        settings.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let more = more.iter();
        settings.extend(more.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let names: &[(&str, &[&str])] = if is_distributed() {
            &[("waybill-ingress", &[]), ("waybill-orders", &[])]
        } else {
            &[("waybill", &["serve"])]
        };
        let log = backend.folder().join("log");
        let start = |(name, arguments): &(&str, &[&str])| {
            Process::start_logged(name, arguments, &settings, &log)
        };
        let processes = names.iter().map(start).collect();
        is_ready(port).await;
        Running {
            processes,
            port,
            db: Db::open(&backend.database_url, 2).await.unwrap(),
            sandbox,
            log,
            _backend: backend,
        }
    }

    async fn post(&self, delivery: &Delivery) -> reqwest::Response {
        let url = format!("http://127.0.0.1:{}{}", self.port, delivery.path);
        let mut request = reqwest::Client::new().post(url).body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(*name, value.as_slice());
        }
        request.send().await.unwrap()
    }

    async fn done(&self, count: i64) {
        eventually("the jobs are done", async || {
            jobs::count(&self.db, Queue::Orders, State::Done)
                .await
                .unwrap()
                == count
        })
        .await;
    }

    async fn stop(mut self) {
        self.db.close().await;
        for process in &mut self.processes {
            assert!(process.terminate().await.success());
        }
        self.sandbox.stop().await;
    }
}

fn of_kind(spans: &[Span], kind: SpanKind) -> Vec<&Span> {
    let is_it = |span: &&Span| span.kind == i32::from(kind);
    spans.iter().filter(is_it).collect()
}

fn value(span: &Span, name: &str) -> String {
    let attributes = attributes(&span.attributes);
    attributes.get(name).cloned().unwrap_or_default()
}

/// The only span of those that has this value.
fn only<'a>(spans: &[&'a Span], name: &str, expected: &str) -> &'a Span {
    let all: Vec<_> = spans
        .iter()
        .filter(|span| value(span, name) == expected)
        .collect();
    assert_eq!(all.len(), 1, "{name}={expected}: {spans:#?}");
    all[0]
}

/// The spans of one order that was paid and is to be fulfilled: all that there must be.
fn is_whole(spans: &[Span]) -> bool {
    let count = |kind| of_kind(spans, kind).len();
    let published = of_kind(spans, SpanKind::Producer);
    let has = |name: &str, expected: &str| published.iter().any(|it| value(it, name) == expected);
    count(SpanKind::Server) >= 1
        && count(SpanKind::Consumer) >= 2
        && count(SpanKind::Client) >= 1
        && has("waybill.kind", "orders/paid")
        && has("waybill.kind", "fulfillments/request")
        && has("waybill.event", "order.created")
        && has("waybill.event", "order.paid")
}

/// Every span has a parent that was sent, but the one of the request, whose parent is the client's
/// span or nobody's.
fn check_parents(spans: &[Span], of_request: &[u8]) {
    let ids: BTreeSet<&[u8]> = spans.iter().map(|span| &*span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "each span has an id of its own");
    let traces: BTreeSet<&[u8]> = spans.iter().map(|span| &*span.trace_id).collect();
    assert_eq!(traces.len(), 1, "{spans:#?}");
    for span in spans {
        if span.kind == i32::from(SpanKind::Server) {
            assert_eq!(span.parent_span_id, of_request, "{span:#?}");
        } else {
            assert!(ids.contains(&*span.parent_span_id), "{span:#?}");
        }
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
}

/// Checks the spans of one paid order, each below the one from which it follows.
fn check_order(spans: &[Span], of_request: &[u8]) {
    check_parents(spans, of_request);
    let servers = of_kind(spans, SpanKind::Server);
    let [server] = servers.as_slice() else {
        panic!("{servers:#?}");
    };
    assert_eq!(server.name, "POST /api/webhooks/storefront");
    assert_eq!(value(server, "http.response.status_code"), "200");
    let produced = of_kind(spans, SpanKind::Producer);
    let consumed = of_kind(spans, SpanKind::Consumer);
    let message = only(&produced, "waybill.kind", "orders/paid");
    assert_eq!(message.parent_span_id, server.span_id);
    let run = only(&consumed, "waybill.kind", "orders/paid");
    assert_eq!(run.parent_span_id, server.span_id);
    assert_eq!(run.links.len(), 1);
    assert_eq!(run.links[0].span_id, message.span_id);
    assert_eq!(value(run, "waybill.outcome"), "done");
    let further = only(&produced, "waybill.kind", "fulfillments/request");
    assert_eq!(further.parent_span_id, run.span_id);
    let call = only(&consumed, "waybill.kind", "fulfillments/request");
    assert_eq!(call.parent_span_id, run.span_id);
    let clients = of_kind(spans, SpanKind::Client);
    for request in &clients {
        assert_eq!(request.parent_span_id, call.span_id);
        assert_eq!(value(request, "waybill.provider"), "storefront");
    }
    assert!(
        clients
            .iter()
            .any(|it| value(it, "http.response.status_code") == "201")
    );
    for kind in ["order.created", "order.paid"] {
        let event = only(&produced, "waybill.event", kind);
        assert_eq!(event.parent_span_id, run.span_id, "{kind}");
    }
    let system = if is_distributed() {
        "rabbitmq"
    } else {
        "waybill"
    };
    for span in produced.iter().chain(&consumed) {
        assert_eq!(value(span, "messaging.system"), system);
        assert!(!value(span, "messaging.operation.type").is_empty());
        let destination = value(span, "messaging.destination.name");
        let operation = value(span, "messaging.operation.name");
        assert_eq!(span.name, format!("{operation} {destination}"));
    }
}

#[tokio::test]
async fn the_trace_of_an_order_has_every_span_with_its_parent_up_to_the_event() {
    let collector = Collector::start(Answers::Takes).await;
    let running = Running::start(&collector, &[("OTEL_SERVICE_NAME", "shop")]).await;
    let answer = running.post(&order("orders/paid", 7)).await;
    assert_eq!(answer.status(), 200);
    let answered = answer.headers()["traceparent"].to_str().unwrap().to_owned();
    assert!(answered.ends_with("-01"), "{answered}");
    running.done(2).await;
    eventually("every span has come", async || is_whole(&collector.spans())).await;
    // What the provider received is the span of its request.
    let received = running.sandbox.storefront().fault_injector.traceparents();
    running.stop().await;
    let spans = collector.spans();
    check_order(&spans, &[]);
    let server = of_kind(&spans, SpanKind::Server)[0];
    let context = |span: &Span| {
        let (trace, span) = (hex::encode(&span.trace_id), hex::encode(&span.span_id));
        format!("00-{trace}-{span}-01")
    };
    assert_eq!(context(server), answered, "the answer names its span");
    let clients = of_kind(&spans, SpanKind::Client);
    let sent: BTreeSet<String> = clients.into_iter().map(context).collect();
    assert_eq!(received, sent);
    for resource in collector.resources() {
        let resource = attributes(&resource.attributes);
        assert_eq!(resource["service.name"], "shop");
        assert!(resource.contains_key("service.instance.id"));
        assert!(resource.contains_key("service.version"));
    }
}

#[tokio::test]
async fn a_clients_trace_goes_on_below_its_span_unless_it_is_not_sampled() {
    let collector = Collector::start(Answers::LaterOnce).await;
    let metrics = ("OTEL_METRICS_EXPORTER", "none");
    let running = Running::start(&collector, &[metrics]).await;
    let unsampled = GIVEN.replace("-01", "-00");
    let silent = order("orders/paid", 8).header("traceparent", unsampled);
    let answer = running.post(&silent).await;
    let answered = answer.headers()["traceparent"].to_str().unwrap().to_owned();
    assert!(answered.ends_with("-00"), "{answered}");
    running.done(2).await;
    let sampled = order("orders/paid", 7).header("traceparent", GIVEN);
    assert_eq!(running.post(&sampled).await.status(), 200);
    running.done(4).await;
    eventually("every span has come", async || is_whole(&collector.spans())).await;
    running.stop().await;
    // The request that was answered with 503 came again.
    let spans = collector.spans();
    let spans: BTreeMap<Vec<u8>, Span> = spans
        .into_iter()
        .map(|it| (it.span_id.clone(), it))
        .collect();
    let spans: Vec<Span> = spans.into_values().collect();
    check_order(&spans, &hex::decode("b7ad6b7169203331").unwrap());
    assert_eq!(
        hex::encode(&spans[0].trace_id),
        "0af7651916cd43dd8448eb211c80319c"
    );
}

#[tokio::test]
async fn a_message_of_many_jobs_has_links_to_all_and_each_job_one_to_the_message() {
    let collector = Collector::start(Answers::Takes).await;
    let running = Running::start(&collector, &[]).await;
    let deliveries: Vec<_> = (1..=40).map(|seed| order("orders/create", seed)).collect();
    let posted = deliveries.iter().map(|it| running.post(it));
    for answer in futures_util::future::join_all(posted).await {
        assert_eq!(answer.status(), 200);
    }
    running.done(40).await;
    eventually("every run has come", async || {
        of_kind(&collector.spans(), SpanKind::Consumer).len() == 40
    })
    .await;
    running.stop().await;
    let spans = collector.spans();
    let servers: BTreeMap<&[u8], &Span> = of_kind(&spans, SpanKind::Server)
        .into_iter()
        .map(|span| (&*span.span_id, span))
        .collect();
    let produced = of_kind(&spans, SpanKind::Producer);
    let messages: BTreeMap<&[u8], &Span> = produced
        .into_iter()
        .filter(|span| !value(span, "waybill.kind").is_empty())
        .map(|span| (&*span.span_id, span))
        .collect();
    let mut of_message: BTreeMap<&[u8], usize> = BTreeMap::new();
    for run in of_kind(&spans, SpanKind::Consumer) {
        assert_eq!(
            servers[&*run.parent_span_id].trace_id, run.trace_id,
            "each run is below its own request"
        );
        let [link] = run.links.as_slice() else {
            panic!("{run:#?}");
        };
        *of_message.entry(&*link.span_id).or_default() += 1;
    }
    for (id, jobs) in &of_message {
        let message = messages[id];
        let count = value(message, "messaging.batch.message_count");
        assert_eq!(count, jobs.to_string());
        assert_eq!(message.links.len(), jobs - 1);
        for link in &message.links {
            assert_eq!(servers[&*link.span_id].trace_id, link.trace_id);
        }
    }
    let largest = of_message.values().max();
    assert!(largest > Some(&1), "{of_message:?}");
}

#[tokio::test]
async fn a_process_that_is_to_send_nothing_sends_nothing() {
    let collector = Collector::start(Answers::Takes).await;
    let nothing: [&[(&str, &str)]; 2] = [
        &[("OTEL_SDK_DISABLED", "true")],
        &[
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ],
    ];
    for more in nothing {
        let running = Running::start(&collector, more).await;
        let answer = running.post(&order("orders/paid", 7)).await;
        let answered = answer.headers()["traceparent"].to_str().unwrap().to_owned();
        assert!(answered.ends_with("-00"), "{answered}");
        running.done(2).await;
        running.stop().await;
        assert_eq!(collector.requests(), 0);
    }
}

#[tokio::test]
async fn a_collector_that_never_answers_delays_neither_work_nor_the_end() {
    let collector = Collector::start(Answers::Hangs).await;
    let small = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "1000"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20cnry-key",
        ),
    ];
    let running = Running::start(&collector, &small).await;
    let begun = Instant::now();
    for seed in 1..=20 {
        let answer = running.post(&order("orders/paid", seed)).await;
        assert_eq!(answer.status(), 200);
    }
    running.done(40).await;
    assert!(begun.elapsed() < Duration::from_secs(20));
    eventually(
        "it is said that the collector does not answer",
        async || {
            let log = std::fs::read_to_string(&running.log).unwrap();
            log.contains("the collector did not take what was recorded")
        },
    )
    .await;
    let log = running.log.clone();
    let ending = Instant::now();
    // It ends in order, and so before the deadline of the shutdown.
    let processes = u32::try_from(running.processes.len()).unwrap();
    let lines = std::fs::read_to_string(&log).unwrap();
    running.stop().await;
    assert!(ending.elapsed() < Duration::from_secs(6) * processes);
    assert!(!lines.contains("cnry-key"), "{lines}");
    let said = lines.matches("did not take what was recorded").count();
    assert!(said <= 2 * 2, "once a minute for each kind: {lines}");
    assert_eq!(
        collector.headers("authorization")[0].as_deref(),
        Some("Bearer cnry-key")
    );
}

#[tokio::test]
async fn neither_people_nor_secrets_nor_what_a_sender_chooses_are_in_what_is_sent() {
    let collector = Collector::start(Answers::Takes).await;
    let running = Running::start(&collector, &[]).await;
    let mut body: serde_json::Value =
        serde_json::from_slice(&order("orders/paid", 7).body).unwrap();
    body["email"] = canary::email(1).into();
    body["phone"] = canary::phone(1).into();
    body["note"] = canary::word(1, "note").into();
    body["customer"] = serde_json::json!({
        "id": 7, "email": canary::email(1), "phone": canary::phone(1),
        "first_name": canary::word(1, "first"), "default_address": canary::address(1, "home"),
    });
    body["billing_address"] = canary::address(1, "billing");
    body["shipping_address"] = canary::address(1, "shipping");
    let delivery = storefront("orders/paid", body.to_string())
        .header("X-Request-Id", "cnry-request-id")
        .header("traceparent", GIVEN)
        .header("tracestate", "cnry=cnry-state")
        .header("User-Agent", "cnry-agent");
    assert_eq!(running.post(&delivery).await.status(), 200);
    running.done(2).await;
    let url = format!("http://127.0.0.1:{}", running.port);
    let client = reqwest::Client::new();
    for path in ["/cnry-path?token=cnry-query", "/orders/cnry-order/track"] {
        let asked = client.get(format!("{url}{path}"));
        asked.bearer_auth("cnry-token").send().await.unwrap();
    }
    let method = reqwest::Method::from_bytes(b"CNRY").unwrap();
    client.request(method, &url).send().await.unwrap();
    let forged = order("orders/paid", 8).header("x-storefront-hmac-sha256", "cnry-signature");
    running.post(&forged).await;
    eventually("every span has come", async || {
        let spans = collector.spans();
        is_whole(&spans) && of_kind(&spans, SpanKind::Server).len() >= 5
    })
    .await;
    eventually("metrics have come", async || {
        !collector.metrics().is_empty()
    })
    .await;
    running.stop().await;
    let sent = String::from_utf8_lossy(&collector.bytes()).to_lowercase();
    for secret in ["cnry", STOREFRONT_SECRET, PAYMENT_SECRET, STOREFRONT_TOKEN] {
        assert!(!sent.contains(&secret.to_lowercase()), "{secret}");
    }
    assert!(!sent.contains(&canary::phone(1)));
    let spans = collector.spans();
    let names: BTreeSet<&str> = of_kind(&spans, SpanKind::Server)
        .into_iter()
        .map(|span| &*span.name)
        .collect();
    let expected = [
        "GET",
        "GET /orders/{order_id}/track",
        "HTTP /",
        "POST /api/webhooks/storefront",
    ];
    assert_eq!(names, BTreeSet::from(expected));
}

#[tokio::test]
async fn the_metrics_that_are_sent_are_those_that_are_scraped() {
    let collector = Collector::start(Answers::Takes).await;
    let running = Running::start(&collector, &[("OTEL_TRACES_EXPORTER", "none")]).await;
    assert_eq!(running.post(&order("orders/create", 7)).await.status(), 200);
    running.done(1).await;
    let accepted = |name: &str| {
        let metrics = collector.metrics();
        metrics.into_iter().find(|metric| metric.name == name)
    };
    eventually("the delivery was counted", async || {
        accepted("waybill_intake_commit_seconds").is_some()
    })
    .await;
    if !is_distributed() {
        let scraped = parse(&scrape(running.port).await);
        eventually("the same metrics were sent", async || {
            let sent = collector.metrics();
            let sent: BTreeSet<&str> = sent.iter().map(|it| it.name.as_str()).collect();
            scraped.keys().all(|name| sent.contains(name.as_str()))
        })
        .await;
    }
    assert!(collector.spans().is_empty());
    running.stop().await;
}
