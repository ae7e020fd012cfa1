//! Moves everything of a SQLite file into another database, which is empty, while a service uses the file:
//! so a shop that began on SQLite goes on with PostgreSQL.
//!
//! Triggers note the key of each row that is changed meanwhile ([`changes`]). All rows are copied out of a
//! snapshot, table by table; then what was changed since, again and again, until that takes little time;
//! then both are compared, row by row. For the last changes the file is locked: they are copied and compared,
//! and in the transaction that ends it the file is closed to all writes. So whatever the file has
//! answered for is in the copy, and nothing can be written that is not.
//!
//! How far the copy has come is stored with its rows ([`progress`]), so whoever was interrupted goes on. Until it
//! is whole nobody serves it.
//!
//! The tables and their columns are read from the migrations, so no table can be forgotten.

mod changes;
mod progress;
mod tables;

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::is_no_such_table;
use crate::sql::{self, Db, Result, Tx};
pub use changes::abandon;
use progress::{Progress, Until};
use tables::{Column, TABLES, Table, Value, cells, values};

/// How many rows are read and written at a time. A body may have some megabytes.
const CHUNK: u32 = 64;
/// How many such chunks are committed at a time.
const COMMITTED: usize = 64;
/// How many changes are read at a time.
const CHANGES: i64 = 1_000;
/// What was changed while a round took no longer than this is copied in about as much time.
const SHORT: Duration = Duration::from_secs(1);
/// So many rounds may take longer. If a file is changed faster than it is copied, nobody can write for as
/// long as the last one took.
const MOST_ROUNDS: usize = 20;

/// The key that a SQLite file made for itself. PostgreSQL never stores a key.
const OWN_KEY: (&str, &str) = ("privacy_keys", "secret");

/// Why a copy did not end.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(
        "it is not empty: there are rows in {0}; give it a database in which nothing was done yet"
    )]
    NotEmpty(&'static str),
    #[error(
        "it has what another copy has left; make it empty, or give it another database, in which nothing was done yet"
    )]
    Another,
    #[error(
        "somebody else copies the file too, and goes on where this copy was, or has ended it already"
    )]
    TakenOver,
    #[error("the file was moved already, to {0}; set DATABASE_URL to that database")]
    Moved(String),
    #[error(
        "{0} differs from the file, so the copy is of no use; run `waybill copy --abandon`, and copy into an empty database again"
    )]
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
    /// Rows that were changed since are copied, so many until now.
    Changes { copied: usize },
    /// The rows of a table are compared.
    Compared { table: &'static str },
    /// Nobody can write from now on, for about so long.
    Still { about: Duration },
}

/// What was copied.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Each table with its rows.
    pub tables: Vec<(&'static str, i64)>,
    /// For how long nobody could write.
    pub still: Duration,
}

/// What a database can be used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Usable,
    /// Another database has taken its place.
    Moved(String),
    /// A copy into it has not ended.
    Unfinished,
}

/// Whether a database takes part in a copy, so that it must not be served.
pub async fn standing(db: &Db) -> Result<Standing> {
    if progress::is_unfinished(db).await? {
        return Ok(Standing::Unfinished);
    }
    if db.name() == "sqlite"
        && let Some((_, place)) = changes::moved(db).await?
    {
        return Ok(Standing::Moved(place));
    }
    Ok(Standing::Usable)
}

impl Standing {
    /// Why the database cannot be used, and what to do about it.
    pub fn prevents(&self) -> Option<String> {
        match self {
            Standing::Usable => None,
            Standing::Moved(place) => Some(format!(
                "it was moved to {place} by `waybill copy`, and takes no writes any more; set DATABASE_URL to that \
                 database. If that one was never used, `waybill copy --abandon` opens this one again"
            )),
            Standing::Unfinished => Some(
                "`waybill copy` into it has not ended; run it again, and it goes on where it was"
                    .to_owned(),
            ),
        }
    }
}

