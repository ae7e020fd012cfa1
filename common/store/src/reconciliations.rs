//! The tables `reconciliations`, how far each connection was compared with its provider, and `reconciled_deliveries`, what
//! was found so that never came.
//!
//! A page of a provider's answer is stored in the transaction that notes that it was compared. So whatever crashes, each
//! page is compared, and a page that is compared twice finds nothing the second time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::aggregates::{self, Key as _};
use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::job::{JobId, Source};
use domain::order::OrderKey;
use domain::order::record::{Record, Version};
use domain::reconciliation::Cause;
use domain::time::{Timestamp, age};

/// How long it is kept what was found.
pub const KEPT: Duration = Duration::from_hours(90 * 24);

/// What is compared: a payment provider's connection, or a shop of a storefront's connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    pub source: Source,
    pub connection: String,
    /// Empty for a payment provider.
    pub shop: String,
}

/// How far a target was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct Reconciliation {
    /// storefront, payment
    pub source: String,
    pub connection: String,
    /// Empty for a payment provider.
    pub shop: String,
    /// When it was compared for the first time.
    pub connected_at: Timestamp,
    /// What changed before this time is not compared.
    pub since: Timestamp,
    /// What changed at the provider before this time was compared.
    pub confirmed_until: Timestamp,
    /// The end of what the run under way compares. None: no run is under way.
    pub run_until: Option<Timestamp>,
    /// The page that it asks for next, in the provider's words.
    #[serde(skip)]
    pub page: Option<String>,
    pub next_at: Timestamp,
    pub begun_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Since when the provider cannot be asked, and why not.
    pub failing_since: Option<Timestamp>,
    pub last_error: Option<String>,
    /// How much the run under way, or else the last one, has compared, and how much of it never came.
    pub compared: i64,
    pub found: i64,
    /// When the provider's subscriptions were looked at last. None: not yet, or its API does not list them.
    pub subscriptions_checked_at: Option<Timestamp>,
    /// When any of them was ours.
    pub subscriptions_seen_at: Option<Timestamp>,
    /// What is wrong with them.
    pub subscriptions_error: Option<String>,
    #[serde(skip)]
    pub revision: i64,
}

impl Reconciliation {
    /// Why it is not compared, or what is wrong with the subscriptions.
    pub fn wrong(&self) -> Option<&str> {
        self.last_error
            .as_deref()
            .or(self.subscriptions_error.as_deref())
    }
}

macro_rules! columns {
    () => {
        "source, connection, shop, connected_at, since, confirmed_until, run_until, page, next_at, begun_at, ended_at, failing_since,
         last_error, compared, found, subscriptions_checked_at, subscriptions_seen_at, subscriptions_error, revision"
    };
}

/// Makes the rows of those that have none. What changed before `now` is not compared, unless an operator asks for it.
pub async fn begin(db: &Db, targets: &[Target], now: Timestamp, next: Timestamp) -> Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    let rows = targets.iter().map(|it| {
        [
            column("source", it.source.into_str()),
            column("connection", &it.connection),
            column("shop", &it.shop),
            column("connected_at", now),
            column("since", now),
            column("confirmed_until", now),
            column("next_at", next),
        ]
    });
    let mut tx = db.begin().await?;
    let rest = "on conflict (source, connection, shop) do nothing";
    tx.insert("reconciliations", rows.collect(), rest).await?;
    tx.commit().await
}

