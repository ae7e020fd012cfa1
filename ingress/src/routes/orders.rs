//! `GET /api/commerce/orders/{order_id}` and its QR codes, for holders of an API key
//! (docs/orders.md).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use store::orders::{self, Found};
use store::{qr_codes, shipments};

use crate::App;
use crate::api_key::{Holder, OrdersRead};
use crate::error::Error;

type Key = Holder<OrdersRead>;

/// The order that a request names by its path and, where needed, `?shop=`. An id that no order
/// can have, such as `A-17`, is one that none has.
pub struct Wanted {
    id: i64,
    shop: Option<String>,
}

impl FromRequestParts<Arc<App>> for Wanted {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Shop {
            shop: Option<String>,
        }
        #[derive(Deserialize)]
        struct OrderId {
            order_id: i64,
        }
        let path = Path::<OrderId>::from_request_parts(parts, app).await;
        let id = path.map(|Path(path)| path.order_id).unwrap_or_default();
        if id <= 0 {
            return Err(Error::OrderNotFound);
        }
        let shop = Query::<Shop>::from_request_parts(parts, app).await;
        let Query(Shop { shop }) = shop.map_err(|_| Error::ShopQuery)?;
        if shop.as_deref().is_some_and(|shop| shop.contains('\0')) {
            return Err(Error::ShopQuery);
        }
        Ok(Wanted { id, shop })
    }
}

/// The order's state. `?shop=` is needed when several shops have an order with this id.
pub async fn show(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let order = find(&app, &key, wanted).await?;
    Ok(Json(order.view(&app.config.public_url)).into_response())
}

/// The order's tracking link, as it was when the order came.
pub async fn qr_png(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let (_, png) = order_code(&app, &key, wanted).await?;
    Ok(picture("image/png", png))
}

/// Drawn from the stored link, so that it leads where the PNG leads.
pub async fn qr_svg(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let (url, _) = order_code(&app, &key, wanted).await?;
    svg(&app, &url)
}

/// The tracking number in a request's path.
#[derive(Deserialize)]
pub struct Parcel {
    tracking_number: String,
}

impl FromRequestParts<Arc<App>> for Parcel {
    type Rejection = Error;

    /// What is not UTF-8, or NUL, which no database takes, is no number of ours.
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<Parcel>::from_request_parts(parts, app).await;
        let Path(parcel) = path.map_err(|_| Error::QrNotFound)?;
        if parcel.tracking_number.contains('\0') {
            return Err(Error::QrNotFound);
        }
        Ok(parcel)
    }
}

pub async fn parcel_qr_png(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
    parcel: Parcel,
) -> Result<Response, Error> {
    let (_, png) = parcel_code(&app, &key, wanted, &parcel).await?;
    Ok(picture("image/png", png))
}

pub async fn parcel_qr_svg(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
    parcel: Parcel,
) -> Result<Response, Error> {
    let (url, _) = parcel_code(&app, &key, wanted, &parcel).await?;
    svg(&app, &url)
}

fn picture(kind: &'static str, bytes: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], bytes.into()).into_response()
}

fn svg(app: &App, url: &str) -> Result<Response, Error> {
    let symbol = app.config.qr.custom(url).map_err(|_| Error::QrNotFound)?;
    Ok(picture("image/svg+xml", symbol.svg()))
}

async fn order_code(app: &App, key: &Key, wanted: Wanted) -> Result<(String, Vec<u8>), Error> {
    let order = find(app, key, wanted).await?;
    qr_codes::find(&app.db, &order.shop, order.id, qr_codes::TRACKING)
        .await?
        .ok_or(Error::QrNotFound)
}

async fn parcel_code(
    app: &App,
    key: &Key,
    wanted: Wanted,
    parcel: &Parcel,
) -> Result<(String, Vec<u8>), Error> {
    let order = find(app, key, wanted).await?;
    let number = parcel.tracking_number.as_str();
    shipments::code(&app.db, &order.shop, order.id, number)
        .await?
        .ok_or(Error::QrNotFound)
}

/// An order of a shop that the key does not open is not there.
async fn find(app: &App, key: &Key, wanted: Wanted) -> Result<orders::StoredOrder, Error> {
    let shops = match (wanted.shop, &key.shops.0) {
        (Some(shop), _) if !key.shops.have(&shop) => return Err(Error::OrderNotFound),
        (Some(shop), _) => Some(vec![shop]),
        (None, opened) => opened.clone(),
    };
    match orders::find(&app.db, wanted.id, shops).await? {
        Found::One(order) => Ok(*order),
        Found::None => Err(Error::OrderNotFound),
        Found::Several => Err(Error::OrderAmbiguous),
    }
}
