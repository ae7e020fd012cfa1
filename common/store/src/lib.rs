//! The tables of the database, a file for each. Functions are verbs that are used qualified:
//! `jobs::ready(..)`. All SQL text is in this crate.

pub mod aggregates;
pub mod api_keys;
pub mod attention;
pub mod audit;
pub mod backlog;
pub mod backups;
pub mod broker;
pub mod bulk_operations;
pub mod checkout_sessions;
pub mod checkouts;
pub mod confirmed_tokens;
pub mod connections;
pub mod console_sessions;
pub mod customers;
pub mod deliveries;
pub mod device_code_requests;
pub mod device_codes;
pub mod endpoints;
pub mod erasure;
pub mod erasures;
pub mod event_head;
pub mod events;
pub mod export_links;
pub mod export_stores;
pub mod held;
pub mod identity_provider;
pub mod inventory;
pub mod invoices;
pub mod job_attempts;
pub mod jobs;
pub mod leases;
pub mod ledger;
pub mod licenses;
pub mod measures;
pub mod migrations;
pub mod notifications;
pub mod orders;
pub mod orgs;
pub mod pauses;
pub mod payment_retries;
pub mod payments;
pub mod people;
pub mod person_data;
pub mod privacy_keys;
pub mod privacy_requests;
pub mod public_orders;
pub mod reconciliations;
pub mod refunds;
pub mod refused_deliveries;
pub mod samples;
pub mod sent_events;
pub mod shapes;
pub mod shop_erasure;
pub mod signing_secrets;
pub mod sql;
pub mod story;
pub mod subjects;
pub mod subscriptions;
pub mod tombstones;
pub mod traces;
pub mod tracking_numbers;
pub mod users;
pub mod webhook_ids;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sql::{Error, Result};

/// The text of a JSON column.
fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Encode(error.into()))
}

fn parsed<T: DeserializeOwned>(json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| Error::Decode(error.into()))
}

/// For `serde`: serializes a value as the text that it displays.
fn as_text<S: serde::Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
