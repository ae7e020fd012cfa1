//! What workers, ingress and commands do alike with the database and what is around it.

pub mod exports;
pub mod letters;
