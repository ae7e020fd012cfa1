//! `/openapi.json`, `/asyncapi.json` and `/docs` serve the descriptions of the API and of the events
//! (`openapi`) from memory.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::App;
use crate::openapi::operation::{Operation, get, tagged};
use crate::openapi::{Document, POLICY};

const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=300");

pub fn routes() -> Vec<Operation> {
    let json = get("/openapi.json", json)
        .is("describe", "This description, OpenAPI 3.1")
        .answers_with(200, "The description.", ["application/json"]);
    let events = get("/asyncapi.json", events)
        .is("describeEvents", "The events, AsyncAPI 3")
        .answers_with(200, "The description.", ["application/json"]);
    let page = get("/docs", page)
        .is("documentation", "This description, for people")
        .answers_with(200, "The page.", ["text/html"]);
    let cached = |it: Operation| {
        let tag = "\"2c26b46b68ffc68ff99b453c1d304134\"";
        let kept = "public, max-age=300";
        it.header("ETag", "Of this version.", tag)
            .header("Cache-Control", "How long it may be kept.", kept)
            .answers_content(
                304,
                "The client has it: `If-None-Match` names its `ETag`.",
                &json!({}),
            )
    };
    tagged("Service", [json, events, page].map(cached))
}

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
