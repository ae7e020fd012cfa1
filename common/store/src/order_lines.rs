//! The `order_lines` table: the lines of an order as its newest version has them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::sql::{Db, Result, Row, Tx, column};
use domain::order::Line;
use domain::order::OrderKey;

const COLUMNS: &str = "select shop, order_id, id, variant_id, title, quantity, price, sku,
                              fulfillment_status
                       from order_lines
                       where (shop, order_id) in ($1..)
                       order by shop, order_id, position";

/// Inserts the lines of orders that have no lines yet.
pub async fn insert(tx: &mut Tx, orders: &[(&OrderKey, &[Line])]) -> Result<()> {
    let mut rows = Vec::new();
    for ((shop, order_id), lines) in orders {
        for (position, line) in (0..).zip(*lines) {
            rows.push([
                column("shop", shop),
                column("order_id", *order_id),
                column("position", position),
                column("id", line.id),
                column("variant_id", line.variant_id),
                column("title", &line.title),
                column("quantity", line.quantity),
                column("price", &line.price),
                column("sku", &line.sku),
                column("fulfillment_status", &line.fulfillment_status),
            ]);
        }
    }
    tx.insert("order_lines", rows, "").await?;
    Ok(())
}

/// Replaces the lines of orders.
pub async fn replace(tx: &mut Tx, orders: &[(&OrderKey, &[Line])]) -> Result<()> {
    if orders.is_empty() {
        return Ok(());
    }
    let keys: Vec<OrderKey> = orders.iter().map(|(key, _)| (*key).clone()).collect();
    tx.query("delete from order_lines where (shop, order_id) in ($1..)")
        .bind(keys)
        .execute()
        .await?;
    insert(tx, orders).await
}

/// The lines of several orders, each with the key of its order.
pub async fn of(tx: &mut Tx, orders: Vec<OrderKey>) -> Result<Vec<(OrderKey, Line)>> {
    tx.query(COLUMNS)
        .bind(orders)
        .all(|row| Ok(((row.get("shop")?, row.get("order_id")?), read(row)?)))
        .await
}

/// A line as the API shows it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = OrderLine)]
pub struct StoredLine {
    #[schema(example = 466_157_049)]
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "466157049")]
    pub id_text: String,
    #[schema(example = 39_072_856)]
    pub variant_id: Option<i64>,
    /// The same as text.
    #[schema(example = "39072856")]
    pub variant_id_text: Option<String>,
    #[schema(example = "Linen apron")]
    pub title: Option<String>,
    #[schema(example = 2)]
    pub quantity: i64,
    /// Of one, as the storefront wrote it.
    #[schema(example = "39.00")]
    pub price: Option<String>,
    #[schema(example = "APRON-LINEN")]
    pub sku: Option<String>,
    /// `fulfilled`, or null.
    #[schema(example = "fulfilled")]
    pub fulfillment_status: Option<String>,
}

/// The lines of one order.
pub async fn list(db: &Db, shop: &str, order_id: i64) -> Result<Vec<StoredLine>> {
    let rows = db.query(COLUMNS).bind(vec![(shop.to_owned(), order_id)]);
    rows.all(|row| {
        let line = read(row)?;
        Ok(StoredLine {
            id: line.id,
            id_text: line.id.to_string(),
            variant_id: line.variant_id,
            variant_id_text: line.variant_id.map(|id| id.to_string()),
            title: line.title,
            quantity: line.quantity,
            price: line.price,
            sku: line.sku,
            fulfillment_status: line.fulfillment_status,
        })
    })
    .await
}

fn read(row: &Row) -> Result<Line> {
    Ok(Line {
        id: row.get("id")?,
        variant_id: row.get("variant_id")?,
        title: row.get("title")?,
        quantity: row.get("quantity")?,
        price: row.get("price")?,
        sku: row.get("sku")?,
        fulfillment_status: row.get("fulfillment_status")?,
    })
}
