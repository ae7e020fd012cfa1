//! What must hold for every input, whoever sends it. A function for each target takes the bytes of one input, and
//! panics when something does not hold. The programs in `src/bin` give them to libFuzzer.

#![forbid(unsafe_code)]

pub mod amounts;
pub mod domain;
pub mod identity;
pub mod qr;
pub mod qr_read;
pub mod settings;

/// The file of `config` itself, because the crate needs the database and the broker.
#[path = "../../common/config/src/env_file.rs"]
pub mod env_file;
