//! One request and its answer at a time on one connection: the checks that HTTP/1.1 requires
//! before a request is handled, and whether the request's body was read to its end. If it was
//! not, no further request can follow on the connection. Between two requests it knows for what the
//! connection waits, and for how long it may.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use platform::lock::lock;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::connections::UnderWay;

/// The headers of a request must be there within this time after its first byte, or after the
/// connection was opened.
pub const HEADER_DEADLINE: Duration = Duration::from_secs(10);

/// What a connection waits for. The number of requests before it distinguishes two phases of the
/// same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The headers of a request.
    Head(u64),
    /// The body of a request, or its answer. These have limits of their own.
    Answer(u64),
    /// Another request, for as long as the answer before it has announced.
    Idle(u64, Duration),
}

impl Phase {
    /// How long it may last.
    pub fn limit(self) -> Option<Duration> {
        match self {
            Phase::Head(_) => Some(HEADER_DEADLINE),
            Phase::Answer(_) => None,
            Phase::Idle(_, limit) => Some(limit),
        }
    }

    fn requests(self) -> u64 {
        match self {
            Phase::Head(requests) | Phase::Answer(requests) | Phase::Idle(requests, _) => requests,
        }
    }
}

/// What the parts of a connection share about its present request.
pub struct Exchange {
    /// True while bytes of the request's body may still come.
    unread: AtomicBool,
    phase: Mutex<Phase>,
    stopping: CancellationToken,
}

impl Exchange {
    pub fn new(stopping: CancellationToken) -> Self {
        Exchange {
            unread: AtomicBool::new(false),
            phase: Mutex::new(Phase::Head(0)),
            stopping,
        }
    }

    pub fn phase(&self) -> Phase {
        *lock(&self.phase)
    }

    /// Records that bytes have come. On an idle connection they begin another request.
    pub fn came(&self) {
        let mut phase = lock(&self.phase);
        if let Phase::Idle(requests, _) = *phase {
            *phase = Phase::Head(requests);
        }
    }

    /// Whether the connection waits for the rest of a request.
    pub fn is_unfinished(&self) -> bool {
        match self.phase() {
            Phase::Head(_) => true,
            Phase::Answer(_) => self.is_unread(),
            Phase::Idle(..) => false,
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.phase(), Phase::Idle(..))
    }

    pub fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// The body of the next request, which records when all of it was read.
    pub fn begin(self: &Arc<Self>, body: Incoming) -> Body {
        let mut phase = lock(&self.phase);
        *phase = Phase::Answer(phase.requests() + 1);
        drop(phase);
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

    /// Adds `Connection: close` to the answer if it is the last one of the connection, or else, if
    /// the client keeps connections, for how long this one is kept.
    pub fn finish(
        self: &Arc<Self>,
        mut response: Response,
        client_keeps: bool,
        keep_alive: Duration,
        under_way: Option<UnderWay>,
    ) -> Response {
        if self.is_unread() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        } else if client_keeps
            && !self.is_stopping()
            && let Ok(kept) = HeaderValue::try_from(format!("timeout={}", keep_alive.as_secs()))
        {
            response.headers_mut().insert("keep-alive", kept);
        }
        let exchange = self.clone();
        response.map(|body| {
            Body::new(Answered {
                body,
                exchange,
                keep_alive,
                _under_way: under_way,
            })
        })
    }
}

/// Whether the client keeps the connection after this request.
pub fn keeps(version: Version, headers: &HeaderMap) -> bool {
    let mut named = headers.get_all(CONNECTION).iter();
    let closes = |value: &HeaderValue| {
        let mut words = value.as_bytes().split(|byte| *byte == b',');
        words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"))
    };
    version >= Version::HTTP_11 && !named.any(closes)
}

/// The body of an answer. When it ends, the connection is idle.
struct Answered {
    body: Body,
    exchange: Arc<Exchange>,
    keep_alive: Duration,
    _under_way: Option<UnderWay>,
}

impl hyper::body::Body for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let mut phase = lock(&self.exchange.phase);
        *phase = Phase::Idle(phase.requests(), self.keep_alive);
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
