//! The erasure of a shop: deletes every row that names the shop, from all tables and one batch at
//! a time, except what came after the request. Tables whose key does not begin with the shop have no index by shop; these are scanned
//! once in the order of their ids.
//!
//! Rows are locked in the order of their keys. Each function is meant for a transaction of its
//! own, so other writers wait for one batch at most. Two things stay: the payments with their
//! ledger, without addresses, and the privacy requests with the audit, as evidence.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregates::{self, Aggregate as _};
use crate::checkout_sessions::SessionEntry;
use crate::erasure;
use crate::events::{self, first_id};
use crate::payments::PaymentEntry;
use crate::sql::{Db, Error, FromRow, Query, Result, Row, Tx};
use crate::webhook_ids::{self, DeliveryId};
use domain::order::OrderKey;
use domain::order::record::Record;
use domain::record::Forget as _;
use domain::time::Timestamp;

use super::job_attempts;
use super::orders::{CHECKOUT, checkout_key};

/// How many rows were erased, by table.
pub type Counts = BTreeMap<String, u64>;

macro_rules! part {
    ($table:literal) => {
        (
            $table,
            concat!(
                "delete from ",
                $table,
                " where shop = $1 and order_id in ($2..)"
            ),
        )
    };
}

/// The tables of what belongs to an order. A part comes before the row that it is a part of.
const PARTS: [(&str, &str); 3] = [
    part!("tracking_numbers"),
    part!("refunds"),
    part!("inventory_movements"),
];

/// An order to be erased.
#[derive(Clone, Debug, FromRow)]
pub struct Order {
    pub id: i64,
    pub pact_id: Option<String>,
}

impl Order {
    /// The id of the order's agreement, by which its payments and sessions are found.
    pub fn agreement(&self) -> String {
        let named = self.pact_id.clone();
        named.unwrap_or_else(|| self.id.to_string())
    }
}

/// Whether the storefront has sent an order of the shop since then.
pub async fn is_in_use(db: &Db, shop: &str, since: Timestamp) -> Result<bool> {
    db.query(
        "select jobs.id from jobs join deliveries on deliveries.id = jobs.id
         where jobs.id >= $1 and jobs.shop = $2 and jobs.queue = 'orders'
           and deliveries.source = 'storefront'
           and coalesce(deliveries.external_id, '') not like 'reconciled/%'
         limit 1",
    )
    .bind(first_id(since))
    .bind(shop)
    .is_any()
    .await
}

/// The first `limit` orders of the shop that are left of those that were made or known by then.
pub async fn orders(db: &Db, shop: &str, until: Timestamp, limit: i64) -> Result<Vec<Order>> {
    db.query(
        "select id, pact_id from orders where shop = $1 and (listed_at <= $2 or created_at <= $2)
         order by listed_at, id limit $3",
    )
    .bind(shop)
    .bind(until.0)
    .bind(limit)
    .all(Order::from_row)
    .await
}

/// The payments of these orders, found by their agreements and by their checkout sessions.
pub async fn payments(tx: &mut Tx, shop: &str, orders: &[Order]) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let ids: Vec<i64> = orders.iter().map(|order| order.id).collect();
    let agreements: Vec<String> = orders.iter().map(Order::agreement).collect();
    let of_orders = tx
        .query(
            "select payment_intent as id from checkout_sessions
             where payment_intent is not null and shop = $1 and order_id in ($2..)",
        )
        .bind(shop)
        .bind(ids);
    let mut rows = of_orders.fetch_all().await?;
    let of_sessions = tx
        .query(
            "select payment_intent as id from checkout_sessions
             where payment_intent is not null
               and (shop is null or shop = $1 or shop = $2) and pact_id in ($3..)",
        )
        .bind(shop)
        .bind(CHECKOUT)
        .bind(agreements.clone());
    rows.extend(of_sessions.fetch_all().await?);
    let of_agreements = tx
        .query("select id from payments where pact_id in ($1..)")
        .bind(agreements);
    rows.extend(of_agreements.fetch_all().await?);
    for row in rows {
        found.insert(row.get("id")?);
    }
    Ok(found)
}

/// What stays of orders, without their people.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Staying {
    pub payments: BTreeSet<String>,
    sessions: BTreeSet<String>,
    /// The orders that checkout sessions made for the same agreements, before the shop's own orders took their place.
    placeholders: BTreeSet<OrderKey>,
}

impl Staying {
    pub fn is_nothing(&self) -> bool {
        let Staying {
            payments,
            sessions,
            placeholders,
        } = self;
        payments.is_empty() && sessions.is_empty() && placeholders.is_empty()
    }

    pub fn extend(&mut self, other: Self) {
        self.payments.extend(other.payments);
        self.sessions.extend(other.sessions);
        self.placeholders.extend(other.placeholders);
    }
}

