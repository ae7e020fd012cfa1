//! The operations of the pages to which QR codes lead.

use std::time::Duration;

use serde_json::json;

use super::commerce::{order_id, shop, tracking_number};
use super::operation::{Operation, Shape, get, in_query};
use crate::error::Error;

const WAIT: Duration = Duration::from_secs(1);

const OF_A_PAGE: [Error; 3] = [
    Error::RateLimited(WAIT),
    Error::Unavailable,
    Error::Internal,
];

pub fn operations() -> Vec<Operation> {
    let amount = json!({"type": "string"});
    let track = of_an_order(get(
        "/orders/{order_id}/track",
        "showOrderPage",
        "How far an order is",
    ));
    let pay = of_an_order(get("/pay/{order_id}", "showPaymentPage", "What is due for an order"))
        .about(
            "The amount is the order's own. What the link asks for is only compared with it, and the page \
             warns when it differs.",
        )
        .parameters([
            in_query("amount", "What the link asks for.", &amount, "199.00"),
            in_query("currency", "Its currency.", &amount, "EUR"),
        ]);
    let tracking = page(get(
        "/tracking/{tracking_number}",
        "showParcelPage",
        "The parcels with a tracking number",
    ))
    .about("It says nothing of their orders.")
    .parameters([tracking_number()])
    .errors(&[Error::ParcelNotFound]);
    let front = page(get("/", "showFrontPage", "What runs here, and where to go"))
        .about("The same wherever Waybill runs: it says nothing about the deployment.");
    vec![front, track, tracking, pay]
}

fn of_an_order(operation: Operation) -> Operation {
    page(operation)
        .answers_with(
            300,
            "Several shops have an order with this id: a link to each.",
            "text/html",
        )
        .parameters([order_id(), shop()])
        .errors(&[Error::ShopQuery, Error::OrderNotFound])
}

fn page(operation: Operation) -> Operation {
    operation
        .tag("Pages")
        .errors_as(Shape::Page)
        .answers_with(200, "The page.", "text/html")
        .errors(&OF_A_PAGE)
}
