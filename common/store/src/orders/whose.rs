//! Whose an order is, by ids alone: the customer's id that an order names, and the orders of an e-mail
//! address, which are found by its key. No personal column is selected here.

use crate::sql::{Db, Result};
use domain::privacy::email_key;
use domain::time::Timestamp;

/// The customer whom an order names.
pub async fn customer(db: &Db, shop: &str, id: i64) -> Result<Option<i64>> {
    let row = db
        .query("select customer_id from orders where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .fetch_optional()
        .await?;
    Ok(row
        .map(|row| row.get::<Option<i64>>("customer_id"))
        .transpose()?
        .flatten())
}

/// An order that was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub shop: String,
    pub id: i64,
    pub name: Option<String>,
    pub updated_at: Timestamp,
}

/// In how many shops an e-mail address is searched.
const MOST_SHOPS: usize = 200;

/// The orders that name this e-mail address in any spelling, at most `limit` of each shop, in the first 200
/// shops. The shops are found by jumps in an index, because the address is indexed for each.
pub async fn of_email(db: &Db, email: &str, limit: i64) -> Result<Vec<Found>> {
    let key = email_key(email);
    let mut found = Vec::new();
    let first = db.query("select shop from orders order by shop limit 1");
    let mut next = first.fetch_optional().await?;
    for _ in 0..MOST_SHOPS {
        let Some(row) = next else { break };
        let shop: String = row.get("shop")?;
        let rows = db
            .query(
                "select id, name, updated_at from orders
                 where shop = $1 and email_key = $2
                 order by id desc limit $3",
            )
            .bind(shop.as_str())
            .bind(key.as_str())
            .bind(limit)
            .fetch_all()
            .await?;
        for row in &rows {
            found.push(Found {
                shop: shop.clone(),
                id: row.get("id")?,
                name: row.get("name")?,
                updated_at: Timestamp(row.get("updated_at")?),
            });
        }
        next = db
            .query("select shop from orders where shop > $1 order by shop limit 1")
            .bind(shop.as_str())
            .fetch_optional()
            .await?;
    }
    Ok(found)
}
