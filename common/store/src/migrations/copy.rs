//! Copies everything of one database into another one, which is empty: so a shop that began on SQLite
//! goes on with PostgreSQL.
//!
//! The tables and their columns are read from the migrations, so no table can be forgotten. The
//! whole copy is one transaction of the target, and one of the source, in which nobody else can
//! write. So it is all there or nothing, and every table has as many rows in both.

use std::sync::LazyLock;

use uuid::Uuid;

use super::ALL;
use crate::sql::{Column, Db, Result, Row, Tx, column};

/// How many rows are read at a time. A body may have some megabytes.
const CHUNK: i64 = 64;

/// A table that is not copied: its rows are about processes that run.
const OF_PROCESSES: &str = "leases";

/// The key that a SQLite file made for itself. PostgreSQL never stores a key.
const OWN_KEY: (&str, &str) = ("privacy_keys", "secret");

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(
        "it is not empty: there are rows in {0}; give it a database in which nothing was done yet"
    )]
    NotEmpty(&'static str),
    #[error("{table} has {from} rows in the source and {to} in the copy, so nothing was copied")]
    Differs {
        table: &'static str,
        from: i64,
        to: i64,
    },
    #[error(transparent)]
    Database(#[from] crate::sql::Error),
}

/// How many rows of a table were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub table: &'static str,
    pub rows: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Bytes,
    Uuid,
}

struct Table {
    name: &'static str,
    columns: Vec<(&'static str, Kind)>,
    select: String,
    count: String,
}

/// The tables in the sequence in which they were made, so that a row comes after those to which it
/// refers.
static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let made = ALL.iter().flat_map(|(_, _, sql)| read(sql));
    made.filter(|table| table.name != OF_PROCESSES).collect()
});

fn read(sql: &'static str) -> Vec<Table> {
    let made = sql.split("\ncreate table ").skip(1);
    let made = made.filter_map(|text| text.split_once("\n);").map(|(table, _)| table));
    made.filter_map(|text| text.split_once(" ("))
        .map(table)
        .collect()
}

fn table((name, columns): (&'static str, &'static str)) -> Table {
    let columns: Vec<_> = columns.lines().filter_map(kind).collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    Table {
        name,
        columns,
        select: format!(
            "select rowid as copied_row, {names} from {name} where rowid > $1 order by rowid limit $2"
        ),
        count: format!("select count(*) as n from {name}"),
    }
}

/// A column, from its line in a migration. None for a comment or a constraint.
fn kind(line: &'static str) -> Option<(&'static str, Kind)> {
    let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
    let (name, kind) = (words.next()?, words.next()?);
    let kind = match kind {
        "text" => Kind::Text,
        "bigint" => Kind::Int,
        "bytea" => Kind::Bytes,
        "uuid" => Kind::Uuid,
        _ => return None,
    };
    (name != "--").then_some((name, kind))
}

/// Copies a SQLite database into `to`, which has the same schema and no rows. Without `with_own_key`
/// the key stays behind that the source made for itself.
pub async fn copy(
    from: &Db,
    to: &Db,
    with_own_key: bool,
) -> std::result::Result<Vec<Copied>, CopyError> {
    let mut source = from.begin().await?;
    let mut target = to.begin().await?;
    for table in TABLES.iter() {
        if count(&mut target, table).await? > 0 {
            return Err(CopyError::NotEmpty(table.name));
        }
    }
    let mut copied = Vec::new();
    for table in TABLES.iter() {
        rows(&mut source, &mut target, table, with_own_key).await?;
        let (from, to) = (
            count(&mut source, table).await?,
            count(&mut target, table).await?,
        );
        let table = table.name;
        if from != to {
            return Err(CopyError::Differs { table, from, to });
        }
        copied.push(Copied { table, rows: to });
    }
    target.commit().await?;
    source.rollback().await?;
    Ok(copied)
}

async fn count(tx: &mut Tx, table: &'static Table) -> Result<i64> {
    tx.query(&table.count).fetch_one().await?.get("n")
}

async fn rows(
    source: &mut Tx,
    target: &mut Tx,
    table: &'static Table,
    with_own_key: bool,
) -> Result<()> {
    let stays = |name: &str| !with_own_key && (table.name, name) == OWN_KEY;
    let columns = table.columns.iter().filter(|(name, _)| !stays(name));
    let columns: Vec<_> = columns.copied().collect();
    let mut last = 0;
    loop {
        let query = source.query(&table.select).bind(last).bind(CHUNK);
        let rows = query.fetch_all().await?;
        let Some(row) = rows.last() else {
            return Ok(());
        };
        last = row.get("copied_row")?;
        let values: Vec<Held> = columns
            .iter()
            .map(|(name, kind)| Held::of(*kind, name, &rows))
            .collect::<Result<_>>()?;
        let values: Vec<Column<'_>> = columns
            .iter()
            .zip(&values)
            .map(|((name, _), values)| values.column(name))
            .collect();
        target.insert(table.name, &values, "").await?;
    }
}

/// The values of a column, as long as they are copied.
enum Held {
    Text(Vec<Option<String>>),
    Int(Vec<Option<i64>>),
    Bytes(Vec<Option<Vec<u8>>>),
    Uuid(Vec<Option<Uuid>>),
}

impl Held {
    fn of(kind: Kind, name: &str, rows: &[Row]) -> Result<Self> {
        Ok(match kind {
            Kind::Text => Held::Text(
                rows.iter()
                    .map(|row| row.get(name))
                    .collect::<Result<_>>()?,
            ),
            Kind::Int => Held::Int(
                rows.iter()
                    .map(|row| row.get(name))
                    .collect::<Result<_>>()?,
            ),
            Kind::Bytes => Held::Bytes(
                rows.iter()
                    .map(|row| row.get(name))
                    .collect::<Result<_>>()?,
            ),
            Kind::Uuid => Held::Uuid(
                rows.iter()
                    .map(|row| row.get(name))
                    .collect::<Result<_>>()?,
            ),
        })
    }

    fn column<'a>(&'a self, name: &'static str) -> Column<'a> {
        match self {
            Held::Text(values) => column(name, values.iter().map(Option::as_deref)),
            Held::Int(values) => column(name, values.iter().copied()),
            Held::Bytes(values) => column(name, values.iter().map(Option::as_deref)),
            Held::Uuid(values) => column(name, values.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What the database itself says that it has.
    async fn schema(db: &Db) -> BTreeMap<String, Vec<String>> {
        let query = db.query(
            "select tables.name as table_name, columns.name as column_name
             from sqlite_schema as tables, pragma_table_info(tables.name) as columns
             where tables.type = 'table' and tables.name not like '!_%' escape '!'
               and tables.name not like 'sqlite!_%' escape '!'
             order by tables.name, columns.cid",
        );
        let mut schema: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in query.fetch_all().await.unwrap() {
            let columns = schema.entry(row.get("table_name").unwrap()).or_default();
            columns.push(row.get("column_name").unwrap());
        }
        schema
    }

    #[tokio::test]
    async fn every_table_and_column_of_the_schema_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/waybill.db", folder.path().display());
        let db = Db::open(&url, 1).await.unwrap();
        super::super::apply(&db).await.unwrap();
        let mut there = schema(&db).await;
        assert!(there.remove(OF_PROCESSES).is_some());
        let names = |table: &Table| {
            let names = table.columns.iter().map(|(name, _)| (*name).to_owned());
            (table.name.to_owned(), names.collect())
        };
        let read: BTreeMap<String, Vec<String>> = TABLES.iter().map(names).collect();
        assert_eq!(read, there);
        db.close().await;
    }
}
