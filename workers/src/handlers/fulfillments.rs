//! The call that asks the storefront to create the fulfilment of an order that is to be shipped.
//! The job's id is the idempotency key, and a fulfilment order that is closed is not fulfilled
//! again. So one fulfilment is made however often the job runs.

use anyhow::Result;
use domain::job::Job;
use domain::order::own::ProviderState;
use flows::fulfillments::{self, order_key};
use flows::outbox::Outbox;
use providers::storefront::Requested;
use store::orders;
use store::sql::{self, Db, Tx};

use super::{Answer, Providers};
use crate::failure::call_failed;

/// Asks, unless the order was shipped or cancelled meanwhile, or a later job asks for more of it.
pub async fn call(db: &Db, providers: &Providers, job: &Job) -> Result<Answer> {
    let key = order_key(job)?;
    let order = orders::record(db, &key).await?;
    let Some(order) = order.filter(|order| order.is_asked_by(job.id)) else {
        return Ok(Answer::NotAsked);
    };
    let provider = providers.clients.of_shop(&key.0)?;
    let units = order.to_ship();
    let answer = provider.request_fulfillment(&key.0, key.1, &units, job.id);
    let answer = answer.await;
    Ok(Answer::Fulfillment(answer.map_err(call_failed)?))
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
    fulfillments::answered(outbox, tx, (order_key(job)?, job.id), state, id).await?;
    Ok(())
}

/// Records that the storefront will not do it, with an event that says so.
pub async fn on_exhausted(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    error: &str,
) -> sql::Result<()> {
    fulfillments::fail(outbox, tx, job, error).await
}
