//! Copies everything of a SQLite file into another database, which is empty, while no service uses the
//! file: so a shop that began on SQLite goes on with PostgreSQL.
//!
//! All rows are copied in one transaction, table by table, and then compared. When the copy is committed
//! the file is marked, and nobody opens it any more. An interrupted copy has left nothing, or all: then
//! the rows are only compared again before the file is marked.
//!
//! The tables and their columns are read from the migrations, so no table can be forgotten.

use sha2::{Digest as _, Sha256};

use super::tables::{Column, TABLES, Table, digest_into, values};
use crate::event_head;
use crate::sql::{self, Cell, Db, Query, Result, Row, Tx};

/// How many rows are read and written at a time. A body may have some megabytes.
const CHUNK: u32 = 64;

/// Of two who copy into one database at once the second one waits. The number has no meaning.
const ONE_AT_A_TIME: i64 = 0x5761_7962_696c_6c02;

/// The table that is not copied: its rows are about processes that run.
const OF_PROCESSES: &str = "leases";

/// The key that a SQLite file made for itself. PostgreSQL never stores a key.
const OWN_KEY: (&str, &str) = ("privacy_keys", "secret");

/// Why a copy did not end.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(
        "it is not empty, and {0} differs from the file; give it a database in which nothing was done yet"
    )]
    NotEmpty(&'static str),
    #[error("the file was moved already, to {0}; set DATABASE_URL to that database")]
    Moved(String),
    #[error("{0} differs from the file, so nothing is copied")]
    Differs(&'static str),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

type Done<T> = std::result::Result<T, CopyError>;

/// What a copy does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many rows of a table are copied, out of so many.
    Rows {
        table: &'static str,
        copied: i64,
        of: i64,
    },
    /// The rows of a table are compared.
    Compared { table: &'static str },
}

/// Why a database cannot be used, and what to do about it. None if it can: no other one has taken its place.
pub async fn prevents(db: &Db) -> Result<Option<String>> {
    if db.file_size().await?.is_none() {
        return Ok(None);
    }
    let mut tx = db.snapshot().await?;
    let moved = moved(&mut tx).await?;
    tx.rollback().await?;
    Ok(moved.map(|place| {
        format!(
            "it was moved to {place} by `waybill copy`; set DATABASE_URL to that database. If that one was never \
             used, `waybill copy --abandon` opens this one again"
        )
    }))
}

/// Where the copy is that has taken the place of a SQLite file.
async fn moved(tx: &mut Tx) -> Result<Option<String>> {
    let ask = "select 1 as n from sqlite_schema where type = 'table' and name = 'moved_to'";
    if tx.query(ask).fetch_optional().await?.is_none() {
        return Ok(None);
    }
    let row = tx.query("select place from moved_to").fetch_one().await?;
    row.get("place").map(Some)
}

/// Lets a file be used again. Returns whether another database had taken its place.
pub async fn abandon(from: &Db) -> Result<bool> {
    let mut tx = from.begin().await?;
    let was = moved(&mut tx).await?.is_some();
    if was {
        tx.query("drop table moved_to").execute().await?;
    }
    tx.commit().await?;
    Ok(was)
}

/// Copies a SQLite database that nobody else uses ([`Db::open_alone`]) into `to`, which has the same schema
/// and no rows, or all that an interrupted copy has left. Without `with_own_key` the key stays behind that the
/// source made for itself. `place` says in words where the copy is, for whoever opens the file later. Returns
/// each table with its rows.
pub async fn copy(
    from: &Db,
    to: &Db,
    with_own_key: bool,
    place: &str,
    report: &mut (dyn FnMut(Step) + Send),
) -> Done<Vec<(&'static str, i64)>> {
    let mut source = from.begin().await?;
    if let Some(place) = moved(&mut source).await? {
        return Err(CopyError::Moved(place));
    }
    let mut target = to.begin().await?;
    target.lock(ONE_AT_A_TIME).await?;
    let mut is_empty = true;
    for table in copied() {
        is_empty &= count(&mut target, table).await? == 0;
    }
    let mut tables = Vec::new();
    for table in copied() {
        let of = count(&mut source, table).await?;
        tables.push((table.name, of));
        if is_empty {
            let columns = copied_columns(table, with_own_key);
            let mut copied = |copied| {
                report(Step::Rows {
                    table: table.name,
                    copied,
                    of,
                });
            };
            rows(&mut source, &mut target, table, &columns, &mut copied).await?;
        }
    }
    for table in copied() {
        report(Step::Compared { table: table.name });
        let columns = copied_columns(table, with_own_key);
        if !is_same(&mut source, &mut target, table, &columns).await? {
            return Err(if is_empty {
                CopyError::Differs(table.name)
            } else {
                CopyError::NotEmpty(table.name)
            });
        }
    }
    target.commit().await?;
    event_head::raise(to).await?;
    let mark = "create table moved_to (place text not null)";
    source.query(mark).execute().await?;
    let mark = "insert into moved_to (place) values ($1)";
    source.query(mark).bind(place).execute().await?;
    source.commit().await?;
    Ok(tables)
}

fn copied() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| table.name != OF_PROCESSES)
}

