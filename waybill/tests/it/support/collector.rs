//! A collector that takes spans and metrics over OTLP/HTTP and decodes the protocol.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Clone)]
struct Received {
    head: String,
    body: Vec<u8>,
}

/// What it does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Takes,
    /// It reads requests and never answers.
    Hangs,
    /// The first request is answered with 503, and all others are taken.
    LaterOnce,
}

#[derive(Clone)]
pub struct Collector {
    pub url: String,
    answers: Answers,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Collector {
    pub async fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = Collector {
            url: format!("http://{}", listener.local_addr().unwrap()),
            answers,
            received: Arc::default(),
        };
        let serving = collector.clone();
        platform::task::spawn("collector", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                platform::task::spawn("connection", async move { serving.serve(stream).await });
            }
        });
        collector
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut read = Vec::new();
        loop {
            let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") else {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
                continue;
            };
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let length = header(&head, "content-length").expect("a length");
            let length: usize = length.parse().unwrap();
            while read.len() < end + 4 + length {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let body = read[end + 4..end + 4 + length].to_vec();
            read.drain(..end + 4 + length);
            let nth = {
                let mut received = self.received.lock().unwrap();
                received.push(Received { head, body });
                received.len()
            };
            let status = match self.answers {
                Answers::Hangs => continue,
                Answers::LaterOnce if nth == 1 => "503 Later",
                Answers::Takes | Answers::LaterOnce => "200 OK",
            };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn of(&self, path: &str) -> Vec<Received> {
        let line = format!("POST {path} ");
        let received = self.received.lock().unwrap();
        let of_path = received.iter().filter(|it| it.head.starts_with(&line));
        of_path.cloned().collect()
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// The values of a header of all requests.
    pub fn headers(&self, name: &str) -> Vec<Option<String>> {
        let received = self.received.lock().unwrap();
        received.iter().map(|it| header(&it.head, name)).collect()
    }

    /// The bytes of all bodies, one after the other.
    pub fn bytes(&self) -> Vec<u8> {
        let received = self.received.lock().unwrap();
        received.iter().flat_map(|it| it.body.clone()).collect()
    }

    fn traces(&self) -> Vec<ExportTraceServiceRequest> {
        let read = |it: Received| ExportTraceServiceRequest::decode(&*it.body).unwrap();
        self.of("/v1/traces").into_iter().map(read).collect()
    }

    /// All spans that have come.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.traces().into_iter().flat_map(|it| it.resource_spans);
        let scopes = resources.flat_map(|it| it.scope_spans);
        scopes.flat_map(|it| it.spans).collect()
    }

    /// The processes whose spans have come.
    pub fn resources(&self) -> Vec<Resource> {
        let resources = self.traces().into_iter().flat_map(|it| it.resource_spans);
        resources.filter_map(|it| it.resource).collect()
    }

    /// The metrics of the last request that brought some.
    pub fn metrics(&self) -> Vec<Metric> {
        let Some(last) = self.of("/v1/metrics").pop() else {
            return Vec::new();
        };
        let request = ExportMetricsServiceRequest::decode(&*last.body).unwrap();
        let scopes = request.resource_metrics.into_iter();
        let scopes = scopes.flat_map(|it| it.scope_metrics);
        scopes.flat_map(|it| it.metrics).collect()
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(it, _)| it.eq_ignore_ascii_case(name))?;
    Some(value.to_owned())
}

/// Attributes as text.
pub fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| {
        let value = match pair.value.as_ref().and_then(|it| it.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::IntValue(number)) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (pair.key.clone(), value)
    };
    pairs.iter().map(text).collect()
}
