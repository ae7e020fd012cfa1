//! The `subscriptions` table: until when each subscription is paid.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::sql::{Column, Db, Result, Row, Tx, column};
use crate::versions::{self, Versions};
use crate::{json, parsed};
use domain::event::LastEvent;
use domain::payment::subscription::Record;
use domain::time::Timestamp;

/// A subscription as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionEntry {
    pub record: Record,
    /// The time in the id of the subscription's last event. The next event's id gets a later
    /// time.
    pub events_at: LastEvent,
}

/// Inserts those subscriptions that do not exist yet, and returns their ids.
pub async fn insert_new(
    tx: &mut Tx,
    subscriptions: &BTreeMap<String, SubscriptionEntry>,
    now: Timestamp,
) -> Result<HashSet<String>> {
    let rows: Vec<(&str, &SubscriptionEntry)> = subscriptions
        .iter()
        .map(|(id, it)| (id.as_str(), it))
        .collect();
    let inserted = insert(tx, &rows, now, "on conflict (id) do nothing returning id").await?;
    inserted.iter().map(|row| row.get("id")).collect()
}

/// Overwrites subscriptions that [`load`] has locked.
pub async fn save(
    tx: &mut Tx,
    subscriptions: &[(&str, &SubscriptionEntry)],
    now: Timestamp,
) -> Result<()> {
    insert(
        tx,
        subscriptions,
        now,
        "on conflict (id) do update
         set period_end_at = excluded.period_end_at, customer_id = excluded.customer_id,
             pact_id = excluded.pact_id, versions = excluded.versions,
             events_at = excluded.events_at, updated_at = excluded.updated_at",
    )
    .await?;
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    subscriptions: &[(&str, &SubscriptionEntry)],
    now: Timestamp,
    rest: &str,
) -> Result<Vec<Row>> {
    let records = || subscriptions.iter().map(|(_, entry)| &entry.record);
    let versions: Vec<String> = records()
        .map(|it| {
            let parts = [
                ("customer", versions::of(it.customer.as_ref())),
                ("pact_id", versions::of(it.pact_id.as_ref())),
            ];
            json(&Versions::of(parts))
        })
        .collect::<Result<_>>()?;
    let columns: Vec<Column<'_>> = vec![
        column("id", subscriptions.iter().map(|(id, _)| *id)),
        column(
            "period_end_at",
            records().map(|it| it.period_end.map(|at| Timestamp::from_unix_seconds(at).0)),
        ),
        column(
            "customer_id",
            records().map(|it| it.customer.as_ref().map(|part| part.value.as_str())),
        ),
        column(
            "pact_id",
            records().map(|it| it.pact_id.as_ref().map(|part| part.value.as_str())),
        ),
        column("versions", versions.iter().map(String::as_str)),
        column(
            "events_at",
            subscriptions
                .iter()
                .map(|(_, entry)| entry.events_at.millis()),
        ),
        column("created_at", subscriptions.iter().map(|_| now.0)),
        column("updated_at", subscriptions.iter().map(|_| now.0)),
    ];
    tx.insert("subscriptions", &columns, rest).await
}

/// The subscriptions with these ids, locked, sorted by id.
pub async fn load(tx: &mut Tx, ids: Vec<String>) -> Result<BTreeMap<String, SubscriptionEntry>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query(
        "select id, period_end_at, customer_id, pact_id, versions, events_at
         from subscriptions where id in ($1..)
         order by id
         for update",
    )
    .bind(ids)
    .all(|row| Ok((row.get("id")?, read(row)?)))
    .await
}

fn read(row: &Row) -> Result<SubscriptionEntry> {
    let versions: String = row.get("versions")?;
    let versions: Versions = parsed(&versions)?;
    let period_end_at: Option<i64> = row.get("period_end_at")?;
    Ok(SubscriptionEntry {
        record: Record {
            period_end: period_end_at.map(|at| Timestamp(at).unix_seconds()),
            customer: versions.part("customer", row.get("customer_id")?),
            pact_id: versions.part("pact_id", row.get("pact_id")?),
        },
        events_at: LastEvent::from_millis(row.get("events_at")?),
    })
}

/// A subscription as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub id: String,
    pub period_end_at: Option<Timestamp>,
    pub customer_id: Option<String>,
    pub pact_id: Option<String>,
    pub updated_at: Timestamp,
}

fn summary(row: &Row) -> Result<Summary> {
    Ok(Summary {
        id: row.get("id")?,
        period_end_at: row.get::<Option<i64>>("period_end_at")?.map(Timestamp),
        customer_id: row.get("customer_id")?,
        pact_id: row.get("pact_id")?,
        updated_at: Timestamp(row.get("updated_at")?),
    })
}

/// The subscriptions that changed last, the newest first.
pub async fn list(db: &Db, limit: i64) -> Result<Vec<Summary>> {
    db.query(
        "select id, period_end_at, customer_id, pact_id, updated_at from subscriptions
         order by updated_at desc, id
         limit $1",
    )
    .bind(limit)
    .all(summary)
    .await
}

pub async fn find(db: &Db, id: &str) -> Result<Option<Summary>> {
    db.query(
        "select id, period_end_at, customer_id, pact_id, updated_at from subscriptions
         where id = $1",
    )
    .bind(id)
    .first(summary)
    .await
}
