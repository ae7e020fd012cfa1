//! What the console changes and adds up.

mod charts;
pub mod writes;
