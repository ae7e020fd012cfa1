//! Tests of privacy requests, and of how long data is kept.

pub mod api;
pub mod commands;
pub mod deadline;
pub mod erasure;
pub mod export;
pub mod intake;
pub mod journal;
pub mod left;
pub mod mail;
pub mod person;
pub mod retention;
pub mod schema;
pub mod shop_redaction;
pub mod storm;
pub mod worlds;
