//! Tests of payments, checkouts and calls to the payment provider.

pub mod checkout;
pub mod provider_api;
