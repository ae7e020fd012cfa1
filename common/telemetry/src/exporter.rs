//! Two tasks send what is recorded, each to its own address: one the spans, in batches, and one the
//! metrics, at intervals. A request that fails for now is repeated for a while; then its data is given
//! up. What goes wrong is logged once a minute at most, and never with a header.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use platform::backoff::Backoff;
use platform::clock::Clock;
use platform::task;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::span::{nanos, pair};
use crate::{EXPORTER, Options, Sampler, Target, measured};

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The time between two log lines about a collector that does not take what is sent.
const BETWEEN_LINES: Duration = Duration::from_mins(1);

/// Asks a task to send what it has; answered when it has done so.
type Flush = oneshot::Sender<()>;

/// Where spans wait, and the tasks that send.
pub struct Exporter {
    spans: Option<mpsc::Sender<Span>>,
    sampler: Sampler,
    /// How many spans found no place since the last batch.
    dropped: AtomicU64,
    flushes: Vec<mpsc::Sender<Flush>>,
}

impl Exporter {
    pub fn start(options: &Options) -> Self {
        let resource = resource(&options.resource);
        let mut exporter = Exporter {
            spans: None,
            sampler: options.sampler,
            dropped: AtomicU64::new(0),
            flushes: Vec::new(),
        };
        if let Some(target) = &options.traces {
            let (spans, waiting) = mpsc::channel(options.queue);
            let (flush, flushes) = mpsc::channel(1);
            let sender = Sender::new("spans", target, options.give_up, resource.clone());
            let sending = send_spans(waiting, flushes, sender, options.batch, options.delay);
            task::spawn("spans", sending);
            exporter.spans = Some(spans);
            exporter.flushes.push(flush);
        }
        if let Some(target) = &options.metrics {
            let (flush, flushes) = mpsc::channel(1);
            let sender = Sender::new("metrics", target, options.give_up, resource);
            task::spawn(
                "metrics for the collector",
                send_metrics(flushes, sender, options.interval),
            );
            exporter.flushes.push(flush);
        }
        exporter
    }

    pub fn takes_spans(&self) -> bool {
        self.spans.is_some()
    }

    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Takes a span that has ended, without waiting.
    pub fn take(&self, span: Span) {
        if let Some(spans) = &self.spans
            && spans.try_send(span).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The resource that the data is about: what the operator set, and what distinguishes this process from others of its name.
fn resource(given: &[(String, String)]) -> Resource {
    let instance = Clock::system().id().to_string();
    let own = [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance),
    ];
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    let own = own.into_iter().filter(|(name, _)| !is_given(name));
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let attributes = given.iter().cloned().chain(own);
    Resource {
        attributes: attributes
            .map(|(key, value)| pair(key, Value::StringValue(value)))
            .collect(),
        ..Resource::default()
    }
}

/// Sends what waits, at the end of the process, for at most `bound`.
pub async fn flush(bound: Duration) {
    let Some(exporter) = EXPORTER.get() else {
        return;
    };
    let all = async {
        let mut answers = Vec::new();
        for task in &exporter.flushes {
            let (flush, answer) = oneshot::channel();
            if task.send(flush).await.is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            let _ = answer.await;
        }
    };
    if timeout(bound, all).await.is_err() {
        tracing::warn!("the collector did not take the last spans and metrics in time");
    }
}

async fn send_spans(
    mut waiting: mpsc::Receiver<Span>,
    mut flushes: mpsc::Receiver<Flush>,
    mut sender: Sender,
    most: usize,
    delay: Duration,
) {
    let mut ticks = interval(delay);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut batch = Vec::with_capacity(most);
    loop {
        let room = most - batch.len();
        let flush = tokio::select! {
            taken = waiting.recv_many(&mut batch, room) => {
                if taken > 0 && batch.len() < most {
                    continue;
                }
                None
            }
            _ = ticks.tick() => None,
            Some(flush) = flushes.recv() => Some(flush),
        };
        sender.spans(&mut batch).await;
        ticks.reset();
        let Some(flush) = flush else { continue };
        while let Ok(span) = waiting.try_recv() {
            batch.push(span);
            if batch.len() == most {
                sender.spans(&mut batch).await;
            }
        }
        sender.spans(&mut batch).await;
        let _ = flush.send(());
    }
}

async fn send_metrics(mut flushes: mpsc::Receiver<Flush>, mut sender: Sender, pause: Duration) {
    let begun = nanos(Clock::real());
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, before anything is counted.
    ticks.tick().await;
    loop {
        let flush = tokio::select! {
            _ = ticks.tick() => None,
            Some(flush) = flushes.recv() => Some(flush),
        };
        sender.metrics(begun).await;
        if let Some(flush) = flush {
            let _ = flush.send(());
        }
    }
}

/// Sends one kind of data to one address.
struct Sender {
    what: &'static str,
    client: Client,
    url: String,
    headers: HeaderMap,
    give_up: Duration,
    resource: Resource,
    /// When a problem was logged last.
    logged: Option<Instant>,
    /// What could not be sent since then: spans, or requests with metrics.
    lost: u64,
}

impl Sender {
    fn new(what: &'static str, target: &Target, give_up: Duration, resource: Resource) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            if let (Ok(name), Ok(mut value)) = (
                HeaderName::try_from(name),
                HeaderValue::try_from(value.expose()),
            ) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        Sender {
            what,
            client: client(target),
            url: target.url.clone(),
            headers,
            give_up,
            resource,
            logged: None,
            lost: 0,
        }
    }

