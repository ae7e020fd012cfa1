//! The tests of the crate `server`.

mod client_address;
mod connections;
mod filter;
mod probes;
