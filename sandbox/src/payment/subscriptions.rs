//! The provider's webhook endpoints over HTTP.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::Payment;
use super::error::Error;
use crate::subscriptions::Subscription;

fn endpoint(it: &Subscription) -> Value {
    let status = if it.is_active { "enabled" } else { "disabled" };
    json!({
        "id": format!("we_{}", it.id), "object": "webhook_endpoint", "api_version": null, "application": null,
        "enabled_events": it.topics, "livemode": true, "status": status, "url": it.url,
    })
}

pub async fn list(State(payment): State<Payment>) -> Json<Value> {
    let all = payment.subscriptions.list();
    let data: Vec<Value> = all.iter().map(endpoint).collect();
    Json(json!({"object": "list", "url": "/v1/webhook_endpoints", "has_more": false, "data": data}))
}

pub async fn update(
    State(payment): State<Payment>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Error> {
    let form: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let change = |it: &mut Subscription| {
        let mut events = Vec::new();
        for (name, value) in form {
            match name.as_str() {
                "url" => it.url = value,
                "disabled" => it.is_active = value == "false",
                name if name.starts_with("enabled_events[") => events.push(value),
                _ => {}
            }
        }
        if !events.is_empty() {
            it.topics = events;
        }
    };
    let number = id
        .strip_prefix("we_")
        .and_then(|number| number.parse().ok());
    let changed = number.and_then(|number| payment.subscriptions.change(number, change));
    let changed =
        changed.ok_or_else(|| Error::unknown("webhook endpoint", &id, "webhook_endpoint"))?;
    Ok(Json(endpoint(&changed)))
}
