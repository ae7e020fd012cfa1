//! The storefront's subscriptions over HTTP, as the REST API has them and as `WooCommerce` has them.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Storefront;
use super::api::{error, number, unprocessable};
use crate::subscriptions::Subscription;

/// The version of the API.
const VERSION: &str = "2026-10";

#[derive(Deserialize)]
pub struct Pages {
    limit: Option<usize>,
    /// Where the next page begins.
    page_info: Option<usize>,
    per_page: Option<usize>,
    page: Option<usize>,
}

#[derive(Deserialize)]
pub struct Given<T> {
    webhook: T,
}

#[derive(Default, Deserialize)]
pub struct Webhook {
    topic: Option<String>,
    address: Option<String>,
}

fn webhook(it: &Subscription) -> Value {
    json!({
        "id": it.id, "address": it.url, "topic": it.topics.first(), "format": "json", "fields": [],
        "api_version": VERSION,
    })
}

pub async fn list(State(storefront): State<Storefront>, Query(pages): Query<Pages>) -> Response {
    let limit = pages.limit.unwrap_or(50).clamp(1, 250);
    let from = pages.page_info.unwrap_or_default();
    let all = storefront.subscriptions.list();
    let page: Vec<Value> = all.iter().skip(from).take(limit).map(webhook).collect();
    let mut answer = Json(json!({"webhooks": page})).into_response();
    let next = from + limit;
    let link = format!(
        r#"<https://storefront.invalid/webhooks.json?limit={limit}&page_info={next}>; rel="next""#
    );
    if let Some(link) = link.parse().ok().filter(|_| all.len() > next) {
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}

pub async fn create(
    State(storefront): State<Storefront>,
    Json(Given { webhook: wish }): Json<Given<Webhook>>,
) -> Response {
    let (Some(topic), Some(address)) = (wish.topic, wish.address) else {
        return error(
            StatusCode::BAD_REQUEST,
            json!({"webhook": "Required parameter missing or invalid"}),
        );
    };
    let all = storefront.subscriptions.list();
    if all
        .iter()
        .any(|it| it.url == address && it.topics == [topic.as_str()])
    {
        return unprocessable("address for this topic has already been taken");
    }
    let id = storefront.subscriptions.add(&address, &[&topic]);
    let made = storefront.subscriptions.change(id, |_| {});
    (
        StatusCode::CREATED,
        Json(json!({"webhook": made.as_ref().map(webhook)})),
    )
        .into_response()
}

pub fn update(
    storefront: &Storefront,
    file: &str,
    Given { webhook: wish }: Given<Webhook>,
) -> Response {
    let id = number(file).and_then(|id| i64::try_from(id).ok());
    let change = |it: &mut Subscription| it.url = wish.address.unwrap_or_else(|| it.url.clone());
    match id.and_then(|id| storefront.subscriptions.change(id, change)) {
        Some(it) => Json(json!({"webhook": webhook(&it)})).into_response(),
        None => error(StatusCode::NOT_FOUND, "Not Found"),
    }
}

#[derive(Default, Deserialize)]
pub struct WooCommerce {
    topic: Option<String>,
    delivery_url: Option<String>,
    status: Option<String>,
    secret: Option<String>,
}

fn woocommerce(it: &Subscription) -> Value {
    let status = if it.is_active { "active" } else { "disabled" };
    json!({
        "id": it.id, "name": "Waybill", "status": status, "topic": it.topics.first(), "delivery_url": it.url,
    })
}

pub async fn list_woocommerce(
    State(storefront): State<Storefront>,
    Query(pages): Query<Pages>,
) -> Json<Value> {
    let size = pages.per_page.unwrap_or(10).clamp(1, 100);
    let page = pages.page.unwrap_or(1).max(1) - 1;
    let all = storefront.subscriptions.list();
    Json(
        all.iter()
            .skip(page * size)
            .take(size)
            .map(woocommerce)
            .collect(),
    )
}

pub async fn create_woocommerce(
    State(storefront): State<Storefront>,
    Json(wish): Json<WooCommerce>,
) -> Response {
    let (Some(topic), Some(url)) = (&wish.topic, &wish.delivery_url) else {
        let refused = json!({"code": "woocommerce_rest_invalid_webhook_topic", "message": "Webhook topic is required and must be valid."});
        return (StatusCode::BAD_REQUEST, Json(refused)).into_response();
    };
    let id = storefront.subscriptions.add(url, &[topic]);
    let made = storefront.subscriptions.change(id, |it| wish.apply(it));
    (StatusCode::CREATED, Json(made.as_ref().map(woocommerce))).into_response()
}

pub fn update_woocommerce(storefront: &Storefront, id: i64, wish: WooCommerce) -> Response {
    match storefront.subscriptions.change(id, |it| wish.apply(it)) {
        Some(it) => Json(woocommerce(&it)).into_response(),
        None => error(StatusCode::NOT_FOUND, "Invalid ID."),
    }
}

impl WooCommerce {
    fn apply(self, it: &mut Subscription) {
        if let Some(url) = self.delivery_url {
            it.url = url;
        }
        if let Some(status) = self.status {
            it.is_active = status == "active";
        }
        it.secret = self.secret.or(it.secret.take());
    }
}
