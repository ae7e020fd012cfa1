//! What operators do, from the command line, the console and the API: one function for each deed, which changes
//! rows and writes the entry of the audit in the same transaction. What all three say about an installation is
//! here too ([`findings`]).

pub mod accounts;
pub mod advice;
pub mod api_keys;
pub mod attention;
pub mod connections;
pub mod endpoints;
pub mod exports;
pub mod fields;
pub mod findings;
pub mod jobs;
pub mod licenses;
pub mod operations;
pub mod pauses;
pub mod privacy_requests;
pub mod reconciliation;
pub mod samples;
pub mod setup;
pub mod subscriptions;
