//! The `subscriptions` table: until when each subscription is paid.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::sql::{Cell, Db, FromRow, Result, Row, Tx, column};
use crate::versions::{self, Versions, value};
use crate::{json, parsed};
use domain::payment::subscription::Record;
use domain::time::Timestamp;

/// Inserts those subscriptions that do not exist yet, and returns their ids.
pub async fn insert_new(
    tx: &mut Tx,
    subscriptions: &BTreeMap<String, Record>,
    now: Timestamp,
) -> Result<HashSet<String>> {
    let rows = subscriptions
        .iter()
        .map(|(id, record)| row(id, record, now));
    let new = "on conflict (id) do nothing returning id";
    let inserted = tx
        .insert("subscriptions", rows.collect::<Result<_>>()?, new)
        .await?;
    inserted.iter().map(|row| row.get("id")).collect()
}

/// Overwrites subscriptions that [`load`] has locked.
pub async fn save(tx: &mut Tx, subscriptions: &[(&str, &Record)], now: Timestamp) -> Result<()> {
    let rows = subscriptions
        .iter()
        .map(|(id, record)| row(id, record, now));
    tx.overwrite("subscriptions", "id", rows.collect::<Result<_>>()?, "")
        .await
}

fn row<'a>(id: &'a str, record: &'a Record, now: Timestamp) -> Result<[Cell<'a>; 7]> {
    let versions = Versions::of([
        ("customer", versions::of(&record.customer)),
        ("pact_id", versions::of(&record.pact_id)),
    ]);
    Ok([
        column("id", id),
        column(
            "period_end_at",
            record.period_end.map(Timestamp::from_unix_seconds),
        ),
        column("customer_id", value(&record.customer)),
        column("pact_id", value(&record.pact_id)),
        column("versions", json(&versions)?),
        column("created_at", now),
        column("updated_at", now),
    ])
}

/// The subscriptions with these ids, locked, sorted by id.
pub async fn load(tx: &mut Tx, ids: Vec<String>) -> Result<BTreeMap<String, Record>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query(
        "select id, period_end_at, customer_id, pact_id, versions
         from subscriptions where id in ($1..)
         order by id
         for update",
    )
    .bind(ids)
    .all(|row| Ok((row.get("id")?, read(row)?)))
    .await
}

fn read(row: &Row) -> Result<Record> {
    let versions: String = row.get("versions")?;
    let versions: Versions = parsed(&versions)?;
    let period_end_at: Option<i64> = row.get("period_end_at")?;
    Ok(Record {
        period_end: period_end_at.map(|at| Timestamp(at).unix_seconds()),
        customer: versions.part("customer", row.get("customer_id")?),
        pact_id: versions.part("pact_id", row.get("pact_id")?),
    })
}

/// A subscription as an operator sees it.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Summary {
    pub id: String,
    pub period_end_at: Option<Timestamp>,
    pub customer_id: Option<String>,
    pub pact_id: Option<String>,
    pub updated_at: Timestamp,
}

/// The subscriptions that changed last, the newest first.
pub async fn list(db: &Db, limit: i64) -> Result<Vec<Summary>> {
    db.query(
        "select id, period_end_at, customer_id, pact_id, updated_at from subscriptions
         order by updated_at desc, id
         limit $1",
    )
    .bind(limit)
    .all(Summary::from_row)
    .await
}

pub async fn find(db: &Db, id: &str) -> Result<Option<Summary>> {
    db.query(
        "select id, period_end_at, customer_id, pact_id, updated_at from subscriptions
         where id = $1",
    )
    .bind(id)
    .first(Summary::from_row)
    .await
}
