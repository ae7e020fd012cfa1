//! The sandbox's tests, over real HTTP.

mod checkout;
mod checkout_page;
mod control;
mod dashboard;
mod delivery_faults;
mod faults;
mod generations;
mod identity;
mod identity_api;
mod identity_control;
mod identity_page;
mod intents;
mod payment;
mod payment_storm;
mod rebinding;
mod sample;
mod storefront;
mod storm;
mod subscriptions;
mod support;
mod templates;
