//! The encodings of the web side. A request is a form or JSON. The answer is JSON if the client
//! asks for it, and otherwise a form.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::refusal::Refusal;
use crate::fault_injector::LARGEST_BODY;

pub struct Call {
    fields: BTreeMap<String, String>,
    /// Whether the client asks for JSON.
    json: bool,
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = Infallible;

    /// Reads the fields of a request. A body that cannot be read has no fields.
    async fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, LARGEST_BODY).await.unwrap_or_default();
        let fields = if holds_json(&parts.headers, &header::CONTENT_TYPE) {
            json_fields(&body)
        } else {
            form_urlencoded::parse(&body).into_owned().collect()
        };
        let json = holds_json(&parts.headers, &header::ACCEPT);
        Ok(Call { fields, json })
    }
}

impl Call {
    /// The value of a field, if the field is there and not empty.
    pub fn field(&self, name: &str) -> Option<&str> {
        let value = self.fields.get(name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn answer(&self, given: Result<Value, Refusal>) -> Response {
        let (status, body) = match given {
            Ok(body) => (StatusCode::OK, body),
            Err(refusal) => (refusal.status(), refusal.body()),
        };
        let (kind, body) = if self.json {
            ("json", body.to_string())
        } else {
            ("x-www-form-urlencoded", form(&body))
        };
        let headers = [
            (
                header::CONTENT_TYPE,
                format!("application/{kind}; charset=utf-8"),
            ),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ];
        (status, headers, body).into_response()
    }
}

fn holds_json(headers: &HeaderMap, name: &HeaderName) -> bool {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.contains("application/json"))
}

fn json_fields(body: &Bytes) -> BTreeMap<String, String> {
    let object = serde_json::from_slice::<BTreeMap<String, Value>>(body).unwrap_or_default();
    let fields = object.into_iter();
    fields
        .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
        .collect()
}

fn form(body: &Value) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    for (name, value) in body.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => form.append_pair(name, text),
            other => form.append_pair(name, &other.to_string()),
        };
    }
    form.finish()
}
