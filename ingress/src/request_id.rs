//! Gives each request an id by which it can be found everywhere: in `X-Request-Id` of the answer,
//! in the logs, in the job's row and in the worker's logs. A client may choose the id; otherwise
//! it is the id that a delivery's job will have. Each request also belongs to a trace
//! (`platform::trace`): the client's, or a new one with the same id.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use domain::trace::TraceContext;
use platform::trace;
use telemetry::{Kind, Span};
use tracing::Instrument;
use uuid::Uuid;

use crate::{App, measure};

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const LONGEST: usize = 128;

/// Requests to these paths get no span. There are many webhooks, their log lines name the ids
/// themselves, and a span would cost more than the rest of this file.
const WEBHOOKS: &str = "/api/webhooks/";

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub struct RequestId {
    /// The id that the client sent, if it has a form that can be stored and logged.
    pub given: Option<String>,
    pub own: Uuid,
    /// The client's trace. `None`: a new trace begins, with the id `own`.
    pub parent: Option<TraceContext>,
}

impl RequestId {
    fn of(headers: &HeaderMap, own: Uuid) -> Self {
        RequestId {
            given: headers.get(&HEADER).and_then(accept),
            own,
            parent: parent(headers).map(|client| telemetry::admit(client, own)),
        }
    }

    /// The id that the client and the log use for the request.
    pub fn text(&self) -> String {
        match &self.given {
            Some(given) => given.clone(),
            None => self.own.to_string(),
        }
    }

    /// The request's own span in its trace.
    pub fn context(&self) -> TraceContext {
        match self.parent {
            Some(parent) => parent.child(self.own),
            None => telemetry::begin(self.own),
        }
    }
}

/// Reads or makes the ids of a request, and puts them into the answer. No cache keeps an answer that does not allow it.
pub async fn attach(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let trusted = &app.config.trusted_proxies;
    app.unnamed_proxy.look(request.headers(), trusted);
    let id = RequestId::of(request.headers(), app.clock.id());
    let context = id.context();
    let text = id.text();
    let span = if request.uri().path().starts_with(WEBHOOKS) {
        tracing::Span::none()
    } else {
        // The span has the highest level, so that it exists whatever RUST_LOG filters out.
        tracing::error_span!("request", request_id = text, trace_id = %context.trace_id())
    };
    let mut served = served(&request, &id);
    request.extensions_mut().insert(id);
    let answered = next.run(request).instrument(span);
    let mut response = trace::within(Some(context), answered).await;
    if let Some(served) = &mut served {
        answered_with(served, response.status());
    }
    let headers = response.headers_mut();
    let cached = headers.entry(header::CACHE_CONTROL);
    cached.or_insert(HeaderValue::from_static("no-store"));
    if let Ok(text) = HeaderValue::try_from(text) {
        headers.insert(HEADER, text);
    }
    if let Ok(context) = HeaderValue::try_from(context.to_string()) {
        headers.insert(TRACEPARENT, context);
    }
    response
}

/// These routes are asked all the time by machines that look after the process, so their requests are
/// not recorded.
const NOT_RECORDED: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// The span of a request, as the conventions for HTTP servers name it, if it is recorded. The path
/// and the query are left out, because a client chooses them.
fn served(request: &Request, id: &RequestId) -> Option<Span> {
    let context = id.context();
    if !context.is_sampled() || !telemetry::is_on() {
        return None;
    }
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    if route.is_some_and(|route| NOT_RECORDED.contains(&route)) {
        return None;
    }
    let method = measure::method(request.method());
    let known = if method == measure::OTHER_METHOD {
        "HTTP"
    } else {
        method
    };
    let name = || match route {
        Some(route) => format!("{known} {route}"),
        None => known.to_owned(),
    };
    let parent = id.parent.map(TraceContext::span_id);
    let mut span = Span::at(context, parent, Kind::Server, name)?;
    let method = if known == method { method } else { "_OTHER" };
    span.text("http.request.method", method);
    if let Some(route) = route {
        span.text("http.route", route);
    }
    Some(span)
}

fn answered_with(span: &mut Span, status: StatusCode) {
    span.number("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(status.as_str());
    }
}

fn accept(header: &HeaderValue) -> Option<String> {
    let text = header.to_str().ok()?;
    let fits = (1..=LONGEST).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte));
    fits.then(|| text.to_owned())
}

/// The value of a header. A header that is there twice counts as missing, because it is not clear
/// which value is meant.
fn parent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(&TRACEPARENT).iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    TraceContext::parse(only.to_str().ok()?)
}
