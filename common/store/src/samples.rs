//! Samples of `waybill trigger`: finds them, and deletes them with all that came of them. Unlike an erasure nothing of them
//! stays, not even in the books, because nothing of them was ever real.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::shop_erasure::{self, Counts, Order, add};
use crate::sql::{Db, Result, Row, Tx};
use crate::webhook_ids::{self, DeliveryId};
use domain::order::OrderKey;
use domain::sample::{self, CUSTOMERS, ORDERS};

use super::job_attempts;
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
        .bind(id.max(*ORDERS.start()))
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

/// The agreements of sample payments after this one, at most `limit`.
pub async fn agreements(db: &Db, after: &str, limit: i64) -> Result<Vec<String>> {
    let found: Vec<String> = db
        .query(
            "select pact_id from payments where pact_id > $1 and pact_id < $2
             union select pact_id from checkout_sessions where pact_id > $1 and pact_id < $2
             union select pact_id from subscriptions where pact_id > $1 and pact_id < $2
             order by pact_id limit $3",
        )
        .bind(after.max(sample::AGREEMENT))
        .bind(end_of(sample::AGREEMENT))
        .bind(limit)
        .all(|row| row.get("pact_id"))
        .await?;
    let is_sample = |id: &String| id.starts_with(sample::AGREEMENT);
    Ok(found.into_iter().filter(is_sample).collect())
}

/// The end of all texts that begin so. However a database sorts texts, those that begin alike are between the two.
fn end_of(beginning: &str) -> String {
    let mut end = beginning.to_owned();
    let last = end.pop().map(|last| char::from_u32(u32::from(last) + 1));
    end.extend(last.flatten());
    end
}

/// The other objects of sample payments that deliveries are about, at most `limit` of each kind.
pub async fn objects(db: &Db, limit: i64) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for beginning in sample::OBJECTS {
        let found: Vec<String> = db
            .query(
                "select distinct object_id from deliveries
                 where object_id > $1 and object_id < $2 order by object_id limit $3",
            )
            .bind(beginning)
            .bind(end_of(beginning))
            .bind(limit)
            .all(|row| row.get("object_id"))
            .await?;
        all.extend(found.into_iter().filter(|id| id.starts_with(beginning)));
    }
    Ok(all)
}

/// Deletes sample orders of one shop, with all that came of them.
pub async fn delete_orders(
    tx: &mut Tx,
    shop: &str,
    samples: &[Sample],
    counts: &mut Counts,
) -> Result<()> {
    let orders: Vec<Order> = samples.iter().map(|it| it.order.clone()).collect();
    let objects = orders.iter().map(|order| order.id.to_string()).collect();
    delete_of_objects(tx, Some(shop), objects, counts).await?;
    shop_erasure::delete_orders(tx, shop, &orders, counts).await?;
    let customers: BTreeSet<i64> = samples.iter().filter_map(|it| it.customer).collect();
    let customers = customers.into_iter().filter(|id| CUSTOMERS.contains(id));
    let deleted = tx
        .query(
            "delete from customers where shop = $1 and not exists (
                 select 1 from orders where orders.shop = $1 and orders.customer_id = customers.id
             ) and id in ($2..)",
        )
        .bind(shop)
        .bind(customers.collect::<Vec<_>>());
    add(counts, "customers", deleted.execute().await?);
    Ok(())
}