/// Reads those of a side that are due, the longest waiting first.
pub async fn due(
    db: &Db,
    source: Source,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Reconciliation>> {
    db.query(concat!(
        "select ",
        columns!(),
        " from reconciliations where source = $1 and next_at <= $2 order by next_at limit $3"
    ))
    .bind(source.into_str())
    .bind(now.0)
    .bind(limit)
    .all(Reconciliation::from_row)
    .await
}

/// Reads all, by connection and shop.
pub async fn all(db: &Db) -> Result<Vec<Reconciliation>> {
    db.query(concat!(
        "select ",
        columns!(),
        " from reconciliations order by source desc, connection, shop"
    ))
    .all(Reconciliation::from_row)
    .await
}

/// Writes how far it is now. False when another process has changed it since it was read.
pub async fn save(tx: &mut Tx, it: &Reconciliation) -> Result<bool> {
    let saved = tx
        .query(
            "update reconciliations
             set confirmed_until = $5, run_until = $6, page = $7, next_at = $8, begun_at = $9, ended_at = $10,
                 failing_since = $11, last_error = $12, compared = $13, found = $14, subscriptions_checked_at = $15,
                 subscriptions_seen_at = $16, subscriptions_error = $17, revision = revision + 1
             where source = $1 and connection = $2 and shop = $3 and revision = $4",
        )
        .bind(it.source.as_str())
        .bind(it.connection.as_str())
        .bind(it.shop.as_str())
        .bind(it.revision)
        .bind(it.confirmed_until.0)
        .bind(it.run_until)
        .bind(it.page.as_deref())
        .bind(it.next_at.0)
        .bind(it.begun_at)
        .bind(it.ended_at)
        .bind(it.failing_since)
        .bind(it.last_error.as_deref())
        .bind(it.compared)
        .bind(it.found)
        .bind(it.subscriptions_checked_at)
        .bind(it.subscriptions_seen_at)
        .bind(it.subscriptions_error.as_deref());
    Ok(saved.execute().await? == 1)
}

/// Makes those of a connection due, or all where none is named; `since`: what changed from then on is compared anew.
/// Returns how many were changed.
pub async fn ask(
    tx: &mut Tx,
    connection: Option<&str>,
    since: Option<Timestamp>,
    now: Timestamp,
) -> Result<u64> {
    tx.query(
        "update reconciliations
         set next_at = case when next_at < $2 then next_at else $2 end,
             since = case when $3 < since then $3 else since end,
             confirmed_until = case when $3 < confirmed_until then $3 else confirmed_until end,
             run_until = case when $3 < confirmed_until then null else run_until end,
             page = case when $3 < confirmed_until then null else page end,
             revision = revision + 1
         where ($1 = '' or connection = $1) and (next_at > $2 or $3 < confirmed_until)",
    )
    .bind(connection.unwrap_or_default())
    .bind(now.0)
    .bind(since.map_or(i64::MAX, |since| since.0))
    .execute()
    .await
}

/// Whether any row is of this connection, or there is any at all where none is named.
pub async fn is_any(tx: &mut Tx, connection: Option<&str>) -> Result<bool> {
    tx.query("select source from reconciliations where $1 = '' or connection = $1 limit 1")
        .bind(connection.unwrap_or_default())
        .is_any()
        .await
}

/// Makes due what was compared last before a time, of one connection, or of the whole side where none is named.
pub async fn hasten(
    tx: &mut Tx,
    source: Source,
    connection: Option<&str>,
    (before, now): (Timestamp, Timestamp),
) -> Result<()> {
    tx.query(
        "update reconciliations set next_at = $4, revision = revision + 1
         where source = $1 and ($2 = '' or connection = $2) and next_at > $4 and (begun_at is null or begun_at < $3)",
    )
    .bind(source.into_str())
    .bind(connection.unwrap_or_default())
    .bind(before.0)
    .bind(now.0)
    .done()
    .await
}

/// Lets the subscriptions of a connection be looked at in its next run, after they were mended.
pub async fn look_again(tx: &mut Tx, connection: &str) -> Result<()> {
    tx.query(
        "update reconciliations
         set subscriptions_checked_at = null, subscriptions_error = null, revision = revision + 1
         where connection = $1",
    )
    .bind(connection)
    .done()
    .await
}

/// Forgets how far a connection was compared.
pub async fn forget_connection(tx: &mut Tx, connection: &str) -> Result<()> {
    tx.query("delete from reconciliations where connection = $1")
        .bind(connection)
        .done()
        .await
}

/// Forgets a shop.
pub async fn forget_shop(tx: &mut Tx, shop: &str) -> Result<()> {
    tx.query("delete from reconciliations where shop = $1")
        .bind(shop)
        .done()
        .await?;
    tx.query("delete from reconciled_deliveries where shop = $1")
        .bind(shop)
        .done()
        .await
}

/// When the erasure of a shop was asked for last, if that was not cancelled.
pub async fn ended_at(db: &Db, shop: &str) -> Result<Option<Timestamp>> {
    db.query(
        "select max(received_at) as received_at from privacy_requests
         where shop = $1 and topic = 'shop/redact' and state <> 'cancelled'",
    )
    .bind(shop)
    .fetch_one()
    .await?
    .get("received_at")
}

/// The versions of those of these orders that are known. Nothing is newer than an order whose record cannot be read:
/// whoever writes to it finds that out, and the others are compared.
pub async fn versions(tx: &mut Tx, keys: Vec<OrderKey>) -> Result<BTreeMap<OrderKey, Version>> {
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query("select shop, id, record from orders where (shop, id) in ($1..)")
        .bind(OrderKey::list(keys))
        .all(|row| match aggregates::of::<Record>(row) {
            Ok((key, order)) => Ok((key, order.version)),
            Err(error) if aggregates::unreadable(&error).is_some() => {
                let (at, tie) = (i64::MAX, i64::MAX);
                Ok((OrderKey::of(row)?, Version { at, tie }))
            }
            Err(error) => Err(error),
        })
        .await
}

/// The bodies of deliveries about these objects of a shop that are not worked on yet, or are dead.
pub async fn waiting(tx: &mut Tx, shop: &str, ids: Vec<String>) -> Result<Vec<Vec<u8>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    tx.query(
        "select body from deliveries
         where object_id in ($2..) and shop = $1 and source = 'storefront' and body is not null
           and (select state from jobs where jobs.id = deliveries.id) <> 'done'",
    )
    .bind(shop)
    .bind(ids)
    .all(|row| row.get("body"))
    .await
}

