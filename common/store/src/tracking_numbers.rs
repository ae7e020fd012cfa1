//! The `tracking_numbers` table: which orders have a parcel with a number, for the public page of the number.

use std::collections::BTreeSet;

use crate::sql::{Result, Tx, column};
use domain::order::OrderKey;

/// The numbers that an order had, and those that it has.
pub type Changed<'a> = (&'a OrderKey, BTreeSet<&'a str>, BTreeSet<&'a str>);

/// Writes the numbers of orders whose rows are locked.
pub async fn replace(tx: &mut Tx, orders: &[Changed<'_>]) -> Result<()> {
    let mut rows = Vec::new();
    for ((shop, order_id), before, after) in orders {
        let gone: Vec<String> = before.difference(after).map(ToString::to_string).collect();
        if !gone.is_empty() {
            tx.query(
                "delete from tracking_numbers
                 where shop = $1 and order_id = $2 and number in ($3..)",
            )
            .bind(shop.as_str())
            .bind(*order_id)
            .bind(gone)
            .done()
            .await?;
        }
        let new = after.difference(before);
        rows.extend(new.map(|number| {
            [
                column("number", *number),
                column("shop", shop),
                column("order_id", *order_id),
            ]
        }));
    }
    let known = "on conflict (number, shop, order_id) do nothing";
    tx.insert("tracking_numbers", rows, known).await?;
    Ok(())
}
