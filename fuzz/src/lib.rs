//! What must hold for every input, whoever sends it. A function for each target takes the bytes of one input, and
//! panics when something does not hold. The programs in `src/bin` give them to libFuzzer.

#![forbid(unsafe_code)]

pub mod amounts;
pub mod console;
pub mod domain;
pub mod identity;
pub mod qr;
pub mod qr_read;
pub mod requests;
pub mod settings;

// Files of crates that need the database and the broker.
#[path = "../../common/store/src/orders/cursor.rs"]
pub mod cursor;
#[path = "../../common/config/src/env_file.rs"]
pub mod env_file;
#[path = "../../console/src/fields.rs"]
pub mod fields;
#[path = "../../common/server/src/forwarded.rs"]
pub mod forwarded;
