//! The pages, a file for each. A page reads what the command reads that does the same, and says which one
//! that is.

use domain::job::JobId;
use domain::time::Timestamp;

use crate::error::Error;
use crate::fields::Fields;

pub mod audit;
pub mod body;
pub mod charts;
pub mod connections;
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
pub mod reconcile;
pub mod refused;
pub mod search;
pub mod secrets;
pub mod subscriptions;

/// How many rows a page of a list has.
const PAGE: usize = 50;
/// The same for statements.
const PAGE_ROWS: i64 = 50;

/// Where a page of a list begins: the time of the last row of the page before, and its job.
fn cursor(fields: &Fields) -> Result<Option<(Timestamp, JobId)>, Error> {
    let read = |text: &str| {
        let (at, id) = text.split_once('.')?;
        Some((Timestamp(at.parse().ok()?), id.parse().ok()?))
    };
    match fields.get("before") {
        "" => Ok(None),
        text => read(text).map(Some).ok_or(Error::Fields),
    }
}

/// The field of the query that names such a place, and its value.
fn from_cursor((at, id): (Timestamp, JobId)) -> (&'static str, String) {
    ("before", format!("{}.{id}", at.0))
}
