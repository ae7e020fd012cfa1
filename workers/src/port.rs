//! The port of a worker process, if `WORKER_LISTEN_ADDR` names one. It serves `/livez`, `/readyz`
//! and `/metrics`, until the last message is done, so that monitoring can watch the process stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bus::Bus;
use platform::task;
use process::journal::Journal;
use serde_json::json;
use server::probes;
use store::sql::Db;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::heartbeat::Heartbeat;

/// How long a request that is under way may take after the worker has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// How many connections it serves at a time: enough for monitoring and operators.
const CONNECTIONS: usize = 256;

struct Watched {
    db: Db,
    bus: Bus,
    journal: Journal,
    heartbeat: Arc<Heartbeat>,
    stopping: CancellationToken,
}

/// The port of a worker that listens on it.
pub struct Port {
    task: JoinHandle<()>,
    ended: CancellationToken,
}

impl Port {
    /// Listens on `address`. `stopping` is the token with which the worker is asked to stop.
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
        // If port 0 was given, the system has chosen a free port.
        let address = listener.local_addr()?;
        tracing::info!(%address, queue = %worker.queue, "answering health checks");
        let watched = Watched {
            db: worker.parts.db.clone(),
            bus: worker.parts.bus.clone(),
            journal: worker.parts.journal.clone(),
            heartbeat: worker.heartbeat.clone(),
            stopping,
        };
        let ended = CancellationToken::new();
        let limits = server::Limits {
            connections: CONNECTIONS,
            trusted_proxies: Vec::new(),
            keep_alive: worker.parts.config.keep_alive,
            is_kept_for: |_| true,
        };
        let serving = server::serve(listener, router(watched), limits, ended.clone(), DRAIN);
        let task = task::spawn("port", async move {
            if let Err(error) = serving.await {
                tracing::error!(error = format!("{error:#}"), "the worker's port has ended");
            }
        });
        Ok(Port { task, ended })
    }

    /// Closes the port after the worker has ended.
    pub async fn close(self) {
        self.ended.cancel();
        let _ = self.task.await;
    }
}

fn router(watched: Watched) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route(
            "/metrics",
            get(async |headers: HeaderMap| probes::metrics(&headers)),
        )
        .fallback(async || refused(StatusCode::NOT_FOUND, "Not found"))
        .method_not_allowed_fallback(async || {
            refused(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
        })
        .with_state(Arc::new(watched))
}

fn refused(code: StatusCode, detail: &str) -> Response {
    (code, Json(json!({ "detail": detail }))).into_response()
}

/// Answers 503 if only a restart helps, because a task of the loop has ended or the sweep stands
/// still.
async fn live(State(watched): State<Arc<Watched>>) -> Response {
    if watched.heartbeat.is_alive() || watched.stopping.is_cancelled() {
        return probes::live();
    }
    let body = json!({ "status": "stuck" });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// Answers 200 while the worker can process jobs. A worker is never `degraded`, because without
/// the broker it gets no messages.
async fn ready(State(watched): State<Arc<Watched>>) -> Response {
    let found = probes::look(&watched.db, &watched.bus, &watched.journal).await;
    let alive = watched.heartbeat.is_alive();
    let (code, status) = if watched.stopping.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if found.can_be_worked_on() && found.bus && alive {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    probes::ready(code, status, found, &[("loop", alive)])
}
