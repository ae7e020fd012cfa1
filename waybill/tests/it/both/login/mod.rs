//! Logins and licences that several processes see at once.

pub mod licenses;
pub mod limit;
