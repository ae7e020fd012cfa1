//! Orders, from their deliveries to what follows from them.

pub mod notifications;
pub mod providers;
pub mod samples;
