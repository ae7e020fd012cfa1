//! Aggregates: everything that is known of an order, a customer, a payment, a checkout session or a
//! subscription, as one row of its table. The row has its key, the record as JSON, and columns for what is searched, sorted,
//! summed or listed. These are made from the record whenever it is written, and never changed alone.
//!
//! Nothing is written over a record that cannot be read: whatever saves a row has read it before. No record grows beyond
//! [`LARGEST`] bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::json;
use crate::sql::{Cell, Error, Query, Result, Row, Tx, Value, column};
use domain::order::OrderKey;
use domain::record::{self, Forget, Record, Unreadable};
use domain::time::Timestamp;

/// The bytes that a record may have. Deliveries have up to 2 MiB, so that only many of them lead there.
const LARGEST: usize = 8 << 20;

/// A row of such a table.
pub trait Aggregate: Clone + PartialEq {
    type Key: Key;
    type Record: Record + Forget;
    const TABLE: &'static str;
    /// Reads rows by their keys, sorted by them and locked, with `updated_at`.
    const LOCK: &'static str;

    /// What is read from the row. Its columns that are made from the record are not read.
    fn of(record: Self::Record, row: &Row) -> Result<Self>;

    fn record(&self) -> &Self::Record;

    /// The columns beside the key, the record, `created_at` and `updated_at`.
    fn columns(&self) -> Vec<Cell<'_>>;

    /// Merges what deliveries say, newer or older, into this.
    fn merge(&mut self, other: Self);

    /// Removes what may identify a person, at this time.
    fn forget(&mut self, now: Timestamp);
}

/// A primary key.
pub trait Key: Clone + Ord {
    /// Its columns.
    const COLUMNS: &'static str;

    fn of(row: &Row) -> Result<Self>;
    fn columns(&self) -> Vec<Cell<'_>>;
    /// The key as an error names it.
    fn name(&self) -> String;
    /// The value for `in ($1..)`.
    fn list(keys: Vec<Self>) -> Value<'static>;
}

impl Key for String {
    const COLUMNS: &'static str = "id";

    fn of(row: &Row) -> Result<Self> {
        row.get("id")
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        vec![column("id", self)]
    }

    fn name(&self) -> String {
        self.clone()
    }

    fn list(keys: Vec<Self>) -> Value<'static> {
        keys.into()
    }
}

/// The shop and the id, of customers too.
impl Key for OrderKey {
    const COLUMNS: &'static str = "shop, id";

    fn of(row: &Row) -> Result<Self> {
        Ok((row.get("shop")?, row.get("id")?))
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        vec![column("shop", &self.0), column("id", self.1)]
    }

    fn name(&self) -> String {
        format!("{} {}", self.0, self.1)
    }

    fn list(keys: Vec<Self>) -> Value<'static> {
        keys.into()
    }
}

/// A record that cannot be read, without a value of it.
#[derive(Debug, thiserror::Error)]
#[error("the record of {key} in {table} cannot be read: {why}; nothing was changed")]
struct UnreadableRecord {
    table: &'static str,
    key: String,
    why: Unreadable,
}

/// A record that has become too large to be kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "the record of {key} in {table} would have {bytes} bytes, and may have {LARGEST}; nothing was changed. Discard \
     the job, if what it says more is not needed"
)]
struct TooLarge {
    table: &'static str,
    key: String,
    bytes: usize,
}

/// Whether it is because of a record that is damaged or would become too large, which is no better however often it is
/// tried.
pub fn is_permanent(error: &Error) -> bool {
    let too_large = matches!(error, Error::Encode(error) if error.is::<TooLarge>());
    too_large || matches!(unreadable(error), Some(Unreadable::Damaged { .. }))
}

/// Why a record could not be read, if that is the error.
pub(crate) fn unreadable(error: &Error) -> Option<Unreadable> {
    let Error::Decode(error) = error else {
        return None;
    };
    Some(error.downcast_ref::<UnreadableRecord>()?.why)
}

/// What deliveries said that was new.
pub struct Merged<A: Aggregate> {
    pub key: A::Key,
    /// None when nothing was known.
    pub before: Option<A>,
    pub after: A,
}

/// Inserts what is not known yet, and merges the rest with what is known, whose rows are then locked. What
/// says nothing new is left out. The caller saves what it returns, unless it was inserted as it is. If
/// another transaction is inserting the same, this waits for it.
pub async fn merge<A: Aggregate>(
    tx: &mut Tx,
    incoming: BTreeMap<A::Key, A>,
    now: Timestamp,
) -> Result<Vec<Merged<A>>> {
    let inserted = insert_new(tx, &incoming, now).await?;
    let known = incoming.keys().filter(|key| !inserted.contains(key));
    let mut known = lock::<A>(tx, known.cloned().collect()).await?;
    let merged = incoming.into_iter().filter_map(|(key, new)| {
        let Some(before) = known.remove(&key) else {
            return Some(Merged {
                key,
                before: None,
                after: new,
            });
        };
        let mut after = before.clone();
        after.merge(new);
        (after != before).then_some(Merged {
            key,
            before: Some(before),
            after,
        })
    });
    Ok(merged.collect())
}

