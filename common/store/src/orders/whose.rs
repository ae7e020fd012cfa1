//! Who an order belongs to, by ids alone: the customer's id that an order names, the orders of a customer, and those of an
//! e-mail address, which are found by its key. No personal column is selected here.

use std::cmp::Reverse;

use crate::sql::{Db, FromRow, Result};
use domain::privacy::email_key;
use domain::time::Timestamp;

/// The customer whom an order names.
pub async fn customer(db: &Db, shop: &str, id: i64) -> Result<Option<i64>> {
    let customer = db
        .query("select customer_id from orders where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .first(|row| row.get("customer_id"))
        .await?;
    Ok(customer.flatten())
}

/// An order that was found.
#[derive(Clone, Debug, FromRow)]
pub struct Found {
    pub shop: String,
    pub id: i64,
    pub name: Option<String>,
    /// The customer whom it names.
    #[column("customer_id")]
    pub customer: Option<i64>,
    pub updated_at: Timestamp,
}

/// The orders that name this customer, at most `limit`, those with the highest ids, which are the newest.
pub async fn of_customer(db: &Db, shop: &str, customer: i64, limit: i64) -> Result<Vec<Found>> {
    db.query(
        "select shop, id, name, customer_id, updated_at from orders
         where shop = $1 and customer_id = $2
         order by id desc
         limit $3",
    )
    .bind(shop)
    .bind(customer)
    .bind(limit)
    .all(Found::from_row)
    .await
}

/// The most shops in which an e-mail address is searched.
const MOST_SHOPS: i64 = 200;

/// Orders that name this e-mail address in any spelling, at most `limit`, in the first 200 shops, because
/// the address is indexed for each shop.
pub async fn of_email(db: &Db, email: &str, limit: i64) -> Result<Vec<Found>> {
    let key = email_key(email);
    let mut found: Vec<Found> = db
        .query(
            "select shop, id, name, customer_id, updated_at from orders
             where email_key = $1 and shop in ($3..)
             limit $2",
        )
        .bind(key.as_str())
        .bind(limit)
        .bind(first_shops(db).await?)
        .all(Found::from_row)
        .await?;
    found.sort_by_key(|it| (it.shop.clone(), Reverse(it.id)));
    Ok(found)
}

/// The first 200 shops that have orders. They are found by jumps in an index.
async fn first_shops(db: &Db) -> Result<Vec<String>> {
    db.query(
        "with recursive shops (shop, number) as (
             select (select shop from orders order by shop limit 1), 1
             union all
             select (select orders.shop from orders where orders.shop > shops.shop
                     order by orders.shop limit 1), number + 1
             from shops where shop is not null and number < $1
         )
         select shop from shops where shop is not null",
    )
    .bind(MOST_SHOPS)
    .all(|row| row.get("shop"))
    .await
}
