//! Accepts and ends connections: their number, slow headers, idle sockets, clients that do not
//! read, and shutdown. It also has the answers for load balancers and monitoring that every
//! listening process gives (`probes`), knows a client by its address, and has one look at arriving
//! deliveries for all who watch them (`deliveries`).

pub mod client_address;
mod connections;
pub mod deliveries;
mod exchange;
mod forwarded;
pub mod guesses;
pub mod html;
pub mod probes;
mod socket;
pub mod sse;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::connections::{Connections, Place};
use crate::exchange::{Exchange, keeps, refuse_host};
use crate::socket::Socket;

pub use crate::connections::{Limits, RESERVE, SHARE, network, raise_file_limit};
pub use crate::exchange::HEADER_DEADLINE;
pub use crate::socket::UNREAD_LIMIT;

/// The longest time for which an idle connection may be kept.
pub const LONGEST_KEEP_ALIVE: Duration = Duration::from_hours(1);

/// The address of the client, in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Is in the extensions of a request that must be refused unread, because its client has its share of the requests under
/// way, or all others have theirs.
#[derive(Clone, Copy, Debug)]
pub struct Crowded;

/// When somebody who was refused so may come again.
pub const CROWDED_PAUSE: Duration = Duration::from_secs(1);

/// The most bytes of a request's headers, and of one read or write. One connection may take twice
/// this much memory.
const LARGEST_HEAD: usize = 64 * 1024;

/// How many connections may wait to be accepted. With the usual hundred, a burst of strangers
/// fills the queue, and all other clients wait for a second or more until the kernel tries again.
const BACKLOG: u32 = 4096;

/// Opens a listening socket for [`serve`].
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `shutdown`, and then waits up to `drain` for the requests that are under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
    drain: Duration,
) -> Result<()> {
    let connections = Arc::new(Connections::new(limits));
    connections.refused.report(&shutdown, |full, connections| {
        let reason = full.label();
        tracing::warn!(
            reason,
            connections,
            "more connections or requests were refused"
        );
    });
    let tasks = TaskTracker::new();
    let overdue = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let exchange = Arc::new(Exchange::new(shutdown.clone()));
                let place = match connections.admit(peer.ip(), exchange.clone()) {
                    Ok(place) => place,
                    Err(full) => {
                        if connections.refused.is_first(full) {
                            let (client, reason) = (peer.ip(), full.label());
                            tracing::warn!(%client, reason, "a connection was refused");
                        }
                        continue;
                    }
                };
                let (router, shutdown) = (router.clone(), shutdown.clone());
                let at = (connections.clone(), place, exchange);
                let connection = serve_connection(stream, peer, at, router, shutdown);
                let overdue = overdue.clone();
                let connection = async move {
                    tokio::select! {
                        () = connection => {}
                        () = overdue.cancelled() => {}
                    }
                };
                platform::task::spawn("connection", tasks.track_future(connection));
            }
            Err(error) => {
                // Most likely the process has no file descriptors left, so other connections must
                // end first.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    drop(router);
    tasks.close();
    if tokio::time::timeout(drain, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "connections did not end in time");
        overdue.cancel();
        tasks.wait().await;
    }
    Ok(())
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    (connections, place, exchange): (Arc<Connections>, Place, Arc<Exchange>),
    router: Router,
    shutdown: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let ended = place.ended.clone();
    let socket = Socket::new(stream, exchange.clone());
    let service = hyper::service::service_fn(move |request| {
        let keep_alive = place.keep_alive();
        answer(
            router.clone(),
            request,
            Peer(peer),
            (connections.clone(), exchange.clone()),
            keep_alive,
        )
    });
    // The socket limits how long a connection waits, so this limit is never reached. Without it
    // `hyper` would not read from an idle connection, and the socket's timer would not run.
    let never = LONGEST_KEEP_ALIVE + HEADER_DEADLINE * 2;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(never)
        // A client that closes its sending side after the request, or in the middle of it, still
        // gets its answer.
        .half_close(true)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ended.cancelled() => return,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

async fn answer(
    router: Router,
    request: hyper::Request<Incoming>,
    peer: Peer,
    (connections, exchange): (Arc<Connections>, Arc<Exchange>),
    keep_alive: Duration,
) -> Result<Response, Infallible> {
    let mut request = request.map(|body| exchange.begin(body));
    let client_keeps = keeps(request.version(), request.headers());
    if let Some(refusal) = refuse_host(request.version(), request.headers()) {
        return Ok(refusal);
    }
    request.extensions_mut().insert(peer);
    let client = client_address::resolve(peer.0.ip(), request.headers(), &connections.trusted);
    let under_way = match connections.begin(client, request.uri().path()) {
        Ok(under_way) => Some(under_way),
        Err(full) => {
            if connections.refused.is_first(full) {
                let reason = full.label();
                tracing::warn!(%client, reason, "a request was refused");
            }
            request.extensions_mut().insert(Crowded);
            None
        }
    };
    let response = router.oneshot(request).await?;
    Ok(exchange.finish(response, client_keeps, keep_alive, under_way))
}
