//! The tests of the crate `providers`.

mod breaker;
mod endpoints;
mod exports;
mod identity;
mod journal;
