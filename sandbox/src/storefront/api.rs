//! The storefront's API over HTTP. `X-Storefront-Shop-Domain` names the shop; the real storefront
//! has a host for each shop instead.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Place, Refusal, Storefront, objects, subscriptions};
use crate::fault_injector::{self, IDEMPOTENCY_KEY, text};
use crate::{STOREFRONT_TOKEN, WOOCOMMERCE_TOKEN};

const ACCESS_TOKENS: [&str; 2] = ["X-Storefront-Access-Token", "X-Shopify-Access-Token"];
/// Waybill names the shop to this stand-in; a real one has an address of its own.
const SHOPS: [&str; 3] = [
    "X-Storefront-Shop-Domain",
    "X-Shopify-Shop-Domain",
    "X-WC-Webhook-Source",
];

pub fn routes(storefront: Storefront) -> Router {
    let orders = "/orders/{order_id}/fulfillment_orders.json";
    Router::new()
        .route(orders, get(fulfillment_orders))
        .route("/orders/{file}", get(order))
        .route("/orders.json", get(changed))
        .route("/orders", get(woocommerce))
        .route("/fulfillments.json", post(fulfillments))
        .route("/shop.json", get(shop))
        .route("/variants/{file}", get(variant))
        .route("/products/{file}", get(product))
        .route(
            "/webhooks.json",
            get(subscriptions::list).post(subscriptions::create),
        )
        .route("/webhooks/{file}", put(update_subscription))
        .route(
            "/webhooks",
            get(subscriptions::list_woocommerce).post(subscriptions::create_woocommerce),
        )
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(middleware::from_fn(authorize))
        .layer(middleware::from_fn_with_state(
            storefront.fault_injector.clone(),
            fault_injector::pass,
        ))
        .with_state(storefront)
}

fn shop_of(headers: &HeaderMap) -> Option<&str> {
    SHOPS.iter().find_map(|name| text(headers, name))
}

pub fn error(status: StatusCode, errors: impl Into<Value>) -> Response {
    (status, Json(json!({"errors": errors.into()}))).into_response()
}

fn is_authorized(headers: &HeaderMap) -> bool {
    let mut tokens = ACCESS_TOKENS.iter().filter_map(|name| text(headers, name));
    let pair = format!("Basic {}", BASE64_STANDARD.encode(WOOCOMMERCE_TOKEN));
    tokens.any(|token| token == STOREFRONT_TOKEN)
        || text(headers, header::AUTHORIZATION.as_str()) == Some(&pair)
}

async fn authorize(request: Request, next: Next) -> Response {
    if is_authorized(request.headers()) {
        return next.run(request).await;
    }
    let message = "[API] Invalid API key or access token (unrecognized login or wrong password)";
    error(StatusCode::UNAUTHORIZED, message)
}

async fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "Not Found")
}

