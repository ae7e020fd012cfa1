//! Tests of the operators' commands, health checks and metrics.

pub mod backup;
pub mod checkpoints;
pub mod command;
pub mod connect;
pub mod dead_letters;
pub mod doctor;
pub mod health;
pub mod installing;
pub mod jobs;
pub mod live;
pub mod metrics;
pub mod moving;
pub mod orders;
pub mod pauses;
pub mod pooler;
pub mod refused;
pub mod replay;
pub mod sandbox;
pub mod setup;
pub mod statements;
pub mod supervisor;
pub mod telemetry;
pub mod terminal;
pub mod traces;
pub mod version;
pub mod zone;
