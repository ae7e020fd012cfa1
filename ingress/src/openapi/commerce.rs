//! The operations of checkouts, orders and QR codes.

use std::time::Duration;

use domain::api_key::Scope;
use domain::origins::NotAllowed;
use qr::{QrConfigError, QrError, QrResult};
use serde_json::{Value, json};
use store::orders::list::{Page, STATES};
use store::orders::view::View;

use super::bodies;
use super::operation::{Operation, Shape, get, in_header, in_path, in_query, post};
use crate::checkout::problem::{CheckoutError, CheckoutProblem};
use crate::error::Error;
use crate::routes::{CheckoutResponse, MOST_ORDERS, USUAL_ORDERS};

/// The errors of every request about an order.
const OF_AN_ORDER: [Error; 4] = [
    Error::MissingScope(Scope::OrdersRead),
    Error::ShopQuery,
    Error::OrderNotFound,
    Error::OrderAmbiguous,
];

/// The errors of every call with an API key.
pub const OF_A_KEY: [Error; 4] = [
    Error::ApiKey,
    Error::RateLimited(Duration::from_secs(1)),
    Error::Unavailable,
    Error::Internal,
];

pub const OF_A_BODY: [Error; 4] = [
    Error::FormEncoding,
    Error::BodyTooLarge,
    Error::BodyTooSlow,
    Error::BodyIncomplete,
];

const fn wrong(what: CheckoutProblem) -> Error {
    Error::Checkout(CheckoutError { item: None, what })
}

const OF_A_CHECKOUT: [Error; 17] = [
    Error::MissingScope(Scope::CheckoutWrite),
    Error::CheckoutShop,
    wrong(CheckoutProblem::NotJson),
    wrong(CheckoutProblem::Items),
    wrong(CheckoutProblem::Article),
    wrong(CheckoutProblem::ReturnUrl(NotAllowed::OtherOrigin)),
    wrong(CheckoutProblem::Amount),
    wrong(CheckoutProblem::Currency),
    Error::CheckoutAmount,
    Error::CheckoutCurrency,
    Error::CheckoutRefused,
    Error::CheckoutPaid,
    Error::CheckoutCancelled,
    Error::IdempotencyKeyReused,
    Error::ProviderTimeout(Duration::from_secs(1)),
    Error::CheckoutNotSetUp,
    Error::CheckoutAddress,
];

const OF_A_CODE: [Error; 9] = [
    Error::MissingScope(Scope::QrWrite),
    Error::NotJson,
    Error::NotAnObject,
    Error::Field { line: 1, column: 9 },
    Error::Qr(QrError::Empty("order_id")),
    Error::Qr(QrError::AmountNotPositive),
    Error::Qr(QrError::CurrencyNotSupported),
    Error::Qr(QrError::UnknownKind),
    Error::QrSize(QrConfigError::BoxSize(101)),
];

/// The parameters of a further operation on an order that was shown.
const OF_THE_SAME: [(&str, &str); 2] = [
    ("order_id", "$response.body#/order_id"),
    ("shop", "$response.body#/shop"),
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
    .answers::<View>(200, "The order.")
    .link("getOrderQrPng", "Its QR code, as PNG.", &OF_THE_SAME)
    .link("getOrderQrSvg", "Its QR code, as SVG.", &OF_THE_SAME);
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
    let mut all = vec![checkout(), draw(), list(), order];
    all.extend(codes);
    all.extend(parcels.map(|it| it.parameters([tracking_number()])));
    all
}

fn list() -> Operation {
    get("/api/commerce/orders", "listOrders", "Orders, page by page")
        .tag("Orders")
        .needs("apiKey")
        .about(
            "The newest first, by `created_at`; without one, by when its first delivery came. Give `next` \
             as `after` for the next page, with the same filters, until it is null. Orders that are added \
             meanwhile neither repeat nor hide another. A page looks at 1,000 orders at most for those \
             that fit `updated_after` and the statuses, so it may have few or none and yet a `next`; to \
             follow what changes, read `/api/events`. A key that is limited to shops sees theirs alone.",
        )
        .parameters(filters())
        .answers::<Page>(200, "The orders.")
        .errors(&OF_A_KEY)
        .errors(&[
            Error::MissingScope(Scope::OrdersRead),
            Error::OrdersQuery,
        ])
}

