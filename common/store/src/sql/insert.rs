//! Inserts many rows with one statement.

use std::fmt::Write as _;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};
use uuid::Uuid;

use super::{Result, Row};

/// The most placeholders that one SQLite statement gets. SQLite's compiled-in limit is 32,766.
const SQLITE_PLACEHOLDERS: usize = 30_000;

/// Inserts with `unnest` of one array for each column, so that the statement's text and plan are
/// the same for any number of rows.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub(super) async fn insert_postgres(
    connection: &mut PoolConnection<Postgres>,
    persistent: bool,
    head: &str,
    columns: &[Column<'_>],
    rest: &str,
) -> Result<Vec<Row>> {
    let mut sql = format!("{head} select * from unnest(");
    for (index, column) in columns.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(
            sql,
            "{comma}${}::{}[]",
            index + 1,
            column.values.postgres_type()
        );
    }
    let _ = write!(sql, ") {rest}");
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql)).persistent(persistent);
    for column in columns {
        query = match &column.values {
            Values::Text(values) => query.bind(values.as_slice()),
            Values::Int(values) => query.bind(values.as_slice()),
            Values::Bytes(values) => query.bind(values.as_slice()),
            Values::Uuid(values) => query.bind(values.as_slice()),
        };
    }
    let rows = query.fetch_all(&mut **connection).await?;
    Ok(rows.into_iter().map(Row::Postgres).collect())
}

/// Inserts with multi-row `values`, in chunks whose sizes are powers of two, so that only a few
/// statement texts are parsed and kept.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub(super) async fn insert_sqlite(
    connection: &mut PoolConnection<Sqlite>,
    head: &str,
    columns: &[Column<'_>],
    rest: &str,
    rows: usize,
) -> Result<Vec<Row>> {
    let largest = (SQLITE_PLACEHOLDERS / columns.len().max(1)).clamp(1, 64);
    let mut returned = Vec::new();
    let mut start = 0;
    while start < rows {
        let chunk = previous_power_of_two((rows - start).min(largest));
        let tuple = format!("({})", vec!["?"; columns.len()].join(", "));
        let sql = format!("{head} values {} {rest}", vec![tuple; chunk].join(", "));
        let mut query = sqlx::query::<Sqlite>(AssertSqlSafe(sql));
        for row in start..start + chunk {
            for column in columns {
                query = match &column.values {
                    Values::Text(values) => query.bind(values[row]),
                    Values::Int(values) => query.bind(values[row]),
                    Values::Bytes(values) => query.bind(values[row]),
                    Values::Uuid(values) => query.bind(values[row]),
                };
            }
        }
        returned.extend(query.fetch_all(&mut **connection).await?);
        start += chunk;
    }
    Ok(returned.into_iter().map(Row::Sqlite).collect())
}

fn previous_power_of_two(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

/// One column of a multi-row insert.
#[derive(Debug)]
pub struct Column<'a> {
    pub(super) name: &'static str,
    pub(super) values: Values<'a>,
}

/// A column called `name` with one value per row.
pub fn column<'a, T: Cell<'a>>(
    name: &'static str,
    values: impl IntoIterator<Item = T>,
) -> Column<'a> {
    Column {
        name,
        values: T::collect(values.into_iter()),
    }
}

#[derive(Debug)]
pub enum Values<'a> {
    Text(Vec<Option<&'a str>>),
    Int(Vec<Option<i64>>),
    Bytes(Vec<Option<&'a [u8]>>),
    Uuid(Vec<Option<Uuid>>),
}

impl Values<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Bytes(values) => values.len(),
            Values::Uuid(values) => values.len(),
        }
    }

    fn postgres_type(&self) -> &'static str {
        match self {
            Values::Text(_) => "text",
            Values::Int(_) => "bigint",
            Values::Bytes(_) => "bytea",
            Values::Uuid(_) => "uuid",
        }
    }
}

/// A type of value that a column of a multi-row insert can have.
pub trait Cell<'a>: Sized {
    fn collect(values: impl Iterator<Item = Self>) -> Values<'a>;
}

macro_rules! cell {
    ($type:ty, $variant:ident) => {
        impl<'a> Cell<'a> for $type {
            fn collect(values: impl Iterator<Item = Self>) -> Values<'a> {
                Values::$variant(values.map(Some).collect())
            }
        }

        impl<'a> Cell<'a> for Option<$type> {
            fn collect(values: impl Iterator<Item = Self>) -> Values<'a> {
                Values::$variant(values.collect())
            }
        }
    };
}

cell!(&'a str, Text);
cell!(i64, Int);
cell!(&'a [u8], Bytes);
cell!(Uuid, Uuid);
