//! Operators' acts on jobs, and on the database itself.

pub mod attention;
pub mod backup;
pub mod dead_letters;
pub mod doctor;
pub mod health;
pub mod jobs;
pub mod metrics;
pub mod moving;
pub mod pauses;
pub mod pooler;
pub mod requeue;
pub mod samples;
pub mod shapes;
pub mod statements;
pub mod supervisor;
pub mod telemetry;
pub mod traces;
