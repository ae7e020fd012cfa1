//! Tests of the parts every process shares.

mod agreement_history;
mod license;
mod money;
mod notification;
mod order;
mod order_history;
mod payment;
mod payment_history;
mod privacy;
mod qr;
mod redact;
mod settlement;
mod signature;
mod sql;
