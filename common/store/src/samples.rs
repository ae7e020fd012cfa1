//! Samples of `waybill trigger`: finds them, and deletes them with all that came of them. Unlike an erasure nothing of them
//! stays, not even in the books, because nothing of them was ever real.

use std::collections::BTreeSet;

use crate::endpoints;
use crate::shop_erasure::{self, Counts, Order, add};
use crate::sql::{Db, FromRow as _, Result, Tx};
use domain::job::JobId;
use domain::order::OrderKey;
use domain::sample::{self, CUSTOMERS, ORDERS};

use super::orders::{CHECKOUT, checkout_key};

/// A sample order.
#[derive(Clone, Debug)]
pub struct Sample {
    pub shop: String,
    pub order: Order,
    pub name: Option<String>,
    customer: Option<i64>,
}

/// The sample orders after this one, at most `limit`, and where the next page begins if there may be one.
pub async fn after(
    db: &Db,
    (shop, id): (&str, i64),
    limit: i64,
) -> Result<(Vec<Sample>, Option<OrderKey>)> {
    let rows = db
        .query(
            "select id, shop, pact_id, customer_id, name from orders
             where id between $1 and $2 and (id > $1 or (id = $1 and shop > $3))
             order by id, shop limit $4",
        )
        .bind(id.max(*ORDERS.start() - 1))
        .bind(*ORDERS.end())
        .bind(shop)
        .bind(limit)
        .fetch_all()
        .await?;
    let mut samples = Vec::new();
    let mut last = None;
    for row in &rows {
        let (shop, id): OrderKey = (row.get("shop")?, row.get("id")?);
        let name: Option<String> = row.get("name")?;
        last = Some((shop.clone(), id));
        if sample::is_order(id, name.as_deref()) {
            let pact_id = row.get("pact_id")?;
            samples.push(Sample {
                order: Order { id, pact_id },
                customer: row.get("customer_id")?,
                shop,
                name,
            });
        }
    }
    let next = last.filter(|_| rows.len() as u64 == limit.cast_unsigned());
    Ok((samples, next))
}

/// The end of all texts that begin so. However a database sorts texts, those that begin alike are between the two.
fn end_of(beginning: &str) -> String {
    let mut end = beginning.to_owned();
    let last = end.pop().map(|last| char::from_u32(u32::from(last) + 1));
    end.extend(last.flatten());
    end
}

/// The next sample objects of the payment provider, some of each kind: payments, sessions, subscriptions, invoices, and what
/// else deliveries were about.
pub async fn objects(db: &Db, limit: i64) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for beginning in sample::OBJECTS {
        for select in [
            "select distinct object_id as id from deliveries
             where object_id > $1 and object_id < $2 order by id limit $3",
            "select id from payments where id > $1 and id < $2 order by id limit $3",
            "select id from checkout_sessions where id > $1 and id < $2 order by id limit $3",
            "select id from subscriptions where id > $1 and id < $2 order by id limit $3",
            "select id from invoices where id > $1 and id < $2 order by id limit $3",
        ] {
            let found: Vec<String> = db
                .query(select)
                .bind(beginning)
                .bind(end_of(beginning))
                .bind(limit)
                .all(|row| row.get("id"))
                .await?;
            all.extend(found.into_iter().filter(|id| id.starts_with(beginning)));
        }
    }
    Ok(all)
}

/// Deletes sample orders of one shop, with all that came of them. Rows are locked in the sequence in which everybody does.
pub async fn delete_orders(
    tx: &mut Tx,
    shop: &str,
    samples: &[Sample],
    counts: &mut Counts,
) -> Result<()> {
    let orders: Vec<Order> = samples.iter().map(|it| it.order.clone()).collect();
    let objects = orders.iter().map(|order| order.id.to_string()).collect();
    delete_of_objects(tx, Some(shop), objects, counts).await?;
    let customers: BTreeSet<i64> = samples.iter().filter_map(|it| it.customer).collect();
    let customers = customers.into_iter().filter(|id| CUSTOMERS.contains(id));
    let customers: Vec<i64> = tx
        .query("select id from customers where shop = $1 and id in ($2..) order by id for update")
        .bind(shop)
        .bind(customers.collect::<Vec<_>>())
        .all(|row| row.get("id"))
        .await?;
    shop_erasure::delete_orders(tx, shop, &orders, counts).await?;
    let deleted = tx
        .query(
            "delete from customers where shop = $1 and not exists (
                 select 1 from orders where orders.shop = $1 and orders.customer_id = customers.id
             ) and id in ($2..)",
        )
        .bind(shop)
        .bind(customers);
    add(counts, "customers", deleted.execute().await?);
    Ok(())
}

