//! What the console changes and adds up.

mod cases;
mod charts;
mod operations;
pub mod writes;
