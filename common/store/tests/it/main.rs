//! The tests of the crate `store`.

mod both;
mod cursor;
mod device_codes;
mod large_file;
mod sql;
