//! The statements of `store`, each as a function on the simulated [`Database`](crate::database::Database). A file is
//! named after the file of the store, and a function after the function. `tests/it/differential.rs` makes the same
//! statements here and there, and compares the rows.

pub mod broker_cursor;
pub mod endpoints;
pub mod event_head;
pub mod events;
pub mod jobs;
pub mod leases;
pub mod missed;
pub mod refunds;
pub mod webhook_ids;
