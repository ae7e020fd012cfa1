//! Tests of payments, checkouts and calls to the payment provider.

pub mod calls;
pub mod checkout;
pub mod checkout_api;
pub mod events;
pub mod hazards;
pub mod provider_api;
pub mod storm;
