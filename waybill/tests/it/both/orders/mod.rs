//! Orders, from their deliveries to what follows from them.

pub mod agreements;
pub mod deliveries;
pub mod providers;
pub mod storm;
pub mod topics;
