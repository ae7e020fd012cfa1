//! `GET /api/commerce/orders/{order_id}` and its QR code, for holders of an API key.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use common::store::orders::{self, Found};
use common::store::{api_keys, qr_codes};
use serde::Deserialize;

use crate::App;
use crate::error::Error;

/// An API key was shown and may be used now.
pub struct ApiKey;

impl FromRequestParts<Arc<App>> for ApiKey {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let header = parts.headers.get(header::AUTHORIZATION);
        let key = header
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, key)| key.trim())
            .ok_or(Error::ApiKey)?;
        let known = api_keys::authenticate(&app.db, key, app.clock.now()).await?;
        known.map(|_| ApiKey).ok_or(Error::ApiKey)
    }
}

#[derive(Deserialize)]
pub struct Shop {
    shop: Option<String>,
}

/// The order's state. `?shop=` is needed when several shops have an order with this id.
pub async fn show(
    _key: ApiKey,
    State(app): State<Arc<App>>,
    Path(order_id): Path<String>,
    Query(shop): Query<Shop>,
) -> Result<Response, Error> {
    let order = find(&app, &order_id, shop).await?;
    Ok(Json(order.view(&app.config.public_url)).into_response())
}

pub async fn qr_png(
    _key: ApiKey,
    State(app): State<Arc<App>>,
    Path(order_id): Path<String>,
    Query(shop): Query<Shop>,
) -> Result<Response, Error> {
    let (_, png) = code(&app, &order_id, shop).await?;
    Ok(([(header::CONTENT_TYPE, "image/png")], png).into_response())
}

/// Drawn from the stored link, so that it leads where the PNG leads.
pub async fn qr_svg(
    _key: ApiKey,
    State(app): State<Arc<App>>,
    Path(order_id): Path<String>,
    Query(shop): Query<Shop>,
) -> Result<Response, Error> {
    let (url, _) = code(&app, &order_id, shop).await?;
    let symbol = app.config.qr.custom(&url).map_err(|_| Error::QrNotFound)?;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], symbol.svg()).into_response())
}

async fn code(app: &App, order_id: &str, shop: Shop) -> Result<(String, Vec<u8>), Error> {
    let order = find(app, order_id, shop).await?;
    qr_codes::find(&app.db, &order.shop, order.id, qr_codes::TRACKING)
        .await?
        .ok_or(Error::QrNotFound)
}

async fn find(app: &App, order_id: &str, Shop { shop }: Shop) -> Result<orders::StoredOrder, Error> {
    let id = order_id
        .parse::<i64>()
        .ok()
        .filter(|id| *id > 0)
        .ok_or(Error::OrderId)?;
    match orders::find(&app.db, id, shop.as_deref()).await? {
        Found::One(order) => Ok(*order),
        Found::None => Err(Error::OrderNotFound),
        Found::Several => Err(Error::OrderAmbiguous),
    }
}
