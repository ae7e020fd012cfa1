//! `GET /api/commerce/orders/{order_id}` and its QR codes, for clients with an API key
//! (docs/orders.md).

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use qr::Format;
use serde::Deserialize;
use store::orders::{self, OrderLookup};
use store::{qr_codes, shipments};

use crate::App;
use crate::api_key::{Holder, OrdersRead};
use crate::error::Error;

type Key = Holder<OrdersRead>;

/// The order that a request names by its path and, if needed, `?shop=`. An id that no order can
/// have, such as `A-17`, is answered like one that no order has.
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
    let code = order_code(&app, &key, wanted).await?;
    picture(app, Format::Png, code).await
}

pub async fn qr_svg(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let code = order_code(&app, &key, wanted).await?;
    picture(app, Format::Svg, code).await
}

/// The tracking number in a request's path.
#[derive(Deserialize)]
pub struct Parcel {
    tracking_number: String,
}

impl FromRequestParts<Arc<App>> for Parcel {
    type Rejection = Error;

    /// A text that is not UTF-8, or that contains NUL, which no database accepts, cannot be a
    /// stored tracking number.
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
    let code = parcel_code(&app, &key, wanted, &parcel).await?;
    picture(app, Format::Png, code).await
}

pub async fn parcel_qr_svg(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
    parcel: Parcel,
) -> Result<Response, Error> {
    let code = parcel_code(&app, &key, wanted, &parcel).await?;
    picture(app, Format::Svg, code).await
}

/// A link and the modules of its QR code, as they are stored.
type Code = (String, Vec<u8>);

/// Draws a stored code. The symbol stays as it was made, and the current settings give its size.
async fn picture(app: Arc<App>, format: Format, code: Code) -> Result<Response, Error> {
    // Drawing a picture with large boxes takes some milliseconds.
    let drawn = tokio::task::spawn_blocking(move || {
        let (url, modules) = code;
        let symbol = app.config.qr.stored(url, &modules)?;
        Some(match format {
            Format::Png => ("image/png", symbol.png()),
            Format::Svg => ("image/svg+xml", symbol.svg().into_bytes()),
        })
    });
    let drawn = drawn.await.map_err(|_| Error::Internal)?;
    let (kind, bytes) = drawn.ok_or(Error::Internal)?;
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

async fn order_code(app: &App, key: &Key, wanted: Wanted) -> Result<Code, Error> {
    let order = find(app, key, wanted).await?;
    qr_codes::find(&app.db, &order.shop, order.id, qr_codes::TRACKING)
        .await?
        .ok_or(Error::QrNotFound)
}

async fn parcel_code(app: &App, key: &Key, wanted: Wanted, parcel: &Parcel) -> Result<Code, Error> {
    let order = find(app, key, wanted).await?;
    let number = parcel.tracking_number.as_str();
    shipments::code(&app.db, &order.shop, order.id, number)
        .await?
        .ok_or(Error::QrNotFound)
}

/// Finds the order. An order of a shop that the key does not open is answered as if it did not
/// exist.
async fn find(app: &App, key: &Key, wanted: Wanted) -> Result<orders::StoredOrder, Error> {
    let shops = match (wanted.shop, &key.shops.0) {
        (Some(shop), _) if !key.shops.have(&shop) => return Err(Error::OrderNotFound),
        (Some(shop), _) => Some(vec![shop]),
        (None, opened) => opened.clone(),
    };
    match orders::find(&app.db, wanted.id, shops).await? {
        OrderLookup::One(order) => Ok(*order),
        OrderLookup::None => Err(Error::OrderNotFound),
        OrderLookup::Several => Err(Error::OrderAmbiguous),
    }
}
