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
    let mut lines: Vec<(&str, i64, i64, &Line)> = Vec::new();
    for ((shop, order_id), of_order) in orders {
        for (position, line) in (0..).zip(*of_order) {
            lines.push((shop, *order_id, position, line));
        }
    }
    let each = || lines.iter().map(|(_, _, _, line)| *line);
    let columns = [
        column("shop", lines.iter().map(|(shop, ..)| *shop)),
        column("order_id", lines.iter().map(|(_, order, ..)| *order)),
        column(
            "position",
            lines.iter().map(|(_, _, position, _)| *position),
        ),
        column("id", each().map(|line| line.id)),
        column("variant_id", each().map(|line| line.variant_id)),
        column("title", each().map(|line| line.title.as_deref())),
        column("quantity", each().map(|line| line.quantity)),
        column("price", each().map(|line| line.price.as_deref())),
        column("sku", each().map(|line| line.sku.as_deref())),
        column(
            "fulfillment_status",
            each().map(|line| line.fulfillment_status.as_deref()),
        ),
    ];
    tx.insert("order_lines", &columns, "").await?;
    Ok(())
}

/// Replaces the lines of orders.
pub async fn replace(tx: &mut Tx, orders: &[(&OrderKey, &[Line])]) -> Result<()> {
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
