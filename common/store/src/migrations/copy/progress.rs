//! How far a copy has come, in a table of the database that is copied to. While it is there the database is
//! not whole, and nobody serves it.

use uuid::Uuid;

use super::CopyError;
use super::tables::{TABLES, Table};
use crate::sql::{Db, Result, Tx};

const SET: &str = "insert into copy_progress (name, value) values ($1, $2)
    on conflict (name) do update set value = excluded.value";

const OWNER: &str = "owner";

/// The numbers that a copy is known by: a UUID has twice as many digits as fit.
const ID: [&str; 2] = ["copy, high", "copy, low"];

fn halves(copy: Uuid) -> [i64; 2] {
    let (high, low) = copy.as_u64_pair();
    [high.cast_signed(), low.cast_signed()]
}

/// Of two who begin at once the second one finds what the first one has begun. The number has no meaning.
const BEGIN: i64 = 0x5761_7962_696c_6c02;

/// The question whether the table is there.
fn ask(db: &Db) -> &'static str {
    if db.name() == "sqlite" {
        "select 1 as n from sqlite_schema where type = 'table' and name = $1"
    } else {
        "select 1 as n where to_regclass($1) is not null"
    }
}

const TABLE: &str = "copy_progress";

async fn exists(db: &Db) -> Result<bool> {
    let row = db.query(ask(db)).bind(TABLE).fetch_optional().await?;
    Ok(row.is_some())
}

/// Whether a copy into this database was begun, and has not ended.
pub async fn is_unfinished(to: &Db) -> Result<bool> {
    exists(to).await
}

/// Whether this copy is the one that is under way in the database.
pub async fn is_of(to: &Db, copy: Uuid) -> Result<bool> {
    if !exists(to).await? {
        return Ok(false);
    }
    for (name, half) in ID.into_iter().zip(halves(copy)) {
        let ask = to.query("select value from copy_progress where name = $1");
        let row = ask.bind(name).fetch_optional().await?;
        if row.map(|row| row.get("value")).transpose()? != Some(half) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Begins a copy in a database that has no rows, or goes on with one. What was changed in the file until this
/// change is in each snapshot from now on.
pub async fn open(to: &Db, copy: Uuid, change: i64) -> std::result::Result<(), CopyError> {
    let mut tx = to.begin().await?;
    tx.lock(BEGIN).await?;
    let found = tx.query(ask(to)).bind(TABLE).fetch_optional().await?;
    if found.is_some() {
        tx.rollback().await?;
        return if is_of(to, copy).await? {
            Ok(())
        } else {
            Err(CopyError::Another)
        };
    }
    for table in TABLES.iter() {
        if super::count(&mut tx, table).await? > 0 {
            return Err(CopyError::NotEmpty(table.name));
        }
    }
    let table = "create table copy_progress (name text primary key, value bigint not null)";
    tx.query(table).execute().await?;
    for (name, half) in ID.into_iter().zip(halves(copy)) {
        tx.query(SET).bind(name).bind(half).execute().await?;
    }
    note_changes(&mut tx, change).await?;
    tx.commit().await?;
    Ok(())
}

/// Takes the copy over from whoever runs it: one that still does fails at its next step. Returns the number by
/// which [`hold`] knows us.
pub async fn claim(to: &Db) -> Result<i64> {
    // The half that is random.
    let (_, random) = Uuid::now_v7().as_u64_pair();
    let owner = random.cast_signed();
    let mut tx = to.begin().await?;
    tx.query(SET).bind(OWNER).bind(owner).execute().await?;
    tx.commit().await?;
    Ok(owner)
}

/// Makes sure until the end of this transaction that nobody has taken the copy over.
pub async fn hold(tx: &mut Tx, owner: i64) -> std::result::Result<(), CopyError> {
    let ask = tx.query("select value from copy_progress where name = $1 for update");
    let row = ask.bind(OWNER).fetch_optional().await?;
    match row.map(|row| row.get("value")).transpose()? {
        Some(found) if found == owner => Ok(()),
        Some::<i64>(_) | None => Err(CopyError::TakenOver),
    }
}

/// How far a table has come: until a rowid, or whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Row(i64),
    Whole,
}

pub struct Progress {
    /// All changes until this one are in those tables that are begun.
    pub changes: i64,
    tables: Vec<(String, i64)>,
}

const WHOLE: i64 = -1;

impl Progress {
    pub async fn read(to: &Db) -> Result<Self> {
        let rows = to
            .query("select name, value from copy_progress")
            .fetch_all();
        let mut tables = Vec::new();
        for row in rows.await? {
            tables.push((row.get("name")?, row.get("value")?));
        }
        let mut of_changes = tables
            .iter()
            .filter(|(name, _): &&(String, i64)| name == "changes");
        let changes = of_changes.next().map_or(0, |(_, value)| *value);
        Ok(Progress { changes, tables })
    }

    /// None of a table that was not begun.
    pub fn of(&self, table: &Table) -> Option<Until> {
        let (_, value) = self.tables.iter().find(|(name, _)| name == table.name)?;
        Some(match *value {
            WHOLE => Until::Whole,
            row => Until::Row(row),
        })
    }
}

/// Notes with the rows of a table how far it has come.
pub async fn note(tx: &mut Tx, table: &Table, until: Until) -> Result<()> {
    let value = match until {
        Until::Row(row) => row,
        Until::Whole => WHOLE,
    };
    tx.query(SET).bind(table.name).bind(value).execute().await?;
    Ok(())
}

/// Notes that the copy has all changes until this one.
pub async fn note_changes(tx: &mut Tx, until: i64) -> Result<()> {
    tx.query(SET).bind("changes").bind(until).execute().await?;
    Ok(())
}

/// Says that the copy is whole.
pub async fn close(to: &Db) -> Result<()> {
    let mut tx = to.begin().await?;
    tx.query("drop table copy_progress").execute().await?;
    tx.commit().await
}
