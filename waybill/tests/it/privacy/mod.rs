//! Tests of privacy requests, and of how long data is kept.

pub mod api;
pub mod deadline;
pub mod file;
pub mod key;
pub mod mail;
