//! The pages for people: the hosted checkout and a dashboard.

mod checkout;
mod dashboard;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use domain::money::Money;

use super::Payment;
use crate::page::own_forms_only;

pub fn routes(payment: Payment) -> Router {
    Router::new()
        .route("/checkout/{session_id}", get(checkout::show))
        .route("/checkout/{session_id}/pay", post(checkout::pay))
        .route("/checkout/{session_id}/decline", post(checkout::decline))
        .route("/dashboard", get(dashboard::show))
        .route("/dashboard/refund", post(dashboard::refund))
        .route("/dashboard/cancel", post(dashboard::cancel))
        .layer(middleware::from_fn(own_forms_only))
        .with_state(payment)
}

/// An amount with its currency: `19.99 USD`.
fn amount(money: Money) -> String {
    format!("{money} {}", money.currency)
}
