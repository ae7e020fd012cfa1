//! The tests of the crate `qr`.

mod corpus;
mod qr;
