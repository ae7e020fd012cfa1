//! The rules of the product: orders, payments, licences, privacy requests and jobs. Everything
//! here is pure: it uses no clock, setting, database or network.

pub mod account;
pub mod api_key;
pub mod attention;
pub mod branding;
pub mod carrier;
pub mod catalogue;
pub mod checkout;
pub mod code;
pub mod connection;
pub mod customer;
pub mod due;
pub mod endpoint;
pub mod envelope;
pub mod event;
pub mod job;
pub mod json;
pub mod license;
pub mod money;
pub mod names;
pub mod notification;
pub mod order;
pub mod origins;
pub mod pause;
pub mod payment;
pub mod privacy;
pub mod profile;
pub mod reconciliation;
pub mod record;
pub mod redact;
pub mod sample;
pub mod shape;
pub mod signature;
pub mod subscription;
pub mod time;
pub mod trace;
