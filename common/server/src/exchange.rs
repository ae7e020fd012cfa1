//! One request and its answer at a time on one connection: the checks that HTTP/1.1 requires
//! before a request is handled, and whether the request's body was read to its end. If it was
//! not, no further request can follow on the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// What the parts of a connection share about its present request.
pub struct Exchange {
    /// True while bytes of the request's body may still come.
    unread: AtomicBool,
    stopping: CancellationToken,
}

impl Exchange {
    pub fn new(stopping: CancellationToken) -> Self {
        Exchange {
            unread: AtomicBool::new(false),
            stopping,
        }
    }

    pub fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// The body of the next request, which records when all of it was read.
    pub fn begin(self: &Arc<Self>, body: Incoming) -> Body {
        let is_empty = hyper::body::Body::is_end_stream(&body);
        self.unread.store(!is_empty, Ordering::Relaxed);
        if is_empty {
            return Body::empty();
        }
        Body::new(Watched {
            body,
            exchange: self.clone(),
        })
    }

    /// Adds `Connection: close` to the answer if it is the last one of the connection.
    pub fn finish(&self, response: &mut Response) {
        if self.is_unread() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
    }
}

/// The body of a request, which records when all of it was read.
struct Watched {
    body: Incoming,
    exchange: Arc<Exchange>,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        if frame.is_none() || this.body.is_end_stream() {
            this.exchange.unread.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answer to a request that a proxy in front of us could take for another host (RFC 9112,
/// section 3.2): one without a `Host` header in HTTP/1.1, with several, or with one that is no
/// host. None for a request that passes.
pub fn refuse_host(version: Version, headers: &HeaderMap) -> Option<Response> {
    let mut hosts = headers.get_all(HOST).iter();
    let is_sound = match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => is_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    if is_sound {
        return None;
    }
    let detail = "A request names one host, in one Host header";
    let close = [(CONNECTION, HeaderValue::from_static("close"))];
    Some((StatusCode::BAD_REQUEST, close, Json(Refusal { detail })).into_response())
}

#[derive(Serialize)]
struct Refusal {
    detail: &'static str,
}

/// Whether this is a name or an address, with or without a port (RFC 3986, section 3.2.2). It may
/// be empty.
fn is_host(host: &[u8]) -> bool {
    host.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte))
}