/// Copies a SQLite database into `to`, which has the same schema and no rows, or what an interrupted copy
/// has left. Without `with_own_key` the key stays behind that the source made for itself. `place` says in
/// words where the copy is, for whoever opens the file later.
pub async fn copy(
    from: &Db,
    to: &Db,
    with_own_key: bool,
    place: &str,
    report: &mut (dyn FnMut(Step) + Send),
) -> Done<Copied> {
    if let Some((id, place)) = changes::moved(from).await? {
        if !progress::is_of(to, id).await? {
            return Err(CopyError::Moved(place));
        }
        // It was interrupted after its last step but one.
        let tables = counted(to).await?;
        progress::close(to).await?;
        return Ok(Copied {
            tables,
            still: Duration::ZERO,
        });
    }
    let copied = async {
        let Some((id, change)) = changes::begin(from).await? else {
            return Err(CopyError::TakenOver);
        };
        progress::open(to, id, change).await?;
        let mut copy = Copy {
            from,
            to,
            id,
            owner: progress::claim(to).await?,
            with_own_key,
            report,
        };
        copy.round(false).await?;
        copy.rounds().await?;
        copy.round(true).await?;
        let last = copy.rounds().await?;
        (copy.report)(Step::Still {
            about: last.max(SHORT),
        });
        copy.end(place).await
    };
    copied.await.map_err(|error| match error {
        // What another one has ended has no tables for the copy any more.
        CopyError::Database(sql::Error::Database(error)) if is_no_such_table(&*error) => {
            CopyError::TakenOver
        }
        error => error,
    })
}

async fn count(tx: &mut Tx, table: &'static Table) -> Result<i64> {
    tx.query(&table.count).fetch_one().await?.get("n")
}

async fn counted(to: &Db) -> Result<Vec<(&'static str, i64)>> {
    let mut tx = to.snapshot().await?;
    let mut counted = Vec::new();
    for table in TABLES.iter() {
        counted.push((table.name, count(&mut tx, table).await?));
    }
    tx.rollback().await?;
    Ok(counted)
}

struct Copy<'a> {
    from: &'a Db,
    to: &'a Db,
    id: Uuid,
    owner: i64,
    with_own_key: bool,
    report: &'a mut (dyn FnMut(Step) + Send),
}

