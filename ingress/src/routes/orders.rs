//! `GET /api/commerce/orders`, `GET /api/commerce/orders/{order_id}` and its QR codes, for clients
//! with an API key (docs/orders.md).

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use domain::profile;
use domain::time::Timestamp;
use qr::Format;
use serde::Deserialize;
use store::orders::list::{self, Cursor};
use store::orders::view::Order;
use store::orders::{self, OrderLookup};
use utoipa::IntoParams;

use crate::App;
use crate::api_key::{Holder, OrdersRead};
use crate::error::Error;
use crate::openapi::operation::{Input, Operation, get, tagged};

type Key = Holder<OrdersRead>;

/// The parameters of a further operation on an order that was shown.
const THE_SAME: [(&str, &str); 2] = [
    ("order_id", "$response.body#/order_id"),
    ("shop", "$response.body#/shop"),
];

pub fn routes() -> Vec<Operation> {
    let png = |it: Operation| it.answers_with(200, "The picture.", ["image/png"]);
    let svg = |it: Operation| it.answers_with(200, "The picture.", ["image/svg+xml"]);
    let order = |format| {
        move |key: Key, State(app): State<Arc<App>>, wanted: Wanted| async move {
            let link = order_link(&app, &key, wanted).await?;
            picture(app, format, link).await
        }
    };
    let parcel = |format| {
        move |key: Key, State(app): State<Arc<App>>, wanted: Wanted, parcel: Parcel| async move {
            let link = parcel_link(&app, &key, wanted, &parcel).await?;
            picture(app, format, link).await
        }
    };
    let list = get("/api/commerce/orders", list)
        .is("listOrders", "Orders, page by page")
        .about(
            "The newest first, by `created_at`; without one, by when its first delivery came. Give `next` \
             as `after` for the next page, with the same filters, until it is null. Orders that are added \
             meanwhile neither repeat nor hide another. A page looks at 1,000 orders at most for those \
             that fit `updated_after` and the statuses, so it may have few or none and yet a `next`; to \
             follow what changes, read `/api/events`. A key that is limited to shops sees theirs alone.",
        )
        .answers::<list::OrderList>(200, "The orders.");
    let show = get("/api/commerce/orders/{order_id}", show)
        .is("getOrder", "An order as it stands")
        .about(
            "Its statuses, amounts, lines, parcels and refunds, without personal data. An order is known a \
             moment after its first delivery.",
        )
        .answers::<Order>(200, "The order.")
        .link("getOrderQrPng", "Its QR code, as PNG.", &THE_SAME)
        .link("getOrderQrSvg", "Its QR code, as SVG.", &THE_SAME);
    let order_png = get("/api/commerce/orders/{order_id}/qr.png", order(Format::Png))
        .is("getOrderQrPng", "The QR code of an order's page, as PNG")
        .errors(&[Error::QrNotFound]);
    let order_svg = get("/api/commerce/orders/{order_id}/qr.svg", order(Format::Svg))
        .is("getOrderQrSvg", "The QR code of an order's page, as SVG")
        .errors(&[Error::QrNotFound]);
    let path = "/api/commerce/orders/{order_id}/parcels/{tracking_number}/qr.png";
    let parcel_png = get(path, parcel(Format::Png))
        .is("getParcelQrPng", "The QR code of a parcel's page, as PNG");
    let path = "/api/commerce/orders/{order_id}/parcels/{tracking_number}/qr.svg";
    let parcel_svg = get(path, parcel(Format::Svg))
        .is("getParcelQrSvg", "The QR code of a parcel's page, as SVG");
    let pictures = [
        png(order_png),
        svg(order_svg),
        png(parcel_png),
        svg(parcel_svg),
    ];
    tagged("Orders", [list, show].into_iter().chain(pictures))
}