/// What stays of these orders, whose payments are known.
pub async fn staying(
    tx: &mut Tx,
    shop: &str,
    orders: &[Order],
    payments: BTreeSet<String>,
) -> Result<Staying> {
    let by_order = tx
        .query(
            "select id from checkout_sessions where shop = $1 and order_id in ($2..)
             order by id for update",
        )
        .bind(shop)
        .bind(orders.iter().map(|order| order.id).collect::<Vec<_>>());
    let mut rows = by_order.fetch_all().await?;
    // The shop is compared too, because a session of another shop's order may name the same
    // agreement.
    let by_agreement = tx
        .query(
            "select id from checkout_sessions
             where (shop is null or shop = $1 or shop = $2) and pact_id in ($3..)
             order by id for update",
        )
        .bind(shop)
        .bind(CHECKOUT)
        .bind(orders.iter().map(Order::agreement).collect::<Vec<_>>());
    rows.extend(by_agreement.fetch_all().await?);
    let sessions = rows.iter().map(|row| row.get("id"));
    let agreements = orders.iter().map(Order::agreement);
    Ok(Staying {
        payments,
        sessions: sessions.collect::<Result<_>>()?,
        placeholders: agreements.map(|it| checkout_key(&it)).collect(),
    })
}

/// Removes the people from what stays, and the shop from its sessions. What cannot be read stays as it is, and is returned
/// with the errors that say why.
pub async fn forget(
    tx: &mut Tx,
    staying: Staying,
    now: Timestamp,
    counts: &mut Counts,
) -> Result<(Staying, Vec<Error>)> {
    let payments = staying.payments.into_iter().collect();
    let payments = erasure::forget::<PaymentEntry>(tx, payments, now).await?;
    let sessions = staying.sessions.into_iter().collect();
    let sessions = aggregates::edit::<SessionEntry>(tx, sessions, |it| {
        it.forget(now);
        it.order = None;
    });
    let sessions = sessions.await?;
    let placeholders = staying.placeholders.into_iter().collect();
    let placeholders = aggregates::edit::<Record>(tx, placeholders, |it| {
        it.forget_person();
        it.own.successor = None;
    });
    let placeholders = placeholders.await?;
    add(counts, "payments", payments.changed);
    add(counts, "checkout_sessions", sessions.found);
    let left = Staying {
        payments: payments.unreadable.keys().cloned().collect(),
        sessions: sessions.unreadable.keys().cloned().collect(),
        placeholders: placeholders.unreadable.keys().cloned().collect(),
    };
    let errors = payments.unreadable.into_values();
    let errors = errors.chain(sessions.unreadable.into_values());
    let errors = errors.chain(placeholders.unreadable.into_values());
    Ok((left, errors.collect()))
}

/// Deletes those of the orders that have not changed since they were read, with everything that
/// belongs to them. An order that names another agreement by now is left, because its payments
/// must be found first.
pub async fn delete_orders(
    tx: &mut Tx,
    shop: &str,
    orders: &[Order],
    counts: &mut Counts,
) -> Result<()> {
    let rows = tx
        .query(
            "select id, pact_id from orders where shop = $1 and id in ($2..)
             order by id for update",
        )
        .bind(shop)
        .bind(orders.iter().map(|order| order.id).collect::<Vec<_>>())
        .fetch_all()
        .await?;
    let read: BTreeMap<i64, &Option<String>> = orders
        .iter()
        .map(|order| (order.id, &order.pact_id))
        .collect();
    let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = row.get("id")?;
        if read.get(&id) == Some(&&row.get("pact_id")?) {
            ids.push(id);
        }
    }
    for (table, delete) in PARTS {
        let deleted = tx.query(delete).bind(shop).bind(ids.clone());
        add(counts, table, deleted.execute().await?);
    }
    let deleted = tx
        .query("delete from orders where shop = $1 and id in ($2..)")
        .bind(shop)
        .bind(ids);
    add(counts, "orders", deleted.execute().await?);
    Ok(())
}

/// Deletes the first `limit` customers that are left and of whom no order is left, and returns how many were deleted.
pub async fn delete_customers(tx: &mut Tx, shop: &str, limit: i64) -> Result<u64> {
    tx.query(
        "delete from customers
         where shop = $1 and id in (
             select id from customers
             where shop = $1 and not exists (
                 select 1 from orders where orders.shop = $1 and orders.customer_id = customers.id
             )
             order by id limit $2 for update
         )",
    )
    .bind(shop)
    .bind(limit)
    .execute()
    .await
}

/// Deletes the shop's tombstones except that of the shop itself, which covers all former
/// customers. Tombstones that were written after the request belong to a shop that is in use, and stay.
pub async fn delete_tombstones(
    tx: &mut Tx,
    shop: &str,
    own: Option<Uuid>,
    until: Timestamp,
    limit: i64,
) -> Result<u64> {
    tx.query(
        "delete from tombstones
         where shop = $1 and key in (
             select key from tombstones
             where shop = $1 and redacted_at <= $2 and key <> $3
             order by key limit $4 for update
         )",
    )
    .bind(shop)
    .bind(until.0)
    .bind(own.unwrap_or_default())
    .bind(limit)
    .execute()
    .await
}

/// A page of a scan by id: how far the scan came, and which rows belong to the shop.
#[derive(Debug)]
pub struct ScanPage {
    /// The last row of the page. None when no rows come after it.
    pub last: Option<Uuid>,
    pub found: Vec<Uuid>,
}

