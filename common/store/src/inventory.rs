//! The `inventory_movements` table, which is append-only. How many units of an order's line went
//! back into stock is the sum of the line's movements.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::sql::{Db, Result, Tx, column};
use domain::order::OrderKey;
use domain::time::Timestamp;

/// The reason of a movement for a cancelled order.
pub const CANCELLED: &str = "order_cancelled";

/// Units of an order's line that go back into stock. The quantity is below zero when too many
/// were booked before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    pub id: Uuid,
    pub line_id: i64,
    pub variant_id: Option<i64>,
    pub sku: Option<String>,
    pub quantity: i64,
}

pub async fn append(
    tx: &mut Tx,
    movements: &[(&OrderKey, Movement)],
    reason: &str,
    now: Timestamp,
) -> Result<()> {
    let rows = movements.iter().map(|((shop, order_id), movement)| {
        [
            column("id", movement.id),
            column("shop", shop),
            column("order_id", *order_id),
            column("line_id", movement.line_id),
            column("variant_id", movement.variant_id),
            column("sku", &movement.sku),
            column("quantity", movement.quantity),
            column("reason", reason),
            column("created_at", now),
        ]
    });
    tx.insert("inventory_movements", rows.collect(), "").await?;
    Ok(())
}

/// How many units have gone back into stock so far, by line id, without lines for which that is
/// zero. The caller has locked the order.
pub async fn balances(tx: &mut Tx, key: &OrderKey) -> Result<BTreeMap<i64, i64>> {
    let rows = tx.query(BALANCES).bind(key.0.as_str()).bind(key.1);
    rows.all(|row| Ok((row.get("line_id")?, row.get("units")?)))
        .await
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Restocked {
    #[schema(example = 518_995_019)]
    pub line_id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "518995019")]
    pub line_id_text: String,
    #[schema(example = 1)]
    pub quantity: i64,
}

/// The same as [`balances`], outside a transaction.
pub async fn list(db: &Db, shop: &str, order_id: i64) -> Result<Vec<Restocked>> {
    let rows = db.query(BALANCES).bind(shop).bind(order_id);
    rows.all(|row| {
        let line_id: i64 = row.get("line_id")?;
        Ok(Restocked {
            line_id,
            line_id_text: line_id.to_string(),
            quantity: row.get("units")?,
        })
    })
    .await
}

const BALANCES: &str = "select line_id, cast(sum(quantity) as bigint) as units
                        from inventory_movements
                        where shop = $1 and order_id = $2
                        group by line_id
                        having sum(quantity) <> 0
                        order by line_id";
