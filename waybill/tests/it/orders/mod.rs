//! Orders, from their deliveries to what follows from them.

pub mod agreements;
pub mod documented;
pub mod histories;
pub mod notifications;
pub mod outcomes;
pub mod providers;
pub mod samples;
pub mod topics;
