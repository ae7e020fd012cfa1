//! What can be made to happen at the payment provider alone.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use common::money::Currency;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Unusable, read};
use crate::Price;
use crate::server::App;

pub fn routes() -> Router<App> {
    Router::new()
        .route("/_control/invoice", post(invoice))
        .route("/_control/price", post(price))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewInvoice {
    subscription: String,
    months: Option<u32>,
}

async fn invoice(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Unusable> {
    let new: NewInvoice = read(&headers, &body)?;
    let billed = app.payment.bill(&new.subscription, new.months);
    let invoice = billed.map_err(Unusable)?;
    Ok(Json(json!({"invoice": invoice})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPrice {
    id: String,
    name: String,
    amount: i64,
    currency: String,
    months: Option<u32>,
}

async fn price(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Unusable> {
    let new: NewPrice = read(&headers, &body)?;
    let expected = |what: &str| Unusable(what.to_owned());
    let currency = Currency::parse(&new.currency);
    let currency = currency.ok_or_else(|| expected("currency: expected three letters"))?;
    if new.amount <= 0 {
        return Err(expected("amount: expected minor units, 1 or more"));
    }
    if new.months.is_some_and(|months| !(1..=36).contains(&months)) {
        return Err(expected(
            "months: expected 1 to 36, or none for a price paid once",
        ));
    }
    let id = json!({"id": new.id});
    app.payment.add_price(Price {
        id: new.id,
        name: new.name,
        amount: new.amount,
        currency,
        months: new.months,
    });
    Ok(Json(id))
}