/// The keys of those that did not exist yet.
pub(crate) async fn insert_new<'a, A: Aggregate + 'a>(
    tx: &mut Tx,
    new: impl IntoIterator<Item = (&'a A::Key, &'a A)>,
    now: Timestamp,
) -> Result<BTreeSet<A::Key>>
where
    A::Key: 'a,
{
    let rows = new.into_iter().map(|(key, value)| row(key, value, now));
    let key = A::Key::COLUMNS;
    let rest = format!("on conflict ({key}) do nothing returning {key}");
    let inserted = tx.insert(A::TABLE, rows.collect::<Result<_>>()?, &rest);
    inserted.await?.iter().map(A::Key::of).collect()
}

/// The rows with these keys, locked in the sequence of their keys.
pub async fn lock<A: Aggregate>(tx: &mut Tx, keys: Vec<A::Key>) -> Result<BTreeMap<A::Key, A>> {
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    read(tx.query(A::LOCK).bind(A::Key::list(keys))).await
}

/// What a statement reads, which selects the key, the record and the columns that are read beside it.
pub(crate) async fn read<A: Aggregate, C: FromIterator<(A::Key, A)>>(
    query: Query<'_, '_>,
) -> Result<C> {
    query.all(of).await
}

/// What a row says, which has the key, the record and the columns that are read beside it.
pub(crate) fn of<A: Aggregate>(row: &Row) -> Result<(A::Key, A)> {
    let key = A::Key::of(row)?;
    let record = record_of::<A>(&key, &row.get::<String>("record")?)?;
    Ok((key, A::of(record, row)?))
}

/// Reads the text of a record.
pub(crate) fn record_of<A: Aggregate>(key: &A::Key, text: &str) -> Result<A::Record> {
    record::read(text).map_err(|why| {
        let (table, key) = (A::TABLE, key.name());
        Error::Decode(UnreadableRecord { table, key, why }.into())
    })
}

/// The record of a row, which has the key too, as an export shows it.
pub(crate) fn exported<A: Aggregate>(row: &Row) -> Result<serde_json::Value> {
    let record = record_of::<A>(&A::Key::of(row)?, &row.get::<String>("record")?)?;
    serde_json::to_value(&record).map_err(|error| Error::Encode(error.into()))
}

/// Overwrites rows that this transaction has inserted or locked.
pub async fn save<'a, A: Aggregate + 'a>(
    tx: &mut Tx,
    rows: impl IntoIterator<Item = (&'a A::Key, &'a A)>,
    now: Timestamp,
) -> Result<()>
where
    A::Key: 'a,
{
    let rows = rows.into_iter().map(|(key, value)| row(key, value, now));
    overwrite::<A>(tx, rows.collect::<Result<_>>()?).await
}

async fn overwrite<A: Aggregate>(tx: &mut Tx, rows: Vec<Vec<Cell<'_>>>) -> Result<()> {
    tx.overwrite(A::TABLE, A::Key::COLUMNS, rows, "").await
}

fn row<'a, A: Aggregate>(
    key: &'a A::Key,
    value: &'a A,
    updated_at: Timestamp,
) -> Result<Vec<Cell<'a>>> {
    let record = json(value.record())?;
    if record.len() > LARGEST {
        let (table, key, bytes) = (A::TABLE, key.name(), record.len());
        return Err(Error::Encode(TooLarge { table, key, bytes }.into()));
    }
    let mut row = key.columns();
    row.extend(value.columns());
    row.push(column("record", record));
    // When a row is overwritten, this stays as it is.
    row.push(column("created_at", updated_at));
    row.push(column("updated_at", updated_at));
    Ok(row)
}

/// What [`edit`] came to.
pub struct Edited<K> {
    /// How many rows were read, and how many of them were changed.
    pub found: u64,
    pub changed: u64,
    /// Rows that stay as they are, because their records cannot be read.
    pub unreadable: BTreeMap<K, Error>,
}

impl<K> Edited<K> {
    /// The same, unless a record could not be read.
    pub fn whole(self) -> Result<Self> {
        match self.unreadable.into_values().next() {
            Some(error) => Err(error),
            None => Ok(Edited {
                unreadable: BTreeMap::new(),
                ..self
            }),
        }
    }
}

/// How many rows are changed with one statement.
const CHUNK: usize = 1000;

/// Locks rows and changes them otherwise than by a delivery, so that their `updated_at` stays.
pub async fn edit<A: Aggregate>(
    tx: &mut Tx,
    keys: Vec<A::Key>,
    change: impl Fn(&mut A),
) -> Result<Edited<A::Key>> {
    let mut edited = Edited {
        found: 0,
        changed: 0,
        unreadable: BTreeMap::new(),
    };
    for keys in keys.chunks(CHUNK) {
        let query = tx.query(A::LOCK).bind(A::Key::list(keys.to_vec()));
        let mut changed = Vec::new();
        for row in query.fetch_all().await? {
            let (key, before) = match of::<A>(&row) {
                Err(error) if unreadable(&error).is_some() => {
                    edited.unreadable.insert(A::Key::of(&row)?, error);
                    continue;
                }
                read => read?,
            };
            edited.found += 1;
            let mut after = before.clone();
            change(&mut after);
            if after != before {
                changed.push((key, after, row.get("updated_at")?));
            }
        }
        edited.changed += changed.len() as u64;
        let changed = changed.iter();
        let changed = changed.map(|(key, value, updated_at)| row(key, value, *updated_at));
        overwrite::<A>(tx, changed.collect::<Result<_>>()?).await?;
    }
    Ok(edited)
}
