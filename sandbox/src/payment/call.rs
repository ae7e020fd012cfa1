//! Requests that change something, and their idempotency keys.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestExt};
use serde_json::Value;

use super::Payment;
use super::desk::Desk;
use super::error::Error;
use super::form::{Form, Parameters};
use crate::fault_injector;

pub struct Call {
    path: String,
    key: Option<String>,
    parameters: Parameters,
}

/// A request that came with a key, and its answer.
pub struct Kept {
    call: Call,
    status: StatusCode,
    body: Value,
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = Error;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Error> {
        let path = request.uri().path().to_owned();
        let key = fault_injector::key(&request).map(str::to_owned);
        let body = request.extract::<Bytes, _>().await;
        let body = body.map_err(|_| Error::invalid("The body could not be read."))?;
        let mut parameters: Parameters = form_urlencoded::parse(&body).into_owned().collect();
        parameters.sort();
        Ok(Call {
            path,
            key,
            parameters,
        })
    }
}

impl Payment {
    /// Carries out a call, or gives the same answer as before if the key is known.
    pub fn answer(
        &self,
        call: Call,
        act: impl FnOnce(&mut Desk, &mut Form, Option<&str>) -> Result<Value, Error>,
    ) -> Response {
        let mut form = match Form::read(&call.parameters) {
            Ok(form) => form,
            Err(error) => return error.into_response(),
        };
        self.at_desk(|desk| {
            let key = call.key.as_deref();
            if let Some(kept) = key.and_then(|key| desk.ledger.answers.get(key)) {
                return kept.again(&call);
            }
            let done = if desk.ledger.breaks > 0 {
                desk.ledger.breaks -= 1;
                Err(Error::broken())
            } else {
                act(desk, &mut form, key)
            };
            let (status, body) = match done {
                Ok(body) => (StatusCode::OK, body),
                Err(error) if error.is_kept() => (error.status, error.body()),
                Err(error) => return error.into_response(),
            };
            if let Some(key) = call.key.clone() {
                let kept = Kept {
                    call,
                    status,
                    body: body.clone(),
                };
                desk.ledger.answers.insert(key, kept);
            }
            (status, Json(body)).into_response()
        })
    }
}

impl Kept {
    fn again(&self, call: &Call) -> Response {
        let first = &self.call;
        if (&first.path, &first.parameters) != (&call.path, &call.parameters) {
            return Error::key_reused().into_response();
        }
        let replayed = [("Idempotent-Replayed", "true")];
        (self.status, replayed, Json(self.body.clone())).into_response()
    }
}