/// The order that a path names.
#[derive(Deserialize, IntoParams)]
pub struct OrderId {
    /// The storefront's id of the order.
    #[param(minimum = 1, example = 820_982_911_946_154_508_i64)]
    order_id: i64,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Shop {
    /// The shop's domain in lower case, or empty for the order without a shop. Needed when several shops have an order with this id.
    #[param(pattern = r"^[A-Za-z0-9._:-]*$", example = "shop.example")]
    shop: Option<String>,
}

/// The order that a request names by its path and, if needed, `?shop=`. An id that no order can
/// have, such as `A-17`, is answered like one that no order has.
pub struct Wanted {
    id: i64,
    shop: Option<String>,
}

impl FromRequestParts<Arc<App>> for Wanted {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let path = Path::<OrderId>::from_request_parts(parts, app).await;
        let id = path.map(|Path(path)| path.order_id).unwrap_or_default();
        if id <= 0 {
            return Err(Error::OrderNotFound);
        }
        let shop = Query::<Shop>::from_request_parts(parts, app).await;
        let Query(Shop { shop }) = shop.map_err(|_| Error::ShopQuery)?;
        let is_nameless_or_shop = |shop: &str| shop.is_empty() || profile::is_shop(shop);
        if !shop.as_deref().is_none_or(is_nameless_or_shop) {
            return Err(Error::ShopQuery);
        }
        Ok(Wanted { id, shop })
    }
}

impl Input for Wanted {
    fn describe(operation: Operation) -> Operation {
        operation.in_path::<OrderId>().in_query::<Shop>().errors(&[
            Error::ShopQuery,
            Error::OrderNotFound,
            Error::OrderAmbiguous,
        ])
    }
}

/// The most orders of a page, and how many a page has that asks for no number.
const MOST_ORDERS: usize = 1000;
const USUAL_ORDERS: usize = 100;

/// What a request for a list asks for. Each text that is given names something, so an empty one is
/// a mistake: `?name=#1007` without percent-encoding ends before the `#`.
pub struct Listed {
    filter: list::Filter,
    after: Option<Cursor>,
    limit: usize,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Given {
    /// Those of this shop.
    #[param(pattern = r"^[^\x00]*$", example = "shop.example")]
    shop: Option<String>,
    /// What the shop calls it, with or without its `#`, which is `%23` in a query.
    #[param(pattern = r"^[^\x00]+$", example = "#1042")]
    name: Option<String>,
    /// Of `fulfillment`; `none`: nothing was asked yet.
    #[param(example = "requested")]
    state: Option<String>,
    /// Exactly; `none`: null. So with the others.
    #[param(pattern = r"^[^\x00]+$", example = "paid")]
    financial_status: Option<String>,
    /// What the payments come to.
    #[param(pattern = r"^[^\x00]+$", example = "paid")]
    payment_status: Option<String>,
    /// The storefront's word; `none`: not shipped.
    #[param(pattern = r"^[^\x00]+$", example = "none")]
    fulfillment_status: Option<String>,
    /// Those of this time or later.
    #[param(format = DateTime, example = "2026-11-20T00:00:00Z")]
    created_after: Option<String>,
    /// Those that changed at this time or later.
    #[param(format = DateTime, example = "2026-11-20T00:00:00Z")]
    updated_after: Option<String>,
    /// `next` of the page before.
    #[param(
        min_length = 1,
        example = "MTc5NTE4NDk4NDAwMC44MjA5ODI5MTE5NDYxNTQ1MDguc2hvcC5leGFtcGxl"
    )]
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100, example = 100)]
    limit: Option<usize>,
}

impl Input for Listed {
    fn describe(operation: Operation) -> Operation {
        operation
            .in_query::<Given>()
            .one_of("state", &list::STATES)
            .errors(&[Error::OrdersQuery])
    }
}

