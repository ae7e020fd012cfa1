//! Payments, checkouts and calls to the payment provider.

pub mod calls;
pub mod checkout_api;
pub mod events;
pub mod hazards;
pub mod storm;
