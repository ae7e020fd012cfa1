//! Tests of the parts every process shares.

mod money;
mod order;
mod qr;
mod redact;
mod signature;
mod sql;
