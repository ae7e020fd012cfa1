//! The pages, a file for each. A page reads what the command reads that does the same, and says which one
//! that is.

pub mod audit;
pub mod body;
pub mod charts;
pub mod dead;
pub mod deliveries;
pub mod endpoints;
pub mod held;
pub mod job;
pub mod keys;
pub mod licenses;
pub mod live;
pub mod now;
mod object;
pub mod operations;
pub mod orders;
pub mod pauses;
pub mod payments;
pub mod privacy;
pub mod refused;
pub mod search;

/// How many rows a page of a list has.
const PAGE: usize = 50;
/// The same for statements.
const PAGE_ROWS: i64 = 50;
