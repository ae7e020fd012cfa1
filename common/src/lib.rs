//! What every Waybill process shares.

pub mod bus;
pub mod clock;
pub mod config;
pub mod due;
pub mod exports;
pub mod job;
pub mod json;
pub mod license;
pub mod logs;
pub mod metrics;
pub mod money;
pub mod notification;
pub mod order;
pub mod payment;
pub mod privacy;
pub mod process;
pub mod provider;
pub mod qr;
pub mod redact;
pub mod shutdown;
pub mod signature;
pub mod sql;
pub mod store;
pub mod task;
pub mod templates;
