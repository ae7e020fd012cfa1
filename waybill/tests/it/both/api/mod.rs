//! What the API stores, reads by cursors, and sends out.

pub mod endpoints;
pub mod events;
pub mod orders;
pub mod reading;
pub mod webhooks;
