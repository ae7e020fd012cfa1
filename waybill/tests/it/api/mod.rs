//! Tests of HTTP from the callers' side: webhooks, the API, pages and events.

pub mod answers;
pub mod api_keys;
pub mod api_test;
pub mod asyncapi;
pub mod client_generators;
pub mod codes;
pub mod events_schema;
pub mod hostile_pages;
pub mod openapi;
pub mod pages;
pub mod profiles;
pub mod provider_libraries;
pub mod qr;
pub mod webhooks;
