//! Inserts many rows with one statement.

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};

use super::{Result, Row, Value};

/// The most placeholders that one SQLite statement gets. SQLite's compiled-in limit is 32,766.
const SQLITE_PLACEHOLDERS: usize = 30_000;

/// The placeholders for the columns of rows like this one, for `unnest`: an array for each column, so that the
/// statement's text and plan are the same for any number of rows. `first` is the number of the first placeholder.
pub(super) fn arrays(row: &[Cell<'_>], first: usize) -> String {
    let array = |(n, (_, value)): (usize, &Cell<'_>)| format!("${n}::{}[]", value.postgres_type());
    let arrays: Vec<String> = (first..).zip(row).map(array).collect();
    arrays.join(", ")
}

/// The names of the columns of rows like this one.
pub(super) fn names(row: &[Cell<'_>]) -> String {
    let names: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Runs a statement with [`arrays`] of the rows of each of these tables.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub(super) async fn insert_postgres<'a>(
    connection: &mut PoolConnection<Postgres>,
    persistent: bool,
    sql: String,
    tables: &[&[impl AsRef<[Cell<'a>]>]],
) -> Result<Vec<Row>> {
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql)).persistent(persistent);
    for rows in tables {
        for (column, (_, value)) in rows[0].as_ref().iter().enumerate() {
            query = match value {
                Value::Int(_) => query.bind(values(rows, column, Value::int)),
                Value::Bytes(_) => query.bind(values(rows, column, Value::bytes)),
                Value::Uuid(_) => query.bind(values(rows, column, Value::uuid)),
                _ => query.bind(values(rows, column, Value::text)),
            };
        }
    }
    let rows = query.fetch_all(&mut **connection).await?;
    Ok(rows.into_iter().map(Row::Postgres).collect())
}

/// Inserts with multi-row `values`, in chunks whose sizes are powers of two, so that only a few
/// statement texts are parsed and kept.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub(super) async fn insert_sqlite<'a>(
    connection: &mut PoolConnection<Sqlite>,
    head: &str,
    rows: &[impl AsRef<[Cell<'a>]>],
    rest: &str,
) -> Result<Vec<Row>> {
    let columns = rows[0].as_ref().len();
    let largest = (SQLITE_PLACEHOLDERS / columns.max(1)).clamp(1, 64);
    let mut returned = Vec::new();
    let mut left = rows;
    while !left.is_empty() {
        let (chunk, others) = left.split_at(previous_power_of_two(left.len().min(largest)));
        let tuple = format!("({})", vec!["?"; columns].join(", "));
        let tuples = vec![tuple; chunk.len()].join(", ");
        let mut query =
            sqlx::query::<Sqlite>(AssertSqlSafe(format!("{head} values {tuples} {rest}")));
        for (_, value) in chunk.iter().flat_map(AsRef::as_ref) {
            query = match value {
                Value::Int(value) => query.bind(*value),
                Value::Bytes(value) => query.bind(value.as_deref()),
                Value::Uuid(value) => query.bind(*value),
                value => query.bind(value.text()),
            };
        }
        returned.extend(query.fetch_all(&mut **connection).await?);
        left = others;
    }
    Ok(returned.into_iter().map(Row::Sqlite).collect())
}

fn previous_power_of_two(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

/// A value of a row that is inserted, with the name of its column.
pub type Cell<'a> = (&'static str, Value<'a>);

pub fn column<'a>(name: &'static str, value: impl Into<Value<'a>>) -> Cell<'a> {
    (name, value.into())
}

/// What overwrites a row that has the same key, except for when it was made.
pub(super) fn overwriting(key: &str, row: &[Cell<'_>]) -> String {
    let is_key = |name: &str| key.split(", ").any(|it| it == name);
    let set: Vec<String> = row
        .iter()
        .filter(|(name, _)| *name != "created_at" && !is_key(name))
        .map(|(name, _)| format!("{name} = excluded.{name}"))
        .collect();
    format!("on conflict ({key}) do update set {}", set.join(", "))
}

/// The values of one column.
fn values<'r, 'a: 'r, T>(
    rows: &'r [impl AsRef<[Cell<'a>]>],
    column: usize,
    value: impl Fn(&'r Value<'a>) -> Option<T>,
) -> Vec<Option<T>> {
    rows.iter()
        .map(|row| value(&row.as_ref()[column].1))
        .collect()
}
