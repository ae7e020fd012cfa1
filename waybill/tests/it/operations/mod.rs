//! What operators see and do.

pub mod command;
pub mod dead_letters;
pub mod doctor;
pub mod health;
pub mod installing;
pub mod metrics;
pub mod replay;
pub mod sandbox;
pub mod terminal;
pub mod traces;
