//! The payment provider's API over HTTP. Requests are forms, and answers are JSON.

use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Payment;
use super::call::Call;
use super::error::Error;
use super::intents::CARDS;
use super::objects::Wish;
use super::subscriptions;
use crate::PAYMENT_KEY;
use crate::fault_injector;

type Answer = Result<Json<Value>, Error>;

pub fn routes(payment: Payment) -> Router {
    Router::new()
        .route("/v1/charges", get(charges))
        .route("/v1/checkout/sessions", post(open_session))
        .route("/v1/checkout/sessions/{id}", get(session))
        .route("/v1/checkout/sessions/{id}/expire", post(expire_session))
        .route("/v1/events", get(events))
        .route("/v1/invoices/{id}", get(invoice))
        .route("/v1/payment_intents", post(create_intent))
        .route("/v1/payment_intents/{id}", get(intent))
        .route("/v1/payment_intents/{id}/cancel", post(cancel_intent))
        .route("/v1/payment_intents/{id}/confirm", post(confirm_intent))
        .route("/v1/refunds", get(refunds).post(refund))
        .route("/v1/subscriptions/{id}", get(subscription))
        .route("/v1/webhook_endpoints", get(subscriptions::list))
        .route("/v1/webhook_endpoints/{id}", post(subscriptions::update))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_path)
        .layer(middleware::from_fn(authorize))
        .layer(middleware::from_fn_with_state(
            payment.fault_injector.clone(),
            fault_injector::pass,
        ))
        .with_state(payment)
}

/// An error that has no code and no parameter.
pub fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    Error::new(status, kind, message).into_response()
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
    Error::unauthorized(message).into_response()
}

async fn unknown_path(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    Error::unknown_path(format!("Unrecognized request URL ({method}: {path}).")).into_response()
}

async fn open_session(State(payment): State<Payment>, call: Call) -> Response {
    payment.answer(call, |desk, form, key| desk.open_session(key, form))
}

async fn session(State(payment): State<Payment>, Path(id): Path<String>) -> Answer {
    payment.at_desk(|desk| desk.show_session(&id)).map(Json)
}

async fn expire_session(
    State(payment): State<Payment>,
    Path(id): Path<String>,
    call: Call,
) -> Response {
    payment.answer(call, |desk, form, _| {
        form.refuse_rest()?;
        desk.expire(&id)
    })
}

#[derive(Deserialize)]
struct OfPeriod {
    #[serde(rename = "created[gte]")]
    from: Option<i64>,
    #[serde(rename = "created[lte]")]
    until: Option<i64>,
    limit: Option<usize>,
    starting_after: Option<String>,
}

/// Lists events, the newest first.
async fn events(
    State(payment): State<Payment>,
    Query(of): Query<OfPeriod>,
) -> Result<impl IntoResponse, Error> {
    let period = of.from.unwrap_or(i64::MIN)..=of.until.unwrap_or(i64::MAX);
    let limit = of.limit.unwrap_or(10).clamp(1, 100);
    let listed = payment.events(&period, of.starting_after.as_deref(), limit);
    let after = of.starting_after.unwrap_or_default();
    let listed = listed.ok_or_else(|| Error::unknown("event", &after, "starting_after"));
    let (data, has_more) = listed?;
    let list = json!({"object": "list", "url": "/v1/events", "has_more": has_more, "data": data});
    Ok(([(header::DATE, payment.date())], Json(list)))
}

async fn invoice(State(payment): State<Payment>, Path(id): Path<String>) -> Answer {
    payment.at_desk(|desk| desk.show_invoice(&id)).map(Json)
}

async fn create_intent(State(payment): State<Payment>, call: Call) -> Response {
    payment.answer(call, |desk, form, key| desk.create_intent(key, form))
}

async fn intent(State(payment): State<Payment>, Path(id): Path<String>) -> Answer {
    payment.at_desk(|desk| desk.show_intent(&id)).map(Json)
}

async fn cancel_intent(
    State(payment): State<Payment>,
    Path(id): Path<String>,
    call: Call,
) -> Response {
    payment.answer(call, |desk, form, _| desk.cancel(&id, form))
}

async fn confirm_intent(
    State(payment): State<Payment>,
    Path(id): Path<String>,
    call: Call,
) -> Response {
    payment.answer(call, |desk, form, key| {
        let card = form.choice("payment_method", &CARDS);
        let card = card.map_err(|error| error.code("resource_missing"))?;
        let off_session = form.flag("off_session")?;
        form.pass_over(&["return_url"]);
        form.refuse_rest()?;
        desk.confirm(&id, card, off_session, key)
    })
}

async fn refund(State(payment): State<Payment>, call: Call) -> Response {
    payment.answer(call, |desk, form, _| {
        let wish = Wish {
            amount: form.positive("amount")?,
            reason: form.text("reason")?,
            metadata: form.metadata()?,
            intent: form.required("payment_intent")?,
        };
        form.refuse_rest()?;
        desk.refund(&wish)
    })
}

/// What a list of charges or refunds is asked for.
#[derive(Deserialize)]
struct Listed {
    payment_intent: Option<String>,
    #[serde(rename = "created[gte]")]
    from: Option<i64>,
    #[serde(rename = "created[lt]")]
    until: Option<i64>,
    limit: Option<usize>,
    starting_after: Option<String>,
    #[serde(rename = "expand[]")]
    expand: Option<String>,
}

impl Listed {
    /// The page of these objects, which are the newest first.
    fn page(&self, all: Vec<Value>, url: &str) -> Value {
        let period = self.from.unwrap_or(i64::MIN)..self.until.unwrap_or(i64::MAX);
        let created = |it: &Value| it["created"].as_i64().unwrap_or_default();
        let all = all.into_iter().filter(|it| period.contains(&created(it)));
        let after = self.starting_after.as_deref();
        let all = all.skip_while(|it| after.is_some_and(|after| it["id"] != after));
        let mut data: Vec<Value> = all.skip(usize::from(after.is_some())).collect();
        let limit = self.limit.unwrap_or(10).clamp(1, 100);
        let has_more = data.len() > limit;
        data.truncate(limit);
        json!({"object": "list", "url": url, "has_more": has_more, "data": data})
    }
}

async fn charges(State(payment): State<Payment>, Query(of): Query<Listed>) -> Answer {
    let mut all = payment.at_desk(|desk| desk.charges());
    if let Some(intent) = &of.payment_intent {
        all.retain(|it| it["payment_intent"] == **intent);
    }
    Ok(Json(of.page(all, "/v1/charges")))
}

async fn refunds(State(payment): State<Payment>, Query(of): Query<Listed>) -> Answer {
    if let Some(intent) = &of.payment_intent {
        return payment.at_desk(|desk| desk.show_refunds(intent)).map(Json);
    }
    let is_expanded = of.expand.as_deref() == Some("data.charge");
    let all = payment.at_desk(|desk| desk.refunds(is_expanded));
    Ok(Json(of.page(all, "/v1/refunds")))
}

async fn subscription(State(payment): State<Payment>, Path(id): Path<String>) -> Answer {
    payment
        .at_desk(|desk| desk.show_subscription(&id))
        .map(Json)
}
