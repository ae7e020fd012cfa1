//! Notifications of customers whose payment has failed. A row says that a mail is due, and a job of
//! [`Internal::SendNotification`] sends it. The address and the text are read when the mail is sent, so no job and no log
//! has them.

use std::collections::HashSet;

use domain::job::{Internal, Job};
use domain::payment::record::{Record, is_left_to_provider};
use serde::Deserialize;
use serde_json::json;
use store::notifications::{self, NewNotification, PAYMENT_FAILED, State};
use store::payment_retries;
use store::sql::Tx;
use uuid::Uuid;

use crate::Result;
use crate::outbox::{self, Outbox};

#[derive(Deserialize)]
struct Body {
    notification_id: Uuid,
}

/// The notification that a job of [`Internal::SendNotification`] sends.
pub fn id_of(job: &Job) -> Result<Uuid> {
    let body: Body = outbox::body(job)?;
    Ok(body.notification_id)
}

/// Stores a notification for each payment that failed again. Of a payment that the provider tries
/// by its own schedule, only the first failure is notified.
pub(crate) async fn of_failures(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    failed: &[(String, Record)],
) -> Result<()> {
    let has_mail = outbox.context.config.smtp.is_some();
    let mut rows = Vec::new();
    let ids: Vec<String> = failed.iter().map(|(id, _)| id.clone()).collect();
    let (notified, of_checkouts) = if ids.is_empty() {
        (HashSet::new(), HashSet::new())
    } else {
        let notified = notifications::reported_of(tx, ids.clone()).await?;
        (notified, payment_retries::of_checkouts(tx, ids).await?)
    };
    for (payment_id, record) in failed {
        let failure = record.failure.as_ref().map(|part| &part.value);
        let is_left_to_provider = failure.is_some_and(|failure| {
            let is_of_checkout = of_checkouts.contains(payment_id);
            is_left_to_provider(record.agreement().is_some(), is_of_checkout, failure)
        });
        if is_left_to_provider && notified.contains(payment_id) {
            continue;
        }
        let id = outbox.context.clock.id();
        rows.push(NewNotification {
            id,
            kind: PAYMENT_FAILED,
            payment_id: payment_id.clone(),
            state: if has_mail {
                State::Pending
            } else {
                State::Kept
            },
        });
        if has_mail {
            let body = json!({ "notification_id": id });
            outbox.job_of(Internal::SendNotification, payment_id, &body, outbox.now);
        }
    }
    Ok(notifications::insert(tx, &rows, outbox.now).await?)
}
