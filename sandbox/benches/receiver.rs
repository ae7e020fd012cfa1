//! Endpoints that accept every webhook and count: the other side of `scripts/bench endpoints`.
//!
//! `POST /<any name>` is an endpoint. `GET /result` answers a line for each: its name, how many
//! webhooks it got, of how many events, how many came out of order within their object, and how old
//! half and 99 of 100 events were when they came, in milliseconds. `POST /reset` forgets all of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use domain::time::Timestamp;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use platform::clock::Clock;
use platform::task;
use serde::Deserialize;
use tokio::net::TcpListener;
use uuid::Uuid;

#[derive(Deserialize)]
struct Event {
    id: Uuid,
    object_id: String,
    created_at: Timestamp,
}

#[derive(Default)]
struct Endpoint {
    webhooks: usize,
    events: HashSet<Uuid>,
    last: HashMap<String, Uuid>,
    out_of_order: usize,
    ages_ms: Vec<i64>,
}

impl Endpoint {
    fn take(&mut self, event: Event, now: Timestamp) {
        self.webhooks += 1;
        self.ages_ms.push(now.0 - event.created_at.0);
        if !self.events.insert(event.id) {
            return;
        }
        let last = self.last.insert(event.object_id, event.id);
        self.out_of_order += usize::from(last.is_some_and(|last| last > event.id));
    }

    fn age(&mut self, part: f64) -> i64 {
        self.ages_ms.sort_unstable();
        let count = self.ages_ms.len();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "it is a place in a list"
        )]
        let place = (count as f64 * part) as usize;
        let place = place.min(count.saturating_sub(1));
        self.ages_ms.get(place).copied().unwrap_or_default()
    }
}

#[derive(Clone)]
struct Counts {
    clock: Clock,
    endpoints: Arc<Mutex<BTreeMap<String, Endpoint>>>,
}

impl Counts {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Endpoint>) -> T) -> T {
        act(&mut self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

async fn receive(
    State(counts): State<Counts>,
    Path(name): Path<String>,
    body: Bytes,
) -> StatusCode {
    let Ok(event) = serde_json::from_slice(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let now = counts.clock.now();
    counts.with(|endpoints| endpoints.entry(name).or_default().take(event, now));
    StatusCode::NO_CONTENT
}

async fn result(State(counts): State<Counts>) -> String {
    counts.with(|endpoints| {
        let mut lines = String::new();
        for (name, endpoint) in endpoints {
            let (half, most) = (endpoint.age(0.5), endpoint.age(0.99));
            let (webhooks, events) = (endpoint.webhooks, endpoint.events.len());
            let out_of_order = endpoint.out_of_order;
            let _ = writeln!(
                lines,
                "{name} {webhooks} {events} {out_of_order} {half} {most}"
            );
        }
        lines
    })
}

async fn reset(State(counts): State<Counts>) -> StatusCode {
    counts.with(BTreeMap::clear);
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `cargo bench` adds an argument of its own.
    let address = std::env::args().find_map(|argument| argument.parse::<SocketAddr>().ok());
    let address = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 18_090)));
    let counts = Counts {
        clock: Clock::system(),
        endpoints: Arc::default(),
    };
    let routes = Router::new()
        .route("/result", get(result))
        .route("/reset", post(reset))
        .route("/{name}", post(receive))
        .with_state(counts);
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(routes.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        task::spawn("connection", async move {
            // The worker may close it at any time.
            let _ = connection.await;
        });
    }
}
