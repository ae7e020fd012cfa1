//! The pages, a file for each. A page reads what the command reads that does the same, and says which one
//! that is.

use axum::response::Response;
use lists::List;
use lists::providers::Secrets;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing;

pub mod attention;
pub mod body;
pub mod charts;
pub mod connections;
pub mod customers;
pub mod dead;
pub mod deliveries;
pub mod endpoints;
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
pub mod search;
pub mod subscriptions;

/// How many rows a part of a page has.
const PAGE_ROWS: i64 = 50;

/// The page of a list that the database alone describes.
pub async fn list<L: List + Default>(visit: Visit<Reader>) -> Result<Response, Error> {
    listing::page(&visit, &L::default()).await
}

/// The signing secrets of this process.
pub async fn secrets(visit: Visit<Reader>) -> Result<Response, Error> {
    let set = visit.config().fingerprints();
    listing::page(&visit, &Secrets { set }).await
}
