//! What workers, ingress and commands all do with the database and the services around it.

pub mod exports;
pub mod letters;
