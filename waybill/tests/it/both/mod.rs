//! What rests on transactions, statements, locks, the broker, or on how something fails, is tested on both backends: on SQLite
//! with the bus within the process, and on PostgreSQL with RabbitMQ.

pub mod api;
pub mod connections;
pub mod console;
pub mod faults;
pub mod login;
pub mod operations;
pub mod orders;
pub mod payments;
pub mod privacy;
pub mod reconciliation;
