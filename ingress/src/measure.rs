//! Counts requests and how long they took. The label is the template of the route, and never the
//! path, because a client chooses the path.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::App;

/// The label of requests that match no route.
const NONE: &str = "none";

/// The label of every method that is not one of HTTP's usual ones.
pub(crate) const OTHER_METHOD: &str = "other";

/// The routes of the intake begin so.
const INTAKE: &str = "/api/webhooks/";

pub async fn measure(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = method(request.method());
    let response = next.run(request).await;
    let took = begun.elapsed();
    if route
        .as_ref()
        .is_some_and(|it| it.as_str().starts_with(INTAKE))
    {
        app.measures.answered(took);
    }
    let route = route.map_or_else(|| NONE.to_owned(), |route| route.as_str().to_owned());
    metrics::histogram!(
        "waybill_http_request_seconds",
        "route" => route, "method" => method, "status" => class(response.status())
    )
    .record(took);
    response
}

/// The label for the method. A client may send any word as the method, so unknown ones share a
/// label.
pub(crate) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER_METHOD,
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
