//! The tests of the crate `console`.

mod access;
mod address;
