//! How far a copy has come, in a table of the database that is copied to. While it is there the database is
//! not whole, and nobody serves it.

use std::sync::LazyLock;

use uuid::Uuid;

use super::CopyError;
use super::tables::{TABLES, Table};
use crate::sql::{Db, Result, Tx};

const SET: &str = "insert into copy_progress (name, value) values ($1, $2)
    on conflict (name) do update set value = excluded.value";

/// The numbers that a copy is known by: a UUID has twice as many digits as fit.
static ID: LazyLock<[String; 2]> = LazyLock::new(|| ["copy, high".into(), "copy, low".into()]);

fn halves(copy: Uuid) -> [i64; 2] {
    let (high, low) = copy.as_u64_pair();
    [high.cast_signed(), low.cast_signed()]
}

async fn exists(db: &Db) -> Result<bool> {
    let ask = if db.name() == "sqlite" {
        "select 1 as n from sqlite_schema where type = 'table' and name = $1"
    } else {
        "select 1 as n where to_regclass($1) is not null"
    };
    let row = db.query(ask).bind("copy_progress").fetch_optional().await?;
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
    for (name, half) in ID.iter().zip(halves(copy)) {
        let ask = to.query("select value from copy_progress where name = $1");
        let row = ask.bind(name.as_str()).fetch_optional().await?;
        if row.map(|row| row.get("value")).transpose()? != Some(half) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Begins a copy in a database that has no rows, or goes on with one. What was changed in the file until this
/// change is in each snapshot from now on.
pub async fn open(to: &Db, copy: Uuid, change: i64) -> std::result::Result<(), CopyError> {
    if exists(to).await? {
        return if is_of(to, copy).await? {
            Ok(())
        } else {
            Err(CopyError::Another)
        };
    }
    let mut tx = to.begin().await?;
    for table in TABLES.iter() {
        if super::count(&mut tx, table).await? > 0 {
            return Err(CopyError::NotEmpty(table.name));
        }
    }
    let table = "create table copy_progress (name text primary key, value bigint not null)";
    tx.query(table).execute().await?;
    for (name, half) in ID.iter().zip(halves(copy)) {
        tx.query(SET)
            .bind(name.as_str())
            .bind(half)
            .execute()
            .await?;
    }
    note_changes(&mut tx, change).await?;
    tx.commit().await?;
    Ok(())
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