    /// Sends the spans of a batch, and empties it whatever becomes of them.
    async fn spans(&mut self, batch: &mut Vec<Span>) {
        if let Some(exporter) = EXPORTER.get() {
            let dropped = exporter.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                self.complain(dropped, "more spans ended than could be sent");
            }
        }
        if batch.is_empty() {
            return;
        }
        let lost = batch.len() as u64;
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans: std::mem::take(batch),
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        };
        self.send(request.encode_to_vec(), lost).await;
    }

    async fn metrics(&mut self, begun: u64) {
        let text = platform::metrics::render();
        let request = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics: measured::of(&text, begun, nanos(Clock::real())),
                    ..ScopeMetrics::default()
                }],
                ..ResourceMetrics::default()
            }],
        };
        self.send(request.encode_to_vec(), 1).await;
    }

    async fn send(&mut self, body: Vec<u8>, lost: u64) {
        let sent = match timeout(self.give_up, self.patiently(body)).await {
            Ok(sent) => sent,
            Err(_) => Err("it did not answer in time".to_owned()),
        };
        if let Err(why) = sent {
            self.complain(lost, &why);
        }
    }

    /// Sends a request, and again while the collector cannot be reached or says that it may take it
    /// later (OTLP, Retryable Response Codes).
    async fn patiently(&self, body: Vec<u8>) -> Result<(), String> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let request = self.client.post(&self.url).headers(self.headers.clone());
            let sent = request.body(body.clone()).send().await;
            let is_for_now = match &sent {
                Ok(answer) => is_for_now(answer.status()),
                Err(error) => error.is_connect(),
            };
            if !is_for_now {
                return match sent {
                    Ok(answer) if answer.status().is_success() => Ok(()),
                    Ok(answer) => Err(format!("it answered {}", answer.status().as_u16())),
                    Err(error) => Err(error.without_url().to_string()),
                };
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    fn complain(&mut self, lost: u64, error: &str) {
        self.lost += lost;
        if self.logged.is_some_and(|at| at.elapsed() < BETWEEN_LINES) {
            return;
        }
        let (what, lost) = (self.what, self.lost);
        tracing::warn!(
            what,
            lost,
            error,
            "the collector did not take what was recorded; work goes on without it"
        );
        self.logged = Some(Instant::now());
        self.lost = 0;
    }
}

/// The statuses after which a request is repeated.
fn is_for_now(status: StatusCode) -> bool {
    [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}

fn client(target: &Target) -> Client {
    let is_here = reqwest::Url::parse(&target.url)
        .is_ok_and(|url| url.host_str().is_some_and(domain::origins::is_this_machine));
    let mut client = Client::builder()
        .connect_timeout(CONNECT_DEADLINE.min(target.timeout))
        .timeout(target.timeout)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("waybill/", env!("CARGO_PKG_VERSION")));
    if is_here {
        // A proxy from the environment would search for this address on its own host.
        client = client.no_proxy();
    }
    client
        .build()
        .expect("a client without a proxy or certificate of its own can be built")
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "waybill".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
