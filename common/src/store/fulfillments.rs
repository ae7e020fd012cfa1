//! The `fulfillments` table: what Waybill has asked for an order, one row an order.

use crate::clock::Timestamp;
use crate::sql::{Result, Tx, column};

/// An order whose fulfilment begins, or is over before it began.
#[derive(Clone, Copy, Debug)]
pub struct NewFulfillment<'a> {
    pub shop: &'a str,
    pub order_id: i64,
    pub cancelled: bool,
}

/// Begins fulfilment of those orders that have none, and returns them.
pub async fn initiate(
    tx: &mut Tx,
    orders: &[NewFulfillment<'_>],
    now: Timestamp,
) -> Result<Vec<(String, i64)>> {
    let state = |order: &NewFulfillment<'_>| {
        if order.cancelled {
            "cancelled"
        } else {
            "initiated"
        }
    };
    let columns = [
        column("shop", orders.iter().map(|order| order.shop)),
        column("order_id", orders.iter().map(|order| order.order_id)),
        column("state", orders.iter().map(state)),
        column("initiated_at", orders.iter().map(|_| now.0)),
        column("updated_at", orders.iter().map(|_| now.0)),
    ];
    let rows = tx
        .insert(
            "fulfillments",
            &columns,
            "on conflict (shop, order_id) do nothing returning shop, order_id",
        )
        .await?;
    rows.iter()
        .map(|row| Ok((row.get("shop")?, row.get("order_id")?)))
        .collect()
}
