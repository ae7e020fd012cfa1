//! The `customers` table: what the orders of each customer of a shop say of them.

use std::collections::BTreeMap;

use crate::aggregates::{self, Aggregate};
use crate::sql::{Cell, Db, FromRow, Result, Row, Tx, column};
use domain::customer::Record;
use domain::order::OrderKey;
use domain::privacy::{email_key, phone_key};
use domain::record::Forget as _;
use domain::time::Timestamp;

/// A customer as it is stored.
#[derive(Clone, PartialEq)]
pub struct CustomerEntry {
    pub record: Record,
    /// When the person was erased.
    pub redacted_at: Option<Timestamp>,
}

impl Aggregate for CustomerEntry {
    type Key = OrderKey;
    type Record = Record;
    const TABLE: &'static str = "customers";
    const LOCK: &'static str = "select shop, id, record, redacted_at, updated_at
                                from customers where (shop, id) in ($1..)
                                order by shop, id
                                for update";

    fn of(record: Record, row: &Row) -> Result<Self> {
        Ok(CustomerEntry {
            record,
            redacted_at: row.get("redacted_at")?,
        })
    }

    fn record(&self) -> &Record {
        &self.record
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        vec![
            column("email_key", self.record.email().map(email_key)),
            column("phone_key", self.record.phone().map(phone_key)),
            column("redacted_at", self.redacted_at),
        ]
    }

    fn merge(&mut self, other: Self) {
        self.record.merge(other.record);
    }

    fn forget(&mut self, now: Timestamp) {
        self.record.forget_person();
        self.redacted_at.get_or_insert(now);
    }
}

/// Merges what orders say about their customers, including older orders. Those of whom they say nothing
/// new are only read. The caller shares the lock of each shop, so none of them is erased meanwhile.
pub async fn absorb(tx: &mut Tx, seen: BTreeMap<OrderKey, Record>, now: Timestamp) -> Result<()> {
    if seen.is_empty() {
        return Ok(());
    }
    let known: BTreeMap<OrderKey, CustomerEntry> = aggregates::read(
        tx.query("select shop, id, record, redacted_at from customers where (shop, id) in ($1..)")
            .bind(seen.keys().cloned().collect::<Vec<_>>()),
    )
    .await?;
    let mut news = BTreeMap::new();
    for (key, record) in seen {
        let new = CustomerEntry {
            record,
            redacted_at: None,
        };
        let says_nothing_new = known.get(&key).is_some_and(|known| {
            let mut merged = known.clone();
            merged.merge(new.clone());
            merged == *known
        });
        if !says_nothing_new {
            news.insert(key, new);
        }
    }
    let merged = aggregates::merge(tx, news, now).await?;
    let changed = merged.iter().filter(|it| it.before.is_some());
    let changed = changed.map(|it| (&it.key, &it.after));
    aggregates::save(tx, changed, now).await
}

/// A customer as an operator sees it, without personal data.
#[derive(Clone, Copy, Debug, FromRow)]
pub struct Summary {
    pub updated_at: Timestamp,
    /// When the person was erased.
    pub redacted_at: Option<Timestamp>,
}

pub async fn find(db: &Db, shop: &str, id: i64) -> Result<Option<Summary>> {
    db.query("select updated_at, redacted_at from customers where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .first(Summary::from_row)
        .await
}
