//! Privacy requests, and how long data is kept.

pub mod commands;
pub mod erasure;
pub mod export;
pub mod intake;
pub mod journal;
pub mod left;
pub mod person;
pub mod retention;
pub mod shop_redaction;
pub mod storm;
pub mod worlds;
