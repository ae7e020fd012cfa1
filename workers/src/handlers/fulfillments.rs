//! Asking the storefront to create the fulfilment of an order that is to be shipped. The
//! job's id is the idempotency key, and a fulfilment order that is closed is not fulfilled
//! again: however often this runs, one fulfilment is made.

use anyhow::Result;
use domain::event::OrderEvent;
use domain::job::Job;
use providers::CallFailure;
use providers::storefront::Requested;
use serde::Deserialize;
use store::fulfillments::{self, ProviderState};
use store::orders::records::{self, OrderKey};
use store::sql::{self, Db, Tx};

use super::outbox::{self, Outbox};
use super::{Answer, Providers};
use crate::failure::permanent;

pub const KIND: &str = "fulfillments/request";

#[derive(Deserialize)]
struct Body {
    shop: String,
    order_id: i64,
}

fn key(job: &Job) -> Result<OrderKey> {
    let body: Body = outbox::body(job)?;
    Ok((body.shop, body.order_id))
}

/// Asks, unless the order was shipped or cancelled meanwhile.
pub async fn call(db: &Db, providers: &Providers, job: &Job) -> Result<Answer> {
    let key = key(job)?;
    if !fulfillments::is_wanted(db, &key).await? {
        return Ok(Answer::NotAsked);
    }
    let Some(provider) = &providers.storefront else {
        anyhow::bail!("STOREFRONT_API_URL and STOREFRONT_API_TOKEN are not set in this process");
    };
    let answer = provider.request_fulfillment(&key.0, key.1, job.id).await;
    Ok(Answer::Fulfillment(answer.map_err(failed)?))
}

pub async fn record(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    answer: &Requested,
) -> Result<()> {
    let (state, id) = match answer {
        Requested::Created { id } => (ProviderState::Created, Some(id.as_str())),
        Requested::NothingOpen => (ProviderState::NotNeeded, None),
    };
    fulfillments::answered(tx, &key(job)?, state, id, outbox.now).await?;
    Ok(())
}

/// Records that the storefront will not do it, and reports it.
pub async fn on_exhausted(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    error: &str,
) -> sql::Result<()> {
    let Ok(key) = key(job) else { return Ok(()) };
    let Some(mut entry) = records::load(tx, &[&key]).await?.remove(&key) else {
        return Ok(());
    };
    let failed = ProviderState::Failed;
    if !fulfillments::answered(tx, &key, failed, None, outbox.now).await? {
        return Ok(());
    }
    let error = error.to_owned();
    let failed = OrderEvent::FulfillmentFailed { error };
    outbox.order_event(&key, &mut entry.events_at, failed);
    records::save(tx, &[(&key, &entry)], outbox.now).await
}

/// A refusal is for good; the rest is tried again.
pub fn failed(failure: CallFailure) -> anyhow::Error {
    if failure.is_final() {
        permanent(failure)
    } else {
        failure.into()
    }
}
