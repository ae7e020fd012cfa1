//! The schedule by which Waybill tries a failed payment again: 1, 24 and 72 hours after the first
//! failure. Each attempt is a job of [`Internal::RetryPayment`], and a worker asks the payment provider. The
//! attempts of a payment are stopped when the payment is paid, canceled or must not be tried again.

use std::collections::HashSet;
use std::time::Duration;

use domain::job::{Internal, Job};
use domain::payment::PaymentError;
use domain::payment::record::{Record, is_left_to_provider};
use serde::Deserialize;
use serde_json::json;
use store::jobs;
use store::payment_retries::{self, NewRetry};
use store::sql::Tx;

use crate::Result;
use crate::outbox::{self, Outbox};

/// How long after the first failure each attempt is made.
const PAUSES: [Duration; 3] = [
    Duration::from_hours(1),
    Duration::from_hours(24),
    Duration::from_hours(72),
];

/// The decline codes after which card networks forbid another attempt: the customer must bring
/// another card.
const FINAL: [&str; 7] = [
    "fraudulent",
    "lost_card",
    "merchant_blacklist",
    "pickup_card",
    "restricted_card",
    "revocation_of_all_authorizations",
    "stolen_card",
];

/// What a job of [`Internal::RetryPayment`] is about: one attempt of the schedule of a payment.
#[derive(Deserialize)]
pub struct RetryJob {
    pub payment_id: String,
    /// Counted from 1.
    pub number: i64,
}

impl RetryJob {
    pub fn read(job: &Job) -> Result<Self> {
        outbox::body(job)
    }
}

/// Schedules the attempts at payments that failed for the first time, and stops those at payments
/// that must not be tried again.
pub(crate) async fn schedule(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    failed: &[(String, Record)],
) -> Result<()> {
    let connections = outbox.context.connections.now();
    let is_called = |id: &str| connections.of_payment(id).is_some_and(|it| it.is_called);
    let failed: Vec<&(String, Record)> = failed.iter().filter(|(id, _)| is_called(id)).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let ids = failed.iter().map(|(id, _)| id.clone()).collect();
    let known: HashSet<String> = payment_retries::scheduled_of(tx, ids)
        .await?
        .into_iter()
        .collect();
    let ids = failed.iter().map(|(id, _)| id.clone()).collect();
    let of_checkouts = payment_retries::of_checkouts(tx, ids).await?;
    let mut retries = Vec::new();
    let mut forbidden = Vec::new();
    for (id, record) in failed {
        if !can_be_retried(record, of_checkouts.contains(id)) {
            forbidden.push(id.clone());
            continue;
        }
        if known.contains(id) {
            continue;
        }
        for (number, pause) in (1..).zip(PAUSES) {
            let due_at = outbox.now.plus(pause);
            let body = json!({ "payment_id": id, "number": number });
            retries.push(NewRetry {
                payment_id: id.clone(),
                number,
                job_id: outbox.job_of(Internal::RetryPayment, id, &body, due_at),
                due_at,
            });
        }
    }
    payment_retries::insert(tx, &retries, outbox.now).await?;
    stop(outbox, tx, forbidden).await
}

fn can_be_retried(record: &Record, is_of_checkout: bool) -> bool {
    let failure = record.failure.as_ref().map(|part| &part.value);
    failure.is_some_and(|failure| {
        !is_left_to_provider(record.agreement().is_some(), is_of_checkout, failure)
            && !is_final(failure)
    })
}

/// Whether this failure forbids another attempt with the same card.
pub fn is_final(failure: &PaymentError) -> bool {
    FINAL.contains(&failure.decline_code.as_deref().unwrap_or_default())
}

/// Stops the attempts at these payments that are not made yet, and marks their jobs done.
pub async fn stop(outbox: &mut Outbox<'_>, tx: &mut Tx, payments: Vec<String>) -> Result<()> {
    if payments.is_empty() {
        return Ok(());
    }
    let stopped = payment_retries::stop(tx, payments, outbox.now).await?;
    if !stopped.is_empty() {
        jobs::finish(tx, &stopped, outbox.now).await?;
    }
    Ok(())
}
