//! The provider's errors: `{"error": {"type": .., "message": .., "code": .., "param": ..}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

const INVALID_REQUEST: &str = "invalid_request_error";

#[derive(Debug)]
pub struct Error {
    pub status: StatusCode,
    fields: Map<String, Value>,
}

impl Error {
    /// An error without code and parameter.
    pub fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        let fields = Map::from_iter([
            ("type".to_owned(), json!(kind)),
            ("message".to_owned(), json!(message.into())),
        ]);
        Error { status, fields }
    }

    /// A wrong request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    pub fn unauthorized(message: &str) -> Self {
        Error::new(StatusCode::UNAUTHORIZED, INVALID_REQUEST, message)
    }

    pub fn unknown_path(message: impl Into<String>) -> Self {
        Error::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message)
    }

    /// The object that the path names does not exist.
    pub fn unknown(object: &str, id: &str, param: &str) -> Self {
        Error {
            status: StatusCode::NOT_FOUND,
            ..Error::invalid(format!("No such {object}: '{id}'"))
        }
        .code("resource_missing")
        .param(param)
    }

    pub fn unexpected_state(message: impl Into<String>, intent: Value) -> Self {
        let error = Error::invalid(message).code("payment_intent_unexpected_state");
        error.with("payment_intent", intent)
    }

    /// The card was declined. The error has the fields that say why, and the intent as it is now.
    pub fn declined(why: &Value, intent: Value) -> Self {
        let fields = why.as_object().cloned().unwrap_or_default();
        let status = StatusCode::PAYMENT_REQUIRED;
        Error { status, fields }.with("payment_intent", intent)
    }

    /// The key was used with other parameters.
    pub fn key_reused() -> Self {
        let message = "Keys for idempotent requests can only be used with the same parameters \
                       they were first used with.";
        Error::new(StatusCode::BAD_REQUEST, "idempotency_error", message)
    }

    pub fn code(self, code: &str) -> Self {
        self.with("code", json!(code))
    }

    pub fn param(self, param: &str) -> Self {
        self.with("param", json!(param))
    }

    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        self.fields["message"].as_str().unwrap_or_default()
    }

    /// Whether the error is kept as the answer to its idempotency key. Every failure is kept,
    /// except that of a request with wrong parameters, because then nothing was begun.
    pub fn is_kept(&self) -> bool {
        self.status != StatusCode::BAD_REQUEST || !self.fields.contains_key("param")
    }

    /// An internal failure of the provider in the middle of its work.
    pub fn broken() -> Self {
        let message = "An unknown error occurred.";
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", message)
    }

    pub fn body(&self) -> Value {
        json!({"error": self.fields})
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}
