//! The tables, a file each; functions are verbs used qualified: `jobs::ready(..)`.
//! SQL stands here alone.

pub mod api_keys;
pub mod events;
pub mod fulfillments;
pub mod jobs;
pub mod migrations;
pub mod orders;
pub mod qr_codes;
pub mod webhook_ids;