/// The next `limit` jobs after the id `after`.
pub async fn scan_jobs(db: &Db, of: Scanned<'_>, after: Uuid, limit: i64) -> Result<ScanPage> {
    let next = db.query(
        "select id, shop, created_at,
                (select object_id from deliveries
                 where deliveries.id = jobs.id and jobs.state = 'done'
                   and (source = 'internal' or jobs.kind like 'orders/%')) as object_id
         from jobs where id > $1 order by id limit $2",
    );
    page(db, next.bind(after), |row| row.get("id"), of, limit).await
}

/// The next `limit` events after the one with the id `after`.
pub async fn scan_events(db: &Db, of: Scanned<'_>, after: Uuid, limit: i64) -> Result<ScanPage> {
    let next = db.query(
        "select position, shop, created_at, object_id from events
         where position > $1 order by position limit $2",
    );
    let next = next.bind(events::position_in(after));
    page(db, next, events::id_of, of, limit).await
}

/// What a scan looks for: what came of the shop by then, and what is about orders that are gone.
#[derive(Clone, Copy)]
pub struct Scanned<'a> {
    pub shop: &'a str,
    pub until: Timestamp,
}

async fn page(
    db: &Db,
    next: Query<'_, '_>,
    id_of: impl Fn(&Row) -> Result<Uuid>,
    of: Scanned<'_>,
    limit: i64,
) -> Result<ScanPage> {
    let rows = next.bind(limit).fetch_all().await?;
    let mut found = Vec::new();
    let mut later: Vec<(Uuid, i64)> = Vec::new();
    for row in &rows {
        if row.get::<Option<String>>("shop")?.as_deref() != Some(of.shop) {
            continue;
        }
        if row.get::<Timestamp>("created_at")? <= of.until {
            found.push(id_of(row)?);
        } else if let Some(object) = row.get::<Option<String>>("object_id")?
            && let Ok(order) = object.parse()
        {
            later.push((id_of(row)?, order));
        }
    }
    let orders: Vec<i64> = later.iter().map(|(_, order)| *order).collect();
    if !orders.is_empty() {
        let left = db.query("select id from orders where shop = $1 and id in ($2..)");
        let left = left.bind(of.shop).bind(orders);
        let left: BTreeSet<i64> = left.all(|row| row.get("id")).await?;
        let gone = later.iter().filter(|(_, order)| !left.contains(order));
        found.extend(gone.map(|(id, _)| *id));
    }
    let last = match rows.last() {
        Some(row) if rows.len() as u64 == limit.cast_unsigned() => Some(id_of(row)?),
        _ => None,
    };
    Ok(ScanPage { last, found })
}

/// Deletes jobs in any state, their attempts, and their deliveries with the ids of these. A run that is under way finds its
/// job gone and has no effect. Jobs of requests that are still open stay: those requests end by
/// themselves, and their deadlines are watched until then. `None`: of any shop.
pub async fn delete_jobs(
    tx: &mut Tx,
    shop: Option<&str>,
    ids: Vec<Uuid>,
    counts: &mut Counts,
) -> Result<()> {
    let ids: BTreeSet<Uuid> = tx
        .query(
            "select id from jobs
             where ($1 is null or coalesce(shop, '') = $1) and id in ($2..)
               and not exists (select 1 from privacy_requests
                               where privacy_requests.id = jobs.id and finished_at is null)
             order by id for update",
        )
        .bind(shop)
        .bind(ids)
        .all(|row| row.get("id"))
        .await?;
    let deleted = tx
        .query(
            "delete from deliveries where id in ($1..)
             returning source, coalesce(shop, connection) as sender, coalesce(external_id, '') as external_id",
        )
        .bind(ids.iter().copied().collect::<Vec<_>>());
    let of = |row: &Row| {
        Ok(DeliveryId::new(
            row.get("source")?,
            row.get::<Option<String>>("sender")?.as_deref(),
            &row.get::<String>("external_id")?,
        ))
    };
    let deliveries = deleted.all(of).await?;
    let forgotten = webhook_ids::forget(tx, deliveries, &ids).await?;
    add(counts, "webhook_ids", forgotten);
    let ids: Vec<Uuid> = ids.into_iter().collect();
    add(
        counts,
        "job_attempts",
        job_attempts::delete(tx, ids.clone()).await?,
    );
    let deleted = tx.query("delete from jobs where id in ($1..)").bind(ids);
    add(counts, "jobs", deleted.execute().await?);
    Ok(())
}

/// Deletes events, except those about the request itself.
pub async fn delete_events(tx: &mut Tx, request: Uuid, ids: Vec<Uuid>) -> Result<u64> {
    tx.query(
        "delete from events
         where position in (
             select position from events where object_id <> $1 and position in ($2..)
             order by position for update
         )",
    )
    .bind(request.to_string())
    .bind(ids.into_iter().map(events::position_in).collect::<Vec<_>>())
    .execute()
    .await
}

pub fn add(counts: &mut Counts, table: &str, rows: u64) {
    *counts.entry(table.to_owned()).or_default() += rows;
}
