//! Accepting connections and ending them: slow headers, idle sockets and shutdown. And what
//! every process that listens answers for load balancers and monitoring (`probes`).

pub mod probes;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// A connection that has not sent the headers of its next request by then is closed.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);

/// The other end of a request's connection, in its extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Bytes of a request's headers.
const LARGEST_HEAD: usize = 128 * 1024;

/// Serves until `shutdown`, then waits up to `drain` for the requests under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    drain: Duration,
) -> Result<()> {
    let connections = TaskTracker::new();
    let overdue = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = serve_connection(stream, peer, router.clone(), shutdown.clone());
                let overdue = overdue.clone();
                let connection = async move {
                    tokio::select! {
                        () = connection => {}
                        () = overdue.cancelled() => {}
                    }
                };
                common::task::spawn("connection", connections.track_future(connection));
            }
            Err(error) => {
                // Out of file descriptors, most likely: others must end first.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    drop(router);
    connections.close();
    if tokio::time::timeout(drain, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            "connections did not end in time"
        );
        overdue.cancel();
        connections.wait().await;
    }
    Ok(())
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    shutdown: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            let answered: Result<Response, Infallible> = router.oneshot(request).await;
            answered
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        // A sender that ends its side after the request, or in the middle of it, still gets
        // its answer.
        .half_close(true)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}
