//! The call that asks the storefront to fulfil an order. [`RequestFulfillment`](domain::job::Internal) is the job; its body names the
//! order. `orders` stores the job when units of an order are requested, a worker makes the call,
//! and what the storefront answers is written here.

use domain::event::OrderEvent;
use domain::job::Job;
use domain::order::OrderKey;
use serde::Deserialize;
use store::fulfillments::{self, ProviderState};
use store::orders::records;
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

/// Records that the storefront will not fulfil the order, and adds the event that says so. Once it
/// is recorded, or after the order is erased, or when a later job asks, nothing more happens.
pub async fn fail(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, error: &str) -> sql::Result<()> {
    let Ok(key) = order_key(job) else {
        return Ok(());
    };
    if records::load(tx, &[&key]).await?.is_empty() {
        return Ok(());
    }
    let failed = ProviderState::Failed;
    if !fulfillments::answered(tx, &key, job.id, failed, None, outbox.now).await? {
        return Ok(());
    }
    let error = error.to_owned();
    let event = OrderEvent::FulfillmentFailed { error };
    outbox.order_event(&key, event);
    Ok(())
}
