//! The `subscriptions` table: until when each subscription is paid.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::aggregates::{self, Aggregate};
use crate::sql::{Cell, Db, FromRow, Result, Row, Tx, column};
use domain::payment::record::text;
use domain::payment::subscription::Record;
use domain::record::Forget as _;
use domain::time::Timestamp;

impl Aggregate for Record {
    type Key = String;
    type Record = Record;
    const TABLE: &'static str = "subscriptions";
    const LOCK: &'static str = "select id, record, updated_at from subscriptions where id in ($1..)
                                order by id
                                for update";

    fn of(record: Record, _: &Row) -> Result<Self> {
        Ok(record)
    }

    fn record(&self) -> &Record {
        self
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        let period_end = self.paid_until().map(Timestamp::from_unix_seconds);
        vec![
            column("period_end_at", period_end),
            column("customer_id", text(&self.customer)),
            column("pact_id", text(&self.pact_id)),
        ]
    }

    fn merge(&mut self, other: Self) {
        self.merge(other);
    }

    fn forget(&mut self, _: Timestamp) {
        self.forget_person();
    }
}

/// These subscriptions, as they are known.
pub async fn known(tx: &mut Tx, ids: Vec<String>) -> Result<BTreeMap<String, Record>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    aggregates::read(
        tx.query("select id, record from subscriptions where id in ($1..)")
            .bind(ids),
    )
    .await
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