impl FromRequestParts<Arc<App>> for Listed {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let query = Query::<Given>::from_request_parts(parts, app).await;
        let Query(given) = query.map_err(|_| Error::OrdersQuery)?;
        let limit = given.limit.unwrap_or(USUAL_ORDERS);
        let time = |text: Option<String>| {
            let time = text.map(|text| text.parse::<Timestamp>()).transpose();
            time.map_err(|_| Error::OrdersQuery)
        };
        let after = given.after.map(|text| text.parse::<Cursor>()).transpose();
        let filter = list::Filter {
            shops: given.shop.map(|shop| vec![shop.to_ascii_lowercase()]),
            name: given.name,
            state: given.state,
            financial_status: given.financial_status,
            payment_status: given.payment_status,
            fulfillment_status: given.fulfillment_status,
            created_after: time(given.created_after)?,
            updated_after: time(given.updated_after)?,
        };
        let texts = [
            &filter.name,
            &filter.state,
            &filter.financial_status,
            &filter.payment_status,
            &filter.fulfillment_status,
        ];
        let is_text = |text: &String| !text.is_empty() && !text.contains('\0');
        let is_state = |state: &String| list::STATES.contains(&state.as_str());
        let is_shop = |shops: &Vec<String>| shops.iter().all(|shop| !shop.contains('\0'));
        let fits = (1..=MOST_ORDERS).contains(&limit)
            && filter.state.as_ref().is_none_or(is_state)
            && texts.into_iter().flatten().all(is_text)
            && filter.shops.as_ref().is_none_or(is_shop);
        if !fits {
            return Err(Error::OrdersQuery);
        }
        Ok(Listed {
            filter,
            after: after.map_err(|_| Error::OrdersQuery)?,
            limit,
        })
    }
}

/// The orders of the shops that the key opens, page by page. A shop that it does not open is
/// answered as if it had no orders.
pub async fn list(
    key: Key,
    State(app): State<Arc<App>>,
    listed: Listed,
) -> Result<Response, Error> {
    let mut filter = listed.filter;
    filter.shops = match filter.shops {
        Some(named) => Some(named.into_iter().filter(|it| key.shops.have(it)).collect()),
        None => key.shops.0.clone(),
    };
    let page = list::page(&app.db, &filter, listed.after.as_ref(), listed.limit).await?;
    Ok(Json(page).into_response())
}

/// The order's state. `?shop=` is needed when several shops have an order with this id.
pub async fn show(
    key: Key,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let order = find(&app, &key, wanted).await?;
    Ok(Json(order.at(&app.config.public_url)).into_response())
}

/// The tracking number in a request's path.
#[derive(Deserialize, IntoParams)]
pub struct Parcel {
    /// The carrier's number, percent-encoded.
    #[param(min_length = 1, pattern = r"^[^\x00]+$", example = "SP0042")]
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

impl Input for Parcel {
    fn describe(operation: Operation) -> Operation {
        operation.in_path::<Parcel>().errors(&[Error::QrNotFound])
    }
}

/// Draws the code of a link, in the size and at the level of the settings.
async fn picture(app: Arc<App>, format: Format, link: String) -> Result<Response, Error> {
    // Drawing a picture with large boxes takes some milliseconds.
    let drawn = tokio::task::spawn_blocking(move || {
        let symbol = app.config.qr.of_link(&link)?;
        Some(match format {
            Format::Png => ("image/png", symbol.png()),
            Format::Svg => ("image/svg+xml", symbol.svg().into_bytes()),
        })
    });
    let drawn = drawn.await.map_err(|_| Error::Internal)?;
    let (kind, bytes) = drawn.ok_or(Error::Internal)?;
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

async fn order_link(app: &App, key: &Key, wanted: Wanted) -> Result<String, Error> {
    let order = find(app, key, wanted).await?;
    let record = orders::record(&app.db, &(order.shop, order.id)).await?;
    let link = record.and_then(|record| record.own.page_url);
    link.ok_or(Error::QrNotFound)
}

async fn parcel_link(
    app: &App,
    key: &Key,
    wanted: Wanted,
    parcel: &Parcel,
) -> Result<String, Error> {
    let order = find(app, key, wanted).await?;
    let record = orders::record(&app.db, &(order.shop, order.id)).await?;
    let link = record.and_then(|mut record| record.own.parcel_urls.remove(&parcel.tracking_number));
    link.ok_or(Error::QrNotFound)
}

/// Finds the order. An order of a shop that the key does not open is answered as if it did not
/// exist.
async fn find(app: &App, key: &Key, wanted: Wanted) -> Result<Order, Error> {
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
