//! The port of a worker process, when `WORKER_LISTEN_ADDR` names one: `/livez`, `/readyz` and
//! `/metrics`. It answers until the last message is worked on, so that the end can be watched.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bus::Bus;
use platform::task;
use serde_json::json;
use server::probes;
use store::sql::Db;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::heartbeat::Heartbeat;

/// How long a scrape under way may take once the worker has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// Enough for whoever looks after it.
const CONNECTIONS: usize = 256;

struct Watched {
    db: Db,
    bus: Bus,
    heartbeat: Arc<Heartbeat>,
    stopping: CancellationToken,
}

/// A worker's endpoint that listens.
pub struct Endpoint {
    task: JoinHandle<()>,
    ended: CancellationToken,
}

impl Endpoint {
    /// Listens on `address`; `stopping` is what asks the worker to end.
    pub async fn open(
        worker: &Worker,
        address: SocketAddr,
        stopping: CancellationToken,
    ) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "WORKER_LISTEN_ADDR: cannot listen on {address}; each worker on a machine needs a \
                 port of its own, or port 0 to be given one"
            )
        })?;
        // Port 0 has become one that is free.
        let address = listener.local_addr()?;
        tracing::info!(%address, queue = %worker.queue, "answering health checks");
        let watched = Watched {
            db: worker.parts.db.clone(),
            bus: worker.parts.bus.clone(),
            heartbeat: worker.heartbeat.clone(),
            stopping,
        };
        let ended = CancellationToken::new();
        let limits = server::Limits {
            connections: CONNECTIONS,
            trusted_proxies: Vec::new(),
        };
        let serving = server::serve(listener, router(watched), limits, ended.clone(), DRAIN);
        let task = task::spawn("endpoint", async move {
            if let Err(error) = serving.await {
                tracing::error!(error = format!("{error:#}"), "the endpoint has ended");
            }
        });
        Ok(Endpoint { task, ended })
    }

    /// Ends it, once the worker has ended.
    pub async fn close(self) {
        self.ended.cancel();
        let _ = self.task.await;
    }
}

fn router(watched: Watched) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(async || probes::metrics()))
        .fallback(async || refused(StatusCode::NOT_FOUND, "Not found"))
        .method_not_allowed_fallback(async || {
            refused(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
        })
        .with_state(Arc::new(watched))
}

fn refused(code: StatusCode, detail: &str) -> Response {
    (code, Json(json!({ "detail": detail }))).into_response()
}

/// 503 when only a start helps: the loop has ended or stands still.
async fn live(State(watched): State<Arc<Watched>>) -> Response {
    if watched.heartbeat.is_alive() || watched.stopping.is_cancelled() {
        return probes::live();
    }
    let body = json!({ "status": "stuck" });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// 200 while jobs are worked on. Without the broker no message comes, so there is no `degraded`.
async fn ready(State(watched): State<Arc<Watched>>) -> Response {
    let found = probes::look(&watched.db, &watched.bus).await;
    let alive = watched.heartbeat.is_alive();
    let (code, status) = if watched.stopping.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if found.database && found.bus && alive {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    probes::ready(code, status, found, &[("loop", alive)])
}
