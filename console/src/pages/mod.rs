//! The pages, a file for each. A page reads what the command reads that does the same, and says which one
//! that is.

use domain::job::JobId;
use domain::time::Timestamp;

pub mod audit;
pub mod body;
pub mod charts;
pub mod customers;
pub mod dead;
pub mod deliveries;
pub mod endpoints;
pub mod failing;
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
pub mod secrets;
pub mod subscriptions;

/// How many rows a page of a list has.
const PAGE: usize = 50;
/// The same for statements.
const PAGE_ROWS: i64 = 50;

/// Where a page of a list begins: the time of the last row of the page before, and its job.
fn cursor(text: &str) -> Option<(Timestamp, JobId)> {
    let (at, id) = text.split_once('.')?;
    Some((Timestamp(at.parse().ok()?), id.parse().ok()?))
}
