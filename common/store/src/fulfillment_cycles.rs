//! The `fulfillment_cycles` table: the fulfilments of an agreement after the first, which is
//! the order itself.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::order::OrderKey;
use domain::order::outcome::FulfillmentState;
use domain::order::settlement::Cycle;
use domain::time::Timestamp;

/// A cycle whose state has changed.
#[derive(Clone, Debug)]
pub struct Moved<'a> {
    pub key: &'a OrderKey,
    pub cycle: Cycle,
    /// `Requested` or `Cancelled`.
    pub state: FulfillmentState,
}

/// Writes states. A row keeps the time when each state was first reached.
pub async fn save(tx: &mut Tx, moved: &[Moved<'_>], now: Timestamp) -> Result<()> {
    let rows = moved.iter().map(|it| {
        let is_cancelled = it.state == FulfillmentState::Cancelled;
        [
            column("shop", &it.key.0),
            column("order_id", it.key.1),
            column("cycle", it.cycle.as_str()),
            column("state", it.state.into_str()),
            column("requested_at", now),
            column("cancelled_at", is_cancelled.then_some(now)),
            column("updated_at", now),
        ]
    });
    tx.insert(
        "fulfillment_cycles",
        rows.collect(),
        "on conflict (shop, order_id, cycle) do update
         set state = excluded.state,
             cancelled_at = coalesce(fulfillment_cycles.cancelled_at, excluded.cancelled_at),
             updated_at = excluded.updated_at",
    )
    .await?;
    Ok(())
}

/// The cycles of an order that were ever requested, each with whether it is requested now. The
/// caller has locked the order.
pub async fn of(tx: &mut Tx, key: &OrderKey) -> Result<BTreeMap<Cycle, bool>> {
    tx.query("select cycle, state from fulfillment_cycles where shop = $1 and order_id = $2")
        .bind(key.0.as_str())
        .bind(key.1)
        .all(|row| {
            let (cycle, state): (String, String) = (row.get("cycle")?, row.get("state")?);
            Ok((
                Cycle::named(Some(&cycle)),
                state == FulfillmentState::Requested.into_str(),
            ))
        })
        .await
}

/// Moves the cycles of one order to another, except those that the other order already has.
pub async fn move_to(tx: &mut Tx, from: &OrderKey, to: &OrderKey) -> Result<()> {
    tx.query(
        "update fulfillment_cycles set shop = $1, order_id = $2
         where shop = $3 and order_id = $4 and not exists (
             select 1 from fulfillment_cycles others
             where others.shop = $1 and others.order_id = $2
               and others.cycle = fulfillment_cycles.cycle
         )",
    )
    .bind(to.0.as_str())
    .bind(to.1)
    .bind(from.0.as_str())
    .bind(from.1)
    .done()
    .await
}

/// A further fulfilment of an order's agreement.
#[derive(Clone, Debug, Serialize, ToSchema, FromRow)]
pub struct StoredCycle {
    /// As the payment's metadata names it.
    #[schema(example = "2")]
    pub cycle: String,
    /// `requested` or `cancelled`.
    #[schema(example = "requested")]
    pub state: String,
    pub requested_at: Timestamp,
    pub cancelled_at: Option<Timestamp>,
}

pub async fn list(db: &Db, shop: &str, order_id: i64) -> Result<Vec<StoredCycle>> {
    db.query(
        "select cycle, state, requested_at, cancelled_at from fulfillment_cycles
         where shop = $1 and order_id = $2
         order by requested_at, cycle",
    )
    .bind(shop)
    .bind(order_id)
    .all(StoredCycle::from_row)
    .await
}
