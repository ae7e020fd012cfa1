//! Payments, checkouts and what is asked of the payment provider.

pub mod calls;
pub mod checkout;
pub mod checkout_api;
pub mod events;
pub mod hazards;
pub mod provider_api;
pub mod storm;
