//! `/openapi.json`, `/asyncapi.json` and `/docs` serve the descriptions of the API and of the events
//! (`openapi`) from memory.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::openapi::{Document, POLICY};

const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=300");

pub async fn json(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    for_tools(&app.description().json, &headers)
}

pub async fn events(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    for_tools(&app.description().events, &headers)
}

fn for_tools(description: &Document, asked: &HeaderMap) -> Response {
    let mut response = document(description, asked, "application/json");
    // Tools in a browser may read it from another origin, because it contains nothing private.
    let anyone = HeaderValue::from_static("*");
    response
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, anyone);
    response
}

pub async fn page(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let mut response = document(
        &app.description().page,
        &headers,
        "text/html; charset=utf-8",
    );
    let own = response.headers_mut();
    own.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    own.insert(
        "x-robots-tag",
        HeaderValue::from_static("noindex, nofollow"),
    );
    own.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    response
}

/// Answers 304 if the client already has this version.
fn document(document: &Document, asked: &HeaderMap, kind: &'static str) -> Response {
    let known = asked.get_all(header::IF_NONE_MATCH).into_iter().any(|it| {
        let tags = it.to_str().unwrap_or_default().split(',');
        let mut tags = tags.map(|tag| tag.trim().trim_start_matches("W/"));
        tags.any(|tag| tag == "*" || document.etag == tag)
    });
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = [(header::CONTENT_TYPE, kind)];
        (kind, document.text.clone()).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, document.etag.clone());
    headers.insert(header::CACHE_CONTROL, KEPT);
    let sniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, sniff);
    response
}
