//! Tests of the parts every process shares.

mod money;
mod order;
mod order_history;
mod payment;
mod payment_history;
mod qr;
mod redact;
mod signature;
mod sql;
