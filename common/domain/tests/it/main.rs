//! The tests of the crate `domain`.

// The JSON of a whole record takes more steps than the compiler's 128.
#![recursion_limit = "256"]

mod agreement_history;
mod api_key;
mod carrier;
mod catalogue;
mod checkout;
mod classes;
mod code;
mod corpus;
mod customer;
mod due;
mod endpoint;
mod event_documents;
mod event_pattern;
mod events;
mod job;
mod license;
mod money;
mod notification;
mod order;
mod order_history;
mod origins;
mod outcomes;
mod pause;
mod payment;
mod payment_history;
mod privacy;
mod profile;
mod record;
mod settlement;
mod shapes;
mod signature;
mod subscription;
mod time;
mod trace;
mod woocommerce;