/// Deletes sample objects of the payment provider: payments with their books, sessions with the orders that they made as
/// long as no order of a shop had taken their place, subscriptions, invoices, and the deliveries of all of them.
pub async fn delete_objects(
    tx: &mut Tx,
    objects: &BTreeSet<String>,
    counts: &mut Counts,
) -> Result<()> {
    let ids: Vec<String> = objects.iter().cloned().collect();
    let mut agreements: BTreeSet<String> = objects.clone();
    let select = "select pact_id from checkout_sessions where pact_id is not null and id in ($1..)";
    let named = tx.query(select).bind(ids.clone());
    let named: Vec<String> = named.all(|row| row.get("pact_id")).await?;
    agreements.extend(named);
    let made: Vec<i64> = agreements.iter().map(|it| checkout_key(it).1).collect();
    let made: Vec<Order> = tx
        .query("select id, pact_id from orders where shop = $1 and id in ($2..)")
        .bind(CHECKOUT)
        .bind(made)
        .all(Order::from_row)
        .await?;
    let mut all = ids.clone();
    all.extend(made.iter().map(|order| order.id.to_string()));
    delete_of_objects(tx, None, all, counts).await?;
    for lock in [
        "select id from payments where id in ($1..) order by id for update",
        "select id from checkout_sessions where id in ($1..) order by id for update",
        "select id from subscriptions where id in ($1..) order by id for update",
    ] {
        tx.query(lock).bind(ids.clone()).fetch_all().await?;
    }
    shop_erasure::delete_orders(tx, CHECKOUT, &made, counts).await?;
    for (table, delete) in [
        (
            "ledger_entries",
            "delete from ledger_entries where payment_id in ($1..)",
        ),
        (
            "payment_retries",
            "delete from payment_retries where payment_id in ($1..)",
        ),
        (
            "notifications",
            "delete from notifications where payment_id in ($1..)",
        ),
        ("invoices", "delete from invoices where id in ($1..)"),
        (
            "checkout_sessions",
            "delete from checkout_sessions where id in ($1..)",
        ),
        (
            "subscriptions",
            "delete from subscriptions where id in ($1..)",
        ),
        ("payments", "delete from payments where id in ($1..)"),
    ] {
        let deleted = tx.query(delete).bind(ids.clone());
        add(counts, table, deleted.execute().await?);
    }
    Ok(())
}

/// Deletes the deliveries, jobs and events that are about these objects: of a shop, or else of any.
async fn delete_of_objects(
    tx: &mut Tx,
    shop: Option<&str>,
    objects: Vec<String>,
    counts: &mut Counts,
) -> Result<()> {
    let jobs = tx
        .query("select id from deliveries where object_id in ($1..) order by id")
        .bind(objects.clone());
    let jobs: Vec<JobId> = jobs.all(|row| row.get("id")).await?;
    shop_erasure::delete_jobs(tx, shop, jobs, counts).await?;
    let deleted = tx
        .query(
            "delete from events where ($1 is null or coalesce(shop, '') = $1) and object_id in ($2..)",
        )
        .bind(shop)
        .bind(objects);
    add(counts, "events", deleted.execute().await?);
    Ok(())
}

/// Removes what waited for endpoints of events that were deleted, of these shops and of none.
pub async fn forget_waiting(
    tx: &mut Tx,
    shops: &BTreeSet<String>,
    counts: &mut Counts,
) -> Result<()> {
    for shop in shops.iter().map(String::as_str).chain([""]) {
        let jobs = endpoints::forget_shop(tx, shop).await?;
        shop_erasure::delete_jobs(tx, None, jobs, counts).await?;
    }
    Ok(())
}
