//! The call that asks the storefront to fulfil an order. [`RequestFulfillment`](domain::job::Internal) is the job; its body names the
//! order. `orders` stores the job when units of an order are requested, a worker makes the call,
//! and what the storefront answers is written here.

use domain::event::OrderEvent;
use domain::job::{Job, JobId};
use domain::order::OrderKey;
use domain::order::own::ProviderState;
use domain::order::record::Record;
use serde::Deserialize;
use store::aggregates;
use store::sql::{self, Tx};

use crate::Result;
use crate::outbox::{self, Outbox};

#[derive(Deserialize)]
struct Body {
    shop: String,
    order_id: i64,
}

/// The order that a job of [`RequestFulfillment`](domain::job::Internal) is about.
pub fn order_key(job: &Job) -> Result<OrderKey> {
    let body: Body = outbox::body(job)?;
    Ok((body.shop, body.order_id))
}

/// Records what the storefront answered to the request of a job. False when it was recorded before, after the
/// order is erased, and when a later job asks.
pub async fn answered(
    outbox: &Outbox<'_>,
    tx: &mut Tx,
    (key, job): (OrderKey, JobId),
    state: ProviderState,
    id: Option<&str>,
) -> sql::Result<bool> {
    let now = outbox.now.0;
    let answer = |order: &mut Record| order.own.fulfillment.answer(job, state, id, now);
    Ok(aggregates::edit(tx, vec![key], answer)
        .await?
        .whole()?
        .changed
        > 0)
}

/// Records that the storefront will not fulfil the order, and adds the event that says so. Once it
/// is recorded, or after the order is erased, or when a later job asks, nothing more happens.
pub async fn fail(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, error: &str) -> sql::Result<()> {
    let Ok(key) = order_key(job) else {
        return Ok(());
    };
    let request = (key.clone(), job.id);
    if answered(outbox, tx, request, ProviderState::Failed, None).await? {
        let error = error.to_owned();
        let event = OrderEvent::FulfillmentFailed { error };
        outbox.order_event(&key, event);
    }
    Ok(())
}
