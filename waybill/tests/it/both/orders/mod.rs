//! Orders, from their deliveries to what follows from them.

pub mod deliveries;
pub mod providers;
pub mod races;
pub mod sale;
pub mod storm;
