//! Orders and their QR codes.

use common::store::orders::view::View;
use serde_json::{Value, json};

use super::operation::{Operation, get, in_path, in_query};
use crate::error::Error;

/// What every request about an order may be answered.
const OF_AN_ORDER: [Error; 7] = [
    Error::ApiKey,
    Error::OrderId,
    Error::ShopQuery,
    Error::OrderNotFound,
    Error::OrderAmbiguous,
    Error::Unavailable,
    Error::Internal,
];

pub fn operations() -> Vec<Operation> {
    let qr = |path, id, summary, media| {
        of_an_order(get(path, id, summary))
            .answers_with(200, "The picture.", media)
            .errors(&[Error::QrNotFound])
    };
    let order = of_an_order(get(
        "/api/commerce/orders/{order_id}",
        "getOrder",
        "An order as it stands",
    ))
    .about(
        "Its statuses, amounts, lines, parcels and refunds, without personal data. An order is known a \
         moment after its first delivery.",
    )
    .answers::<View>(200, "The order.");
    let parcels = [
        qr(
            "/api/commerce/orders/{order_id}/parcels/{tracking_number}/qr.png",
            "getParcelQrPng",
            "The QR code of a parcel's page, as PNG",
            "image/png",
        ),
        qr(
            "/api/commerce/orders/{order_id}/parcels/{tracking_number}/qr.svg",
            "getParcelQrSvg",
            "The QR code of a parcel's page, as SVG",
            "image/svg+xml",
        ),
    ];
    let codes = [
        qr(
            "/api/commerce/orders/{order_id}/qr.png",
            "getOrderQrPng",
            "The QR code of an order's page, as PNG",
            "image/png",
        ),
        qr(
            "/api/commerce/orders/{order_id}/qr.svg",
            "getOrderQrSvg",
            "The QR code of an order's page, as SVG",
            "image/svg+xml",
        ),
    ];
    let mut all = vec![order];
    all.extend(codes);
    all.extend(parcels.map(|it| it.parameters([tracking_number()])));
    all
}

fn of_an_order(operation: Operation) -> Operation {
    operation
        .tag("Orders")
        .needs("apiKey")
        .parameters([order_id(), shop()])
        .errors(&OF_AN_ORDER)
}

pub fn order_id() -> Value {
    let schema = json!({"type": "integer", "format": "int64", "minimum": 1});
    in_path(
        "order_id",
        "The storefront's id of the order.",
        &schema,
        820_982_911_946_154_508_i64,
    )
}

pub fn tracking_number() -> Value {
    let schema = json!({"type": "string", "minLength": 1, "pattern": r"^[^\x00]+$"});
    in_path(
        "tracking_number",
        "The carrier's number, percent-encoded.",
        &schema,
        "SP0042",
    )
}

/// `?shop=`
pub fn shop() -> Value {
    let schema = json!({"type": "string", "pattern": r"^[A-Za-z0-9._:-]*$"});
    let about = "The shop's domain in lower case, or empty for the order without a shop. Needed when several \
                 shops have an order with this id.";
    in_query("shop", about, &schema, "shop.example")
}
