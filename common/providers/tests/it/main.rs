//! The tests of the crate `providers`.

mod books;
mod breaker;
mod endpoints;
mod exports;
mod identity;
mod journal;
