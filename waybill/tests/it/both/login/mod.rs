//! Logins and licences that several processes see at once.

pub mod device_flow;
pub mod licenses;
pub mod limit;