/// The ids of events that came about these objects, from any account.
pub async fn events(tx: &mut Tx, objects: Vec<String>) -> Result<BTreeSet<String>> {
    if objects.is_empty() {
        return Ok(BTreeSet::new());
    }
    tx.query(
        "select external_id from deliveries
         where object_id in ($1..) and source = 'payment' and external_id is not null",
    )
    .bind(objects)
    .all(|row| row.get("external_id"))
    .await
}

/// A delivery that never came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct Reconciled {
    pub job_id: JobId,
    /// storefront, payment
    pub source: String,
    pub connection: String,
    /// Empty for a payment provider.
    pub shop: String,
    pub kind: String,
    /// When it changed at the provider.
    pub changed_at: Timestamp,
    pub found_at: Timestamp,
    /// refused, outage, not_sent, not_connected
    pub cause: Cause,
}

impl Reconciled {
    /// How a delivery came that did not come by itself.
    pub fn in_words(&self) -> String {
        let late = age(self.found_at, self.changed_at);
        format!(
            "found by reconciliation, {late} late: {}",
            self.cause.in_words()
        )
    }
}

/// Notes what was found.
pub async fn note(tx: &mut Tx, found: &[Reconciled]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let rows = found.iter().map(|it| {
        [
            column("job_id", it.job_id),
            column("source", &it.source),
            column("connection", &it.connection),
            column("shop", &it.shop),
            column("kind", &it.kind),
            column("changed_at", it.changed_at),
            column("found_at", it.found_at),
            column("cause", it.cause.into_str()),
        ]
    });
    tx.insert("reconciled_deliveries", rows.collect(), "")
        .await?;
    Ok(())
}

macro_rules! reconciled {
    () => {
        "select job_id, source, connection, shop, kind, changed_at, found_at, cause from reconciled_deliveries"
    };
}

/// The newest that were found, of a connection if one is named, at most `limit`.
pub async fn newest(db: &Db, connection: Option<&str>, limit: i64) -> Result<Vec<Reconciled>> {
    db.query(concat!(
        reconciled!(),
        " where $2 = '' or connection = $2 order by found_at desc, job_id desc limit $1"
    ))
    .bind(limit)
    .bind(connection.unwrap_or_default())
    .all(Reconciled::from_row)
    .await
}

/// Finds those of these jobs whose deliveries were found.
pub async fn among(db: &Db, jobs: &[JobId]) -> Result<BTreeMap<JobId, Reconciled>> {
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    db.query(concat!(reconciled!(), " where job_id in ($1..)"))
        .bind(jobs.to_vec())
        .all(|row| Reconciled::from_row(row).map(|it| (it.job_id, it)))
        .await
}

/// How many were found since then, by sender and cause.
#[derive(Clone, Debug, FromRow)]
pub struct Counted {
    pub source: String,
    pub connection: String,
    pub cause: Cause,
    pub deliveries: i64,
}

/// Counts what was found since then.
pub async fn count(db: &Db, since: Timestamp) -> Result<Vec<Counted>> {
    db.query(
        "select source, connection, cause, count(*) as deliveries from reconciled_deliveries
         where found_at >= $1
         group by source, connection, cause
         order by source desc, connection, deliveries desc, cause",
    )
    .bind(since.0)
    .all(Counted::from_row)
    .await
}

/// Lists the rows whose subscriptions are wrong.
pub async fn not_subscribed(db: &Db, limit: i64) -> Result<Vec<Reconciliation>> {
    db.query(concat!(
        "select ",
        columns!(),
        " from reconciliations where subscriptions_error is not null order by source, connection, shop limit $1"
    ))
    .bind(limit)
    .all(Reconciliation::from_row)
    .await
}

/// Those that cannot be asked since before then.
pub async fn failing(db: &Db, before: Timestamp, limit: i64) -> Result<Vec<Reconciliation>> {
    db.query(concat!(
        "select ",
        columns!(),
        " from reconciliations where failing_since < $1 order by failing_since, source, connection, shop limit $2"
    ))
    .bind(before.0)
    .bind(limit)
    .all(Reconciliation::from_row)
    .await
}

/// Forgets what was found before then.
pub async fn forget(db: &Db, before: Timestamp, limit: i64) -> Result<u64> {
    db.transact(
        "delete from reconciled_deliveries
         where job_id in (select job_id from reconciled_deliveries where found_at < $1 limit $2)",
    )
    .bind(before.0)
    .bind(limit)
    .execute()
    .await
}
