//! The description of the API: OpenAPI 3.1 at `/openapi.json`, and a page for people at `/docs`; and
//! that of the events, AsyncAPI 3 at `/asyncapi.json`.
//!
//! Each route is described where it is written (`routes`). The shapes of bodies come from the types
//! with which handlers answer, and errors are variants of `Error`, from which the status, text,
//! code and headers are read.
//!
//! A route is not described by an attribute of its handler (`utoipa::path`). Such attributes cannot
//! combine several sets of errors: if two responses have the same status, the later one replaces
//! the earlier one. And they would have to repeat what the handler's extractors demand.

pub mod asyncapi;
pub mod bodies;
mod events;
pub mod operation;
pub mod page;
mod schemas;

use axum::http::HeaderValue;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use page::POLICY;

use self::schemas::Schemas;
use crate::routes::operations;

const ABOUT: &str = "Waybill takes the webhooks of a storefront and of a payment provider, logs devices in, and reports \
     what became of orders, payments and requests about personal data.\n\nEvery answer carries \
     `X-Request-Id`: the client's own, if it sent one of up to 128 letters, digits and `-_.:/+=`, else a \
     new one. An error's body is `{\"detail\": \"<text>\"}`, of a device login also `error`; pages answer with a \
     page. `X-Error-Code` holds the application code of errors that have one. Other paths are 404, other \
     methods 405. Fields may be added to any answer: pass over what you do not know.";

/// The groups of operations, in the order in which they are shown.
const TAGS: [(&str, &str); 7] = [
    (
        "Webhooks",
        "What the providers send. Signed over the raw body; accepted once committed.",
    ),
    (
        "Connections",
        "The providers that are connected, beside those that the settings name.",
    ),
    (
        "Orders",
        "The state of orders, and their QR codes, for holders of an API key.",
    ),
    (
        "Privacy",
        "Requests about personal data: their deadlines, and what may be done to them.",
    ),
    (
        "Login",
        "Passwordless device login (RFC 8628), tokens and licence tiers.",
    ),
    (
        "Pages",
        "What QR codes lead to: HTML for everyone who has the link, without personal data.",
    ),
    ("Service", "Health, metrics and this description."),
];

/// All forms of the description.
pub struct Description {
    pub json: Document,
    pub page: Document,
    pub events: Document,
}

/// A document that is served, and the entity tag that distinguishes its versions.
pub struct Document {
    pub text: Bytes,
    pub etag: HeaderValue,
}

impl Description {
    pub fn new(public_url: &str, amqp_prefix: &str) -> Self {
        let document = document(public_url);
        let order: Vec<&str> = operations().map(|it| it.id).collect();
        Description {
            page: Document::new(page::html(&document, &order)),
            json: Document::new(document.to_string()),
            events: Document::new(asyncapi::document(public_url, amqp_prefix).to_string()),
        }
    }
}

impl Document {
    fn new(text: String) -> Self {
        let hash = hex::encode(&Sha256::digest(&text)[..16]);
        Document {
            // A quoted hexadecimal number is always valid as the value of a header.
            etag: HeaderValue::try_from(format!("\"{hash}\""))
                .unwrap_or(HeaderValue::from_static("\"\"")),
            text: text.into(),
        }
    }
}

/// The whole description; `public_url` is where clients reach the service.
pub fn document(public_url: &str) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = json!({});
    for operation in operations() {
        let (path, method) = (operation.path, operation.method);
        paths[path][method] = operation.describe(&mut schemas);
    }
    let webhooks = events::webhooks(&mut schemas);
    schemas.extend(bodies::all());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Waybill",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Webhooks in, orders and logins out",
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": public_url}],
        "tags": tags(),
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": schemas.into_json(),
            "securitySchemes": security_schemes(),
        },
    })
}

/// The groups of operations, with what each is about.
pub fn parts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let events = (
        "Events",
        "What your own systems hear of: as messages of a broker, or read from here.",
    );
    TAGS.into_iter().chain([events])
}

/// Where a part is described in the page of the API.
pub fn anchor(part: &str) -> String {
    part.to_ascii_lowercase()
}

fn tags() -> Value {
    parts()
        .map(|(name, about)| json!({"name": name, "description": about}))
        .collect()
}

fn security_schemes() -> Value {
    json!({
        "apiKey": {
            "type": "http", "scheme": "bearer", "bearerFormat": "wb_<64 hexadecimal digits>",
            "description": "An API key: `waybill keys create <name>` makes one and shows it once.",
        },
        "accessToken": {
            "type": "http", "scheme": "bearer",
            "description": "The access token of a device login. It is the identity provider's, and is never \
                            sent in a query.",
        },
        "storefrontSignature": {
            "type": "apiKey", "in": "header", "name": "X-Storefront-Hmac-Sha256",
            "description": "HMAC-SHA256 of the raw body with `STOREFRONT_WEBHOOK_SECRET`, in Base64.",
        },
        "paymentSignature": {
            "type": "apiKey", "in": "header", "name": "Payment-Signature",
            "description": "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<raw body>` with \
                            `PAYMENT_WEBHOOK_SECRET`. Any of several `v1` may match; `v0` never does.",
        },
        "exportLink": {
            "type": "apiKey", "in": "query", "name": "signature",
            "description": "Part of a link that `linkPrivacyExport` has made. It is good for five minutes.",
        },
    })
}