impl Copy<'_> {
    /// The columns of a table that are copied.
    fn columns(&self, table: &Table) -> Vec<Column> {
        let stays = |it: &&Column| !self.with_own_key && (table.name, it.name) == OWN_KEY;
        let columns = table.columns.iter().filter(|it| !stays(it));
        columns.copied().collect()
    }

    /// Copies what the file has at one moment and the copy has not, and compares all rows if that is asked for.
    /// Returns how long it took.
    async fn round(&mut self, is_compared: bool) -> Done<Duration> {
        let begun = Instant::now();
        let mut source = self.from.snapshot().await?;
        let until = changes::last(&mut source).await?;
        let progress = Progress::read(self.to).await?;
        // Tables that were not begun get all their rows from this snapshot.
        self.changes(&mut source, &progress, until, false).await?;
        for table in TABLES.iter() {
            match progress.of(table) {
                Some(Until::Whole) => {}
                Some(Until::Row(row)) => self.rows(&mut source, table, row).await?,
                None => self.rows(&mut source, table, 0).await?,
            }
        }
        let mut target = self.to.begin().await?;
        progress::hold(&mut target, self.owner).await?;
        progress::note_changes(&mut target, until).await?;
        target.commit().await?;
        if is_compared {
            for table in TABLES.iter() {
                (self.report)(Step::Compared { table: table.name });
                self.compare(&mut source, table).await?;
            }
        }
        source.rollback().await?;
        Ok(begun.elapsed())
    }

    /// Repeats rounds until one is short. Returns how long the last one took.
    async fn rounds(&mut self) -> Done<Duration> {
        for _ in 0..MOST_ROUNDS {
            let took = self.round(false).await?;
            if took < SHORT {
                return Ok(took);
            }
        }
        self.round(false).await
    }

    /// Copies the rows of a table after this one.
    async fn rows(&mut self, source: &mut Tx, table: &'static Table, after: i64) -> Done<()> {
        let of = count(source, table).await?;
        let columns = self.columns(table);
        let rest = table.upsert(&columns);
        let (mut last, mut copied) = (after, 0);
        loop {
            let mut target = self.to.begin().await?;
            progress::hold(&mut target, self.owner).await?;
            let mut is_whole = false;
            for _ in 0..COMMITTED {
                let rows = source.query(&table.rows).bind(last).bind(i64::from(CHUNK));
                let rows = rows.fetch_all().await?;
                let Some(row) = rows.last() else {
                    is_whole = true;
                    break;
                };
                last = row.get("copied_row")?;
                let values: Vec<Vec<Value>> = rows
                    .iter()
                    .map(|row| values(&columns, row))
                    .collect::<Result<_>>()?;
                insert(&mut target, table, &columns, &values, &rest).await?;
                copied += i64::try_from(values.len()).unwrap_or(i64::MAX);
            }
            let until = if is_whole {
                Until::Whole
            } else {
                Until::Row(last)
            };
            progress::note(&mut target, table, until).await?;
            target.commit().await?;
            (self.report)(Step::Rows {
                table: table.name,
                copied,
                of,
            });
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Copies the rows that were changed since the last round, until this change. With `is_compared` it reads each
    /// of them again.
    async fn changes(
        &mut self,
        source: &mut Tx,
        progress: &Progress,
        until: i64,
        is_compared: bool,
    ) -> Done<()> {
        let after = progress.changes;
        let changed = changes::tables(source, after, until).await?;
        let is_begun = |table: &&'static Table| progress.of(table).is_some();
        let changed: Vec<&'static Table> = changed.into_iter().filter(is_begun).collect();
        // A row goes before those that may take its place, and after those that refer to it.
        for table in changed.iter().filter(|table| !table.is_referred_to) {
            for (after, until) in parts(after, until) {
                let gone = changes::gone(source, table, after, until).await?;
                self.delete(table, &gone).await?;
            }
        }
        let mut copied = 0;
        for table in &changed {
            let columns = self.columns(table);
            let rest = table.upsert(&columns);
            for (after, until) in parts(after, until) {
                let rows = changes::rows(source, table, after, until).await?;
                let rows: Vec<Vec<Value>> = rows
                    .iter()
                    .map(|row| values(&columns, row))
                    .collect::<Result<_>>()?;
                let mut target = self.to.begin().await?;
                progress::hold(&mut target, self.owner).await?;
                for rows in rows.chunks(CHUNK as usize) {
                    insert(&mut target, table, &columns, rows, &rest).await?;
                }
                target.commit().await?;
                if is_compared {
                    for row in &rows {
                        self.is_same(table, &columns, row).await?;
                    }
                }
                copied += rows.len();
                (self.report)(Step::Changes { copied });
            }
        }
        for table in changed.iter().rev().filter(|table| table.is_referred_to) {
            for (after, until) in parts(after, until) {
                let gone = changes::gone(source, table, after, until).await?;
                self.delete(table, &gone).await?;
            }
        }
        Ok(())
    }

    async fn delete(&mut self, table: &'static Table, keys: &[Vec<Value>]) -> Done<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut target = self.to.begin().await?;
        progress::hold(&mut target, self.owner).await?;
        for key in keys {
            let query = target.query(&table.delete);
            let query = key.iter().fold(query, |query, value| value.bound(query));
            query.execute().await?;
        }
        target.commit().await?;
        Ok(())
    }

    /// Checks that the copy has this row.
    async fn is_same(&self, table: &'static Table, columns: &[Column], row: &[Value]) -> Done<()> {
        let of_key = |key: &Column| columns.iter().position(|it| it.name == key.name);
        let key = table.key.iter().filter_map(|it| row.get(of_key(it)?));
        let query = key.fold(self.to.query(&table.one), |query, value| value.bound(query));
        let found = query.fetch_optional().await?;
        let found = found.map(|row| values(columns, &row)).transpose()?;
        if found.is_some_and(|found| found == row) {
            return Ok(());
        }
        Err(CopyError::Differs(table.name))
    }

    /// Compares all rows of a table.
    async fn compare(&self, source: &mut Tx, table: &'static Table) -> Done<()> {
        let columns = self.columns(table);
        let (mut there, mut here) = (Sum::default(), Sum::default());
        let mut last = 0;
        loop {
            let rows = source.query(&table.rows).bind(last).bind(i64::from(CHUNK));
            let rows = rows.fetch_all().await?;
            let Some(row) = rows.last() else { break };
            last = row.get("copied_row")?;
            for row in &rows {
                there.add(&values(&columns, row)?);
            }
        }
        let mut key: Option<Vec<Value>> = None;
        loop {
            let query = match &key {
                None => self.to.query(&table.first),
                Some(key) => {
                    let query = self.to.query(&table.next);
                    key.iter().fold(query, |query, value| value.bound(query))
                }
            };
            let rows = query.bind(i64::from(CHUNK)).fetch_all().await?;
            let Some(row) = rows.last() else { break };
            key = Some(values(&table.key, row)?);
            for row in &rows {
                here.add(&values(&columns, row)?);
            }
        }
        if there == here {
            Ok(())
        } else {
            Err(CopyError::Differs(table.name))
        }
    }

    /// Copies the last changes while nobody can write, and closes the file.
    async fn end(&mut self, place: &str) -> Done<Copied> {
        let mut source = self.from.begin().await?;
        let begun = Instant::now();
        let until = changes::last(&mut source).await?;
        let progress = Progress::read(self.to).await?;
        self.changes(&mut source, &progress, until, true).await?;
        let mut target = self.to.begin().await?;
        progress::hold(&mut target, self.owner).await?;
        progress::note_changes(&mut target, until).await?;
        let mut tables = Vec::new();
        for table in TABLES.iter() {
            let there = count(&mut source, table).await?;
            if there != count(&mut target, table).await? {
                return Err(CopyError::Differs(table.name));
            }
            tables.push((table.name, there));
        }
        target.commit().await?;
        changes::refuse(&mut source, self.id, place).await?;
        source.commit().await?;
        let still = begun.elapsed();
        progress::close(self.to).await?;
        Ok(Copied { tables, still })
    }
}

/// The changes after one until another one, so many at a time.
fn parts(after: i64, until: i64) -> impl Iterator<Item = (i64, i64)> {
    let mut first = after;
    std::iter::from_fn(move || {
        let part = (first, until.min(first + CHANGES));
        first = part.1;
        (part.0 < part.1).then_some(part)
    })
}

async fn insert(
    target: &mut Tx,
    table: &Table,
    columns: &[Column],
    rows: &[Vec<Value>],
    rest: &str,
) -> Result<()> {
    let columns: Vec<sql::Column<'_>> = columns
        .iter()
        .enumerate()
        .map(|(nth, it)| cells(*it, rows, nth))
        .collect();
    target.insert(table.name, &columns, rest).await?;
    Ok(())
}

/// The rows of a table, whatever their sequence.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    /// The sum of the first 128 bits of each row's SHA-256.
    digests: u128,
}

impl Sum {
    fn add(&mut self, row: &[Value]) {
        let mut digest = Sha256::new();
        for value in row {
            value.digest_into(&mut digest);
        }
        let digest = digest.finalize();
        let first = digest.as_slice().first_chunk().copied();
        let first = first.map_or(0, u128::from_be_bytes);
        self.rows += 1;
        self.digests = self.digests.wrapping_add(first);
    }
}