async fn fulfillment_orders(
    State(storefront): State<Storefront>,
    Path(order_id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(order_id) = order_id.parse().ok().filter(|id| *id > 0) else {
        return not_found().await;
    };
    let order = storefront.fulfillment_order(shop_of(&headers), order_id);
    Json(json!({"fulfillment_orders": [order]})).into_response()
}

#[derive(Deserialize)]
struct NewFulfillment {
    fulfillment: Wish,
}

#[derive(Deserialize)]
struct Wish {
    line_items_by_fulfillment_order: [Lines; 1],
    #[serde(default, rename = "notify_customer")]
    _notify_customer: bool,
}

#[derive(Deserialize)]
struct Lines {
    fulfillment_order_id: i64,
}

async fn fulfillments(
    State(storefront): State<Storefront>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let Ok(wish) = serde_json::from_str::<NewFulfillment>(&body) else {
        let errors = json!({"fulfillment": "Required parameter missing or invalid"});
        return error(StatusCode::BAD_REQUEST, errors);
    };
    let [lines] = wish.fulfillment.line_items_by_fulfillment_order;
    let shop = shop_of(&headers);
    let key = text(&headers, IDEMPOTENCY_KEY);
    match storefront.fulfil(shop, key, lines.fulfillment_order_id) {
        Ok(answer) => (StatusCode::CREATED, Json(answer)).into_response(),
        Err(Refusal::Unknown) => not_found().await,
        Err(Refusal::Closed) => unprocessable("The fulfillment order is not in an open state."),
        Err(Refusal::KeyReused) => {
            unprocessable("The idempotency key was used for another fulfillment order.")
        }
    }
}

/// Answers with the order as it was last delivered, with the fields that the request names.
async fn order(
    State(storefront): State<Storefront>,
    Path(file): Path<String>,
    Query(query): Query<Fields>,
    headers: HeaderMap,
) -> Response {
    let id = number(&file).and_then(|id| i64::try_from(id).ok());
    let shop = shop_of(&headers);
    let Some(order) = id.and_then(|id| storefront.order(shop, id)) else {
        return not_found().await;
    };
    let order = match &query.fields {
        None => order,
        // The API's order has every field, even if webhooks are configured to leave some out.
        Some(fields) => fields
            .split(',')
            .map(|field| (field.to_owned(), order[field].clone()))
            .collect(),
    };
    Json(json!({"order": order})).into_response()
}

#[derive(Deserialize)]
struct Changed {
    limit: Option<usize>,
    page_info: Option<String>,
    updated_at_min: Option<Timestamp>,
    updated_at_max: Option<Timestamp>,
}

/// Lists the orders that changed in a period, the oldest change first. The header `Link` names the next page, which begins
/// after the last order of this one; it takes no other parameters than `limit`.
async fn changed(
    State(storefront): State<Storefront>,
    Query(query): Query<Changed>,
    headers: HeaderMap,
) -> Response {
    let least = Timestamp(i64::MIN);
    let place = match &query.page_info {
        None => Place {
            from: query.updated_at_min.unwrap_or(least),
            until: query.updated_at_max.unwrap_or(Timestamp(i64::MAX)),
            after: i64::MIN,
        },
        Some(page) => match Place::read(page) {
            Some(place) => place,
            None => {
                return error(
                    StatusCode::BAD_REQUEST,
                    json!({"page_info": "Invalid value."}),
                );
            }
        },
    };
    let limit = query.limit.unwrap_or(50).clamp(1, 250);
    let (orders, next) = storefront.changed(shop_of(&headers), &place, limit);
    let mut answer = Json(json!({"orders": orders})).into_response();
    if let Some(next) = next {
        let link = format!(
            r#"<https://storefront.invalid/orders.json?limit={limit}&page_info={next}>; rel="next""#
        );
        if let Ok(link) = link.parse() {
            answer.headers_mut().insert(header::LINK, link);
        }
    }
    let date = storefront.date();
    if let Ok(date) = date.parse() {
        answer.headers_mut().insert(header::DATE, date);
    }
    answer
}

#[derive(Deserialize)]
struct Modified {
    modified_after: Option<String>,
    modified_before: Option<String>,
    per_page: Option<usize>,
    page: Option<usize>,
}

/// How the shop's WordPress reads a time: one with a zone becomes the shop's own time, which is then compared with times in
/// GMT. The shop is two hours east of there.
fn woocommerce_time(text: &str) -> Option<Timestamp> {
    const EAST: Duration = Duration::from_hours(2);
    match text.strip_suffix('Z') {
        Some(_) => text.parse().ok().map(|at: Timestamp| at.plus(EAST)),
        None => format!("{text}Z").parse().ok(),
    }
}

/// Lists orders as `WooCommerce` does: an array, with pages that are counted, and without what changed at one of the two
/// times itself.
async fn woocommerce(
    State(storefront): State<Storefront>,
    Query(query): Query<Modified>,
    headers: HeaderMap,
) -> Response {
    let place = Place {
        from: query
            .modified_after
            .and_then(|it| woocommerce_time(&it))
            .unwrap_or(Timestamp(i64::MIN)),
        until: query
            .modified_before
            .and_then(|it| woocommerce_time(&it))
            .map_or(Timestamp(i64::MAX), |it| Timestamp(it.0 - 1)),
        after: i64::MAX,
    };
    let (all, _) = storefront.changed(shop_of(&headers), &place, usize::MAX);
    let size = query.per_page.unwrap_or(10).clamp(1, 100);
    let page = query.page.unwrap_or(1).max(1) - 1;
    let orders: Vec<Value> = all.into_iter().skip(page * size).take(size).collect();
    let mut answer = Json(orders).into_response();
    if let Ok(date) = storefront.date().parse() {
        answer.headers_mut().insert(header::DATE, date);
    }
    answer
}

#[derive(Deserialize)]
struct Fields {
    fields: Option<String>,
}

async fn shop(State(storefront): State<Storefront>, headers: HeaderMap) -> Response {
    let shop = storefront.shop_object(shop_of(&headers));
    Json(json!({"shop": shop})).into_response()
}

async fn variant(State(storefront): State<Storefront>, Path(file): Path<String>) -> Response {
    match number(&file).and_then(|id| storefront.variant(id)) {
        Some(variant) => Json(json!({"variant": variant})).into_response(),
        None => not_found().await,
    }
}

async fn product(Path(file): Path<String>) -> Response {
    match number(&file).and_then(objects::product) {
        Some(product) => Json(json!({"product": product})).into_response(),
        None => not_found().await,
    }
}

/// The two APIs name a subscription in one place, `1.json` and `1`.
async fn update_subscription(
    State(storefront): State<Storefront>,
    Path(file): Path<String>,
    body: Bytes,
) -> Response {
    let updated = match file.parse() {
        Ok(id) => serde_json::from_slice(&body)
            .map(|wish| subscriptions::update_woocommerce(&storefront, id, wish)),
        Err(_) => serde_json::from_slice(&body)
            .map(|wish| subscriptions::update(&storefront, &file, wish)),
    };
    updated.unwrap_or_else(|_| error(StatusCode::BAD_REQUEST, "the body cannot be read"))
}

/// Reads the id in `<id>.json`.
pub fn number(file: &str) -> Option<u64> {
    file.strip_suffix(".json")?.parse().ok()
}

pub fn unprocessable(message: &str) -> Response {
    error(StatusCode::UNPROCESSABLE_ENTITY, json!([message]))
}