fn filters() -> [Value; 10] {
    let shop = json!({"type": "string", "pattern": r"^[^\x00]*$"});
    let text = json!({"type": "string", "pattern": r"^[^\x00]+$"});
    let state = json!({"type": "string", "enum": STATES});
    let time = json!({"type": "string", "format": "date-time"});
    let after = json!({"type": "string", "minLength": 1});
    let limit =
        json!({"type": "integer", "minimum": 1, "maximum": MOST_ORDERS, "default": USUAL_ORDERS});
    let at = "2026-11-20T00:00:00Z";
    [
        in_query("shop", "Those of this shop.", &shop, "shop.example"),
        in_query(
            "name",
            "What the shop calls it, with or without its `#`, which is `%23` in a query.",
            &text,
            "#1042",
        ),
        in_query(
            "state",
            "Of `fulfillment`; `none`: nothing was asked yet.",
            &state,
            "requested",
        ),
        in_query(
            "financial_status",
            "Exactly; `none`: null. So with the others.",
            &text,
            "paid",
        ),
        in_query(
            "payment_status",
            "What the payments come to.",
            &text,
            "paid",
        ),
        in_query(
            "fulfillment_status",
            "The storefront's word; `none`: not shipped.",
            &text,
            "none",
        ),
        in_query("created_after", "Those of this time or later.", &time, at),
        in_query(
            "updated_after",
            "Those that changed at this time or later.",
            &time,
            at,
        ),
        in_query(
            "after",
            "`next` of the page before.",
            &after,
            "MTc5NTE4NDk4NDAwMC44MjA5ODI5MTE5NDYxNTQ1MDguc2hvcC5leGFtcGxl",
        ),
        in_query("limit", "How many at most.", &limit, USUAL_ORDERS),
    ]
}

fn checkout() -> Operation {
    let key = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"});
    post(
        "/api/commerce/checkout",
        "openCheckout",
        "Open a page to pay on",
    )
    .tag("Orders")
    .needs("apiKey")
    .about(
        "And its order, which is pending until it is paid. Prices of variants are the \
             storefront's, never the caller's. Fields may be in camelCase too, `lineItems` and \
             `returnUrl`; one that is not known, or given in both spellings, is refused; of an item, \
             what is not known is passed over. Ask again with the same `Idempotency-Key` and the \
             same body, and the answer is the same, until its page has ended: then it is another \
             page for the same order.",
    )
    .parameters([in_header(
        "Idempotency-Key",
        "Your own name for this checkout; it is remembered until 24 hours after its page has ended.",
        &key,
        "basket-7",
    )])
    .takes(bodies::checkout())
    .answers::<CheckoutResponse>(201, "The page, and the order.")
    .link(
        "getOrder",
        "How the order stands.",
        &[("order_id", "$response.body#/order_id")],
    )
    .errors_as(Shape::Checkout)
    .errors(&OF_A_KEY)
    .errors(&OF_A_BODY)
    .errors(&OF_A_CHECKOUT)
}

fn draw() -> Operation {
    post("/api/commerce/qr", "drawQr", "Draw a QR code")
        .tag("Orders")
        .needs("apiKey")
        .about(
            "Nothing is stored, and the order or parcel need not exist. What another kind needs is \
             passed over. Fields may be in camelCase too; one that is not known is refused. How much \
             text fits depends on the level: 2,953 bytes at `L`, 1,273 at `H`.",
        )
        .takes(bodies::qr())
        .answers::<QrResult>(200, "The picture, and what it leads to.")
        .errors(&OF_A_KEY)
        .errors(&OF_A_BODY)
        .errors(&OF_A_CODE)
}

fn of_an_order(operation: Operation) -> Operation {
    operation
        .tag("Orders")
        .needs("apiKey")
        .parameters([order_id(), shop()])
        .errors(&OF_A_KEY)
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

/// The parameter `?shop=`.
pub fn shop() -> Value {
    let schema = json!({"type": "string", "pattern": r"^[A-Za-z0-9._:-]*$"});
    let about = "The shop's domain in lower case, or empty for the order without a shop. Needed when several \
                 shops have an order with this id.";
    in_query("shop", about, &schema, "shop.example")
}
