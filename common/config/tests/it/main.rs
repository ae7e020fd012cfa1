//! The tests of the crate `config`.

mod env_file;
mod mail;
mod values;