/// Deletes the payments of sample agreements with their books, and the sessions, subscriptions and orders that came with
/// them.
pub async fn delete_payments(
    tx: &mut Tx,
    agreements: &[String],
    counts: &mut Counts,
) -> Result<()> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for select in [
        "select id from payments where pact_id in ($1..)",
        "select id from checkout_sessions where pact_id in ($1..)",
        "select id from subscriptions where pact_id in ($1..)",
    ] {
        let of_agreements = tx.query(select).bind(agreements.to_vec());
        found.push(of_agreements.all(|row| row.get("id")).await?);
    }
    let [payments, sessions, subscriptions] = found.try_into().unwrap_or_default();
    let mut invoices: Vec<String> = Vec::new();
    for (select, ids) in [
        (
            "select id from invoices where payment_id in ($1..)",
            &payments,
        ),
        (
            "select id from invoices where subscription in ($1..)",
            &subscriptions,
        ),
    ] {
        let of_ids = tx.query(select).bind(ids.clone());
        let found: Vec<String> = of_ids.all(|row| row.get("id")).await?;
        invoices.extend(found);
    }
    // The orders that the sessions made, as long as no order of a shop has taken their place.
    let made = agreements.iter().map(|it| Order {
        id: checkout_key(it).1,
        pact_id: Some(it.clone()),
    });
    let made: Vec<Order> = made.collect();
    let mut objects: Vec<String> = made.iter().map(|order| order.id.to_string()).collect();
    for ids in [&payments, &sessions, &subscriptions, &invoices] {
        objects.extend_from_slice(ids);
    }
    objects.extend_from_slice(agreements);
    delete_of_objects(tx, None, objects, counts).await?;
    shop_erasure::delete_orders(tx, CHECKOUT, &made, counts).await?;
    for (table, delete, ids) in [
        (
            "ledger_entries",
            "delete from ledger_entries where payment_id in ($1..)",
            &payments,
        ),
        (
            "payment_retries",
            "delete from payment_retries where payment_id in ($1..)",
            &payments,
        ),
        (
            "notifications",
            "delete from notifications where payment_id in ($1..)",
            &payments,
        ),
        (
            "invoices",
            "delete from invoices where id in ($1..)",
            &invoices,
        ),
        (
            "checkout_sessions",
            "delete from checkout_sessions where id in ($1..)",
            &sessions,
        ),
        (
            "subscriptions",
            "delete from subscriptions where id in ($1..)",
            &subscriptions,
        ),
        (
            "payments",
            "delete from payments where id in ($1..)",
            &payments,
        ),
    ] {
        let deleted = tx.query(delete).bind(ids.clone());
        add(counts, table, deleted.execute().await?);
    }
    Ok(())
}

/// Deletes the deliveries, jobs and events that are about these objects: of a shop, or else of a payment provider.
pub async fn delete_of_objects(
    tx: &mut Tx,
    shop: Option<&str>,
    objects: Vec<String>,
    counts: &mut Counts,
) -> Result<()> {
    let jobs: BTreeSet<Uuid> = tx
        .query(
            "select jobs.id as id from jobs join deliveries on deliveries.id = jobs.id
             where ($1 is null or coalesce(jobs.shop, '') = $1) and deliveries.object_id in ($2..)
             order by jobs.id for update",
        )
        .bind(shop)
        .bind(objects.clone())
        .all(|row| row.get("id"))
        .await?;
    let ids: Vec<Uuid> = jobs.iter().copied().collect();
    let deleted = tx
        .query(
            "delete from deliveries where id in ($1..)
             returning source, coalesce(shop, connection) as sender, coalesce(external_id, '') as external_id",
        )
        .bind(ids.clone());
    let of = |row: &Row| {
        Ok(DeliveryId::new(
            row.get("source")?,
            row.get::<Option<String>>("sender")?.as_deref(),
            &row.get::<String>("external_id")?,
        ))
    };
    let deliveries: Vec<DeliveryId> = deleted.all(of).await?;
    add(counts, "deliveries", deliveries.len() as u64);
    webhook_ids::forget(tx, deliveries, &jobs).await?;
    job_attempts::delete(tx, ids.clone()).await?;
    let deleted = tx.query("delete from jobs where id in ($1..)").bind(ids);
    add(counts, "jobs", deleted.execute().await?);
    let deleted = tx
        .query(
            "delete from events where ($1 is null or coalesce(shop, '') = $1) and object_id in ($2..)",
        )
        .bind(shop)
        .bind(objects);
    add(counts, "events", deleted.execute().await?);
    Ok(())
}
