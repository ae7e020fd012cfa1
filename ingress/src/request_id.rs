//! One id finds a request everywhere: in `X-Request-Id` of the answer, in the logs, in the
//! job's row and in the worker's logs. A client may choose it; otherwise it is the id that
//! a delivery's job will have. Beside it goes the trace that the request is a part of
//! (`platform::trace`): the client's, or one that begins with that same id.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use domain::trace::TraceContext;
use platform::trace;
use tracing::Instrument;
use uuid::Uuid;

use crate::App;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const LONGEST: usize = 128;

/// Webhooks are many, and their lines name the ids themselves: a span for each would cost more
/// than the rest of this.
const WEBHOOKS: &str = "/api/webhooks/";

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub struct RequestId {
    /// What the client chose, when it chose something fit to be stored and logged.
    pub given: Option<String>,
    pub own: Uuid,
    /// The client's trace; `None`: one begins with `own`.
    pub parent: Option<TraceContext>,
}

impl RequestId {
    fn of(headers: &HeaderMap, own: Uuid) -> Self {
        RequestId {
            given: headers.get(&HEADER).and_then(accept),
            own,
            parent: parent(headers),
        }
    }

    /// The id by which the client and the log know it.
    pub fn text(&self) -> String {
        match &self.given {
            Some(given) => given.clone(),
            None => self.own.to_string(),
        }
    }

    /// The request's own place in its trace.
    pub fn context(&self) -> TraceContext {
        match self.parent {
            Some(parent) => parent.child(self.own),
            None => TraceContext::begin(self.own),
        }
    }
}

/// Takes or makes the ids and gives them out with the answer.
pub async fn attach(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let trusted = &app.config.trusted_proxies;
    app.unnamed_proxy.look(request.headers(), trusted);
    let id = RequestId::of(request.headers(), app.clock.id());
    let context = id.context();
    let text = id.text();
    let span = if request.uri().path().starts_with(WEBHOOKS) {
        tracing::Span::none()
    } else {
        // Of the highest level: it is there whatever RUST_LOG leaves of the lines.
        tracing::error_span!("request", request_id = text, trace_id = %context.trace_id())
    };
    request.extensions_mut().insert(id);
    let answered = next.run(request).instrument(span);
    let mut response = trace::within(Some(context), answered).await;
    let headers = response.headers_mut();
    if let Ok(text) = HeaderValue::try_from(text) {
        headers.insert(HEADER, text);
    }
    if let Ok(context) = HeaderValue::try_from(context.to_string()) {
        headers.insert(TRACEPARENT, context);
    }
    response
}

fn accept(header: &HeaderValue) -> Option<String> {
    let text = header.to_str().ok()?;
    let fits = (1..=LONGEST).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte));
    fits.then(|| text.to_owned())
}

/// Sent twice, nobody can tell which one is meant: as good as none.
fn parent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(&TRACEPARENT).iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    TraceContext::parse(only.to_str().ok()?)
}
