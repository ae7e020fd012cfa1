//! Statements, locks and migrations, on SQLite and on PostgreSQL.

mod events;
mod migrations;
pub mod sql;
mod webhook_ids;
