//! The payment provider's API over HTTP: forms come in, JSON goes out.

use std::collections::BTreeMap;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, json};

use super::{Answer, Parameters, Payment, Refusal, Wish};
use crate::PAYMENT_KEY;
use crate::gate::{self, IDEMPOTENCY_KEY};

const INVALID_REQUEST: &str = "invalid_request_error";

pub fn routes(payment: Payment) -> Router {
    Router::new()
        .route("/v1/refunds", post(refunds))
        .route("/v1/payment_intents/{id}", get(payment_intent))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_path)
        .layer(middleware::from_fn(authorize))
        .layer(middleware::from_fn_with_state(
            payment.gate.clone(),
            gate::pass,
        ))
        .with_state(payment)
}

/// An error without code and parameter.
pub fn error(status: StatusCode, kind: &'static str, message: &str) -> Response {
    let error = Error {
        status,
        kind,
        code: None,
        message: message.to_owned(),
        param: None,
    };
    error.into_response()
}

struct Error {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
    param: Option<String>,
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut error = Map::new();
        error.insert("type".to_owned(), json!(self.kind));
        error.insert("message".to_owned(), json!(self.message));
        if let Some(code) = self.code {
            error.insert("code".to_owned(), json!(code));
        }
        if let Some(param) = self.param {
            error.insert("param".to_owned(), json!(param));
        }
        (self.status, Json(json!({"error": error}))).into_response()
    }
}

/// A parameter that is not as it should be.
fn invalid(param: &str, code: &'static str, message: impl Into<String>) -> Error {
    Error {
        status: StatusCode::BAD_REQUEST,
        kind: INVALID_REQUEST,
        code: Some(code),
        message: message.into(),
        param: Some(param.to_owned()),
    }
}

fn unknown_intent(id: &str, param: &str) -> Error {
    let message = format!("No such payment_intent: '{id}'");
    Error {
        status: StatusCode::NOT_FOUND,
        ..invalid(param, "resource_missing", message)
    }
}

async fn authorize(request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if given == Some(PAYMENT_KEY) {
        return next.run(request).await;
    }
    let message = match given {
        None => "You did not provide an API key: send it as 'Authorization: Bearer YOUR_KEY'.",
        Some(_) => "Invalid API Key provided.",
    };
    error(StatusCode::UNAUTHORIZED, INVALID_REQUEST, message)
}

async fn unknown_path(request: Request) -> Response {
    let message = format!(
        "Unrecognized request URL ({}: {}).",
        request.method(),
        request.uri().path()
    );
    error(StatusCode::NOT_FOUND, INVALID_REQUEST, &message)
}

async fn payment_intent(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    match payment.intent(&id) {
        Some(intent) => Json(intent).into_response(),
        None => unknown_intent(&id, "intent").into_response(),
    }
}

async fn refunds(
    State(payment): State<Payment>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Error> {
    let mut parameters: Parameters = form_urlencoded::parse(body.as_bytes())
        .into_owned()
        .collect();
    parameters.sort();
    let wish = Wish::read(&parameters)?;
    let key = headers.get(IDEMPOTENCY_KEY);
    let key = key.and_then(|key| key.to_str().ok());
    match payment.refund(&wish, key.map(|key| (key, parameters))) {
        Ok(Answer::New(refund)) => Ok(Json(refund).into_response()),
        Ok(Answer::Again(refund)) => {
            Ok(([("Idempotent-Replayed", "true")], Json(refund)).into_response())
        }
        Err(refusal) => Err(refusal.tell(&wish)),
    }
}

impl Wish {
    fn read(parameters: &Parameters) -> Result<Self, Error> {
        let (mut intent, mut amount, mut reason) = (None, None, None);
        let mut metadata = BTreeMap::new();
        for (name, value) in parameters {
            match name.as_str() {
                "payment_intent" => intent = Some(value.clone()),
                "amount" => amount = Some(positive(value)?),
                "reason" => reason = Some(value.clone()),
                other => {
                    let key = other.strip_prefix("metadata[");
                    let key = key.and_then(|key| key.strip_suffix(']'));
                    let key = key.ok_or_else(|| unknown_parameter(other))?;
                    metadata.insert(key.to_owned(), value.clone());
                }
            }
        }
        let intent = intent.ok_or_else(|| {
            let message = "Missing required param: payment_intent.";
            invalid("payment_intent", "parameter_missing", message)
        })?;
        Ok(Wish {
            intent,
            amount,
            reason,
            metadata,
        })
    }
}

fn positive(value: &str) -> Result<i64, Error> {
    match value.parse() {
        Ok(amount) if amount > 0 => Ok(amount),
        _ => {
            let message = format!("Invalid positive integer: {value}");
            Err(invalid("amount", "parameter_invalid_integer", message))
        }
    }
}

fn unknown_parameter(name: &str) -> Error {
    let message = format!("Received unknown parameter: {name}");
    invalid(name, "parameter_unknown", message)
}

impl Refusal {
    fn tell(self, wish: &Wish) -> Error {
        match self {
            Refusal::UnknownIntent => unknown_intent(&wish.intent, "payment_intent"),
            Refusal::NothingLeft => Error {
                param: None,
                ..invalid(
                    "",
                    "charge_already_refunded",
                    "The charge has already been refunded.",
                )
            },
            Refusal::TooMuch { left } => Error {
                code: None,
                ..invalid(
                    "amount",
                    "",
                    format!("Refund amount is greater than the unrefunded amount, {left}."),
                )
            },
            Refusal::KeyReused => Error {
                kind: "idempotency_error",
                code: None,
                param: None,
                ..invalid(
                    "",
                    "",
                    "Keys for idempotent requests can only be used with the same parameters \
                     they were first used with.",
                )
            },
        }
    }
}
