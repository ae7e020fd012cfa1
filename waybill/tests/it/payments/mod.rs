//! Tests of payments, checkouts and calls to the payment provider.

pub mod calls;
pub mod checkout;
pub mod documented;
pub mod gone_back;
pub mod hazards;
pub mod provider_api;
pub mod subscriptions;
