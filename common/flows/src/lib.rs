//! What one transaction does, for whoever opens it: workers and ingress. A function that
//! takes a [`Tx`](store::sql::Tx) only writes; the caller commits, and notifies workers of the jobs
//! of the [`Outbox`](outbox::Outbox) afterwards. Nothing here calls a provider within a
//! transaction, claims a job or decides when one runs again.
//!
//! Rows of orders and events are written here alone.

mod causation;
pub mod checkout;
pub mod confirmations;
pub mod deliveries;
pub mod erased;
pub mod erasure;
mod error;
pub mod fulfillments;
pub mod letters;
pub mod notifications;
pub mod orders;
pub mod outbox;
pub mod payments;
pub mod reconciliation;
pub mod refunds;
pub mod retries;
mod sessions;
mod stock;
mod subscriptions;

use config::Config;
use config::connection::SharedRegistry;
use domain::privacy::Keys;
use platform::clock::Clock;

pub use error::{Error, Result};

/// What a flow needs beside the transaction.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub config: &'a Config,
    pub connections: &'a SharedRegistry,
    pub clock: &'a Clock,
    pub keys: &'a Keys,
}
