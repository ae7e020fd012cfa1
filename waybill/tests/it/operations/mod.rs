//! Tests of the operators' commands, health checks and metrics.

pub mod alerts;
pub mod attention;
pub mod books;
pub mod checkpoints;
pub mod command;
pub mod connect;
pub mod doctor;
pub mod installing;
pub mod live;
pub mod orders;
pub mod refused;
pub mod sandbox;
pub mod setup;
pub mod terminal;
pub mod version;
pub mod zone;
