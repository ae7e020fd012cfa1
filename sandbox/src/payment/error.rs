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

    /// A request that cannot be done as it is.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    pub fn unauthorized(message: &str) -> Self {
        Error::new(StatusCode::UNAUTHORIZED, INVALID_REQUEST, message)
    }

    pub fn unknown_path(message: impl Into<String>) -> Self {
        Error::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message)
    }

    /// An object of the path that is not there.
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

    /// A card that was declined: the fields that say why, and the intent as it is now.
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

    /// For people.
    pub fn message(&self) -> &str {
        self.fields["message"].as_str().unwrap_or_default()
    }

    /// Whether it is kept as the answer to its idempotency key: every failure is, but that of a
    /// request whose parameters were wrong, because then nothing was begun.
    pub fn is_kept(&self) -> bool {
        self.status != StatusCode::BAD_REQUEST || !self.fields.contains_key("param")
    }

    /// A fault of the provider's own, in the middle of its work.
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
