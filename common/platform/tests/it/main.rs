//! The tests of the crate `platform`.

mod backoff;
mod clock;
mod counted;
mod open_metrics;
mod redact;
mod task;
mod trace;
mod zone;
