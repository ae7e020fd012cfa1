//! The `fulfillments` table: how far the fulfilment of each order is, one row for each order.

use std::collections::BTreeMap;
use strum::IntoStaticStr;

use crate::sql::{Db, Result, Tx, column};
use crate::{json, parsed};
use domain::job::JobId;
use domain::order::OrderKey;
use domain::order::outcome::{FulfillmentState, Level};
use domain::time::Timestamp;

/// The outcome of the request at the storefront.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ProviderState {
    /// A job will create the fulfilment there.
    Pending,
    Created,
    /// Nothing was left to be shipped.
    NotNeeded,
    /// The storefront refuses the request for good.
    Failed,
}

/// A fulfilment whose state has changed.
#[derive(Clone, Debug)]
pub struct Moved<'a> {
    pub key: &'a OrderKey,
    pub state: FulfillmentState,
    /// The job that will create it at the storefront, if one will.
    pub provider_job: Option<JobId>,
    /// How many units were requested so far, if that has changed.
    pub requested: Option<&'a Level>,
}

/// Writes states. A row keeps the time when each state was first reached.
pub async fn save(tx: &mut Tx, moved: &[Moved<'_>], now: Timestamp) -> Result<()> {
    let rows = moved.iter().map(|it| {
        let reached = |state| (it.state == state).then_some(now);
        let pending = it.provider_job.map(|_| ProviderState::Pending.into_str());
        Ok([
            column("shop", &it.key.0),
            column("order_id", it.key.1),
            column("state", it.state.into_str()),
            column("requested_units", it.requested.map(json).transpose()?),
            column("initiated_at", now),
            column("updated_at", now),
            column("requested_at", reached(FulfillmentState::Requested)),
            column("fulfilled_at", reached(FulfillmentState::Fulfilled)),
            column("cancelled_at", reached(FulfillmentState::Cancelled)),
            column("provider_state", pending),
            column("provider_job_id", it.provider_job),
        ])
    });
    tx.insert(
        "fulfillments",
        rows.collect::<Result<_>>()?,
        "on conflict (shop, order_id) do update
         set state = excluded.state,
             requested_at = coalesce(fulfillments.requested_at, excluded.requested_at),
             fulfilled_at = coalesce(fulfillments.fulfilled_at, excluded.fulfilled_at),
             cancelled_at = coalesce(fulfillments.cancelled_at, excluded.cancelled_at),
             provider_state = coalesce(excluded.provider_state, fulfillments.provider_state),
             provider_job_id = coalesce(excluded.provider_job_id, fulfillments.provider_job_id),
             requested_units = coalesce(excluded.requested_units, fulfillments.requested_units),
             updated_at = excluded.updated_at",
    )
    .await?;
    Ok(())
}

/// How many units of the orders were requested so far. The caller has locked the orders. An order
/// that is missing in the result was not requested.
pub async fn requested(tx: &mut Tx, keys: &[&OrderKey]) -> Result<BTreeMap<OrderKey, Level>> {
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query(
        "select shop, order_id, requested_units from fulfillments
         where requested_units is not null and (shop, order_id) in ($1..)",
    )
    .bind(
        keys.iter()
            .map(|key| (*key).clone())
            .collect::<Vec<OrderKey>>(),
    )
    .all(|row| {
        let level: String = row.get("requested_units")?;
        Ok(((row.get("shop")?, row.get("order_id")?), parsed(&level)?))
    })
    .await
}

/// True while this job is to ask the storefront to fulfil the order: a job that was stored later asks
/// for its units too.
pub async fn is_wanted(db: &Db, key: &OrderKey, job: JobId) -> Result<bool> {
    db.query(
        "select 1 as wanted from fulfillments
         where shop = $1 and order_id = $2 and state = $3 and provider_job_id = $4
           and provider_state in ('pending', 'failed')",
    )
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(FulfillmentState::Requested.into_str())
    .bind(job)
    .is_any()
    .await
}

/// Records what the storefront answered to a job's request. False when it was recorded before, and
/// when further units were requested since: the answer says nothing of these, and their own job asks
/// for whatever is open then.
pub async fn answered(
    tx: &mut Tx,
    key: &OrderKey,
    job: JobId,
    state: ProviderState,
    provider_id: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    tx.query(
        "update fulfillments set provider_state = $1, provider_id = $2, updated_at = $3
         where shop = $4 and order_id = $5 and provider_job_id = $6
           and provider_state in ('pending', 'failed') and provider_state <> $1",
    )
    .bind(state.into_str())
    .bind(provider_id)
    .bind(now.0)
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(job)
    .changed_one()
    .await
}
