//! Payments, checkouts and calls to the payment provider.

pub mod checkout_api;
pub mod events;
pub mod storm;