async fn count(tx: &mut Tx, table: &'static Table) -> Result<i64> {
    tx.query(&table.count).fetch_one().await?.get("n")
}

/// The columns of a table that are copied.
fn copied_columns(table: &Table, with_own_key: bool) -> Vec<Column> {
    let stays = |it: &&Column| !with_own_key && (table.name, it.name) == OWN_KEY;
    let columns = table.columns.iter().filter(|it| !stays(it));
    columns.copied().collect()
}

/// Copies the rows of a table.
async fn rows(
    source: &mut Tx,
    target: &mut Tx,
    table: &'static Table,
    columns: &[Column],
    report: &mut (dyn FnMut(i64) + Send),
) -> Result<()> {
    let (mut pages, mut copied) = (Pages::of(table), 0);
    loop {
        let rows = pages.next(source).await?;
        if rows.is_empty() {
            return Ok(());
        }
        copied += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let rows = rows.iter().map(|row| values(columns, row));
        let rows = rows.collect::<Result<_>>()?;
        target.insert(table.name, rows, "").await?;
        report(copied);
    }
}

/// Whether a table has the same rows in both databases, which sort text in different ways. Both are read by
/// turns, because a server ends a transaction that is idle for long.
async fn is_same(
    source: &mut Tx,
    target: &mut Tx,
    table: &'static Table,
    columns: &[Column],
) -> Result<bool> {
    let (mut there, mut here) = (Pages::of(table), Pages::of(table));
    let (mut sum_there, mut sum_here) = (Sum::default(), Sum::default());
    loop {
        let of_source = there.next(source).await?;
        let of_target = here.next(target).await?;
        if of_source.is_empty() && of_target.is_empty() {
            return Ok(sum_there == sum_here);
        }
        for row in &of_source {
            sum_there.add(&values(columns, row)?);
        }
        for row in &of_target {
            sum_here.add(&values(columns, row)?);
        }
    }
}

/// The rows of a table, sorted by key, some at a time.
struct Pages {
    table: &'static Table,
    last: Option<Vec<Cell<'static>>>,
}

impl Pages {
    fn of(table: &'static Table) -> Self {
        Pages { table, last: None }
    }

    /// The next rows; none when there are no more.
    async fn next(&mut self, tx: &mut Tx) -> Result<Vec<Row>> {
        let query = match &self.last {
            None => tx.query(&self.table.first),
            Some(key) => {
                let query = tx.query(&self.table.next);
                let values = key.iter().map(|(_, value)| value.clone());
                values.fold(query, Query::bind)
            }
        };
        let rows = query.bind(i64::from(CHUNK)).fetch_all().await?;
        if let Some(row) = rows.last() {
            self.last = Some(values(&self.table.key, row)?);
        }
        Ok(rows)
    }
}

/// The rows of a table, whatever their sequence.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    /// The sum of the first 128 bits of each row's SHA-256.
    digests: u128,
}

impl Sum {
    fn add(&mut self, row: &[Cell<'_>]) {
        let mut digest = Sha256::new();
        for (_, value) in row {
            digest_into(value, &mut digest);
        }
        let digest = digest.finalize();
        let first = digest.as_slice().first_chunk().copied();
        let first = first.map_or(0, u128::from_be_bytes);
        self.rows += 1;
        self.digests = self.digests.wrapping_add(first);
    }
}
