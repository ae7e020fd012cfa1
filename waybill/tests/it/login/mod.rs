//! The device login, tokens, licences.

pub mod command;
pub mod device_flow;
pub mod identity_provider;
pub mod license_commands;
pub mod responses;
pub mod settings;
pub mod standard_clients;
pub mod tiers;
pub mod validation;
