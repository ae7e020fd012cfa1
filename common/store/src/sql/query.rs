//! Statements, the values bound to them, and the rows that they return.

use std::borrow::Cow;

use platform::crash_point;
use platform::task::elsewhere;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};
use uuid::Uuid;

use super::tx::{Connection, Undetermined, in_time, open};
use super::{
    Db, Error, Result, Tx, acquire, acquire_sqlite, give_back, is_connection_error, is_dead,
};
use config::database::Pooling;
use domain::time::Timestamp;

/// A value bound to a placeholder.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Text(Option<Cow<'a, str>>),
    Int(Option<i64>),
    Bytes(Option<Cow<'a, [u8]>>),
    Uuid(Option<Uuid>),
    /// For `in ($n..)`.
    Uuids(Vec<Uuid>),
    /// For `in ($n..)`.
    Texts(Vec<String>),
    /// For `in ($n..)`.
    Ints(Vec<i64>),
    /// For `in ($n..)`.
    Blobs(Vec<Vec<u8>>),
    /// For `(text, integer) in ($n..)`.
    TextInts(Vec<(String, i64)>),
    /// For `(text, uuid) in ($n..)`.
    TextUuids(Vec<(String, Uuid)>),
}

impl Value<'_> {
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => text.as_deref(),
            _ => None,
        }
    }

    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => *number,
            _ => None,
        }
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => bytes.as_deref(),
            _ => None,
        }
    }

    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            Value::Uuid(id) => *id,
            _ => None,
        }
    }

    /// The type of a value that is not a list.
    pub(super) fn postgres_type(&self) -> &'static str {
        match self {
            Value::Int(_) => "bigint",
            Value::Bytes(_) => "bytea",
            Value::Uuid(_) => "uuid",
            _ => "text",
        }
    }

    /// For a list: how many values it has, and of pairs what SQLite is to select. It uses an index
    /// for both columns only when it knows that their types fit, and only for one plain select.
    fn list(&self) -> Option<(usize, Option<&'static str>)> {
        match self {
            Value::Uuids(list) => Some((list.len(), None)),
            Value::Texts(list) => Some((list.len(), None)),
            Value::Ints(list) => Some((list.len(), None)),
            Value::Blobs(list) => Some((list.len(), None)),
            Value::TextInts(list) => {
                let pair = "cast(column1 as text), cast(column2 as integer)";
                Some((list.len(), Some(pair)))
            }
            Value::TextUuids(list) => Some((list.len(), Some("cast(column1 as text), column2"))),
            _ => None,
        }
    }
}

macro_rules! value {
    ($type:ty, $variant:ident, $convert:expr) => {
        impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Value::$variant(Some($convert(value)))
            }
        }

        impl<'a> From<Option<$type>> for Value<'a> {
            fn from(value: Option<$type>) -> Self {
                Value::$variant(value.map($convert))
            }
        }
    };
}

value!(&'a str, Text, Cow::Borrowed);
value!(String, Text, Cow::Owned);
value!(i64, Int, std::convert::identity);
value!(&'a [u8], Bytes, Cow::Borrowed);
value!(Vec<u8>, Bytes, Cow::Owned);
value!(Uuid, Uuid, std::convert::identity);
value!(Timestamp, Int, |at: Timestamp| at.0);
value!(bool, Int, i64::from);
value!(&'a String, Text, |it: &'a String| Cow::Borrowed(&**it));
value!(&'a Vec<u8>, Bytes, |it: &'a Vec<u8>| Cow::Borrowed(&**it));

impl<'a> From<&'a Option<String>> for Value<'a> {
    fn from(text: &'a Option<String>) -> Self {
        text.as_deref().into()
    }
}

/// Lists, for `in ($n..)`.
macro_rules! list {
    ($type:ty, $variant:ident) => {
        impl From<Vec<$type>> for Value<'_> {
            fn from(values: Vec<$type>) -> Self {
                Value::$variant(values)
            }
        }
    };
}

list!(Uuid, Uuids);
list!(i64, Ints);
list!(Vec<u8>, Blobs);
list!(String, Texts);
list!((String, i64), TextInts);
list!((String, Uuid), TextUuids);

pub(super) enum Target<'t> {
    Db(&'t Db),
    Tx(&'t mut Tx),
    /// A transaction of its own.
    Alone(&'t Db, crash_point::Transaction),
}

/// A statement with its bound values, ready to run.
///
/// One list may be bound, as the last value, to a placeholder that is written `in ($n..)`; a list of
/// pairs to one after two columns, `(shop, id) in ($n..)`. The text may end with `for update`, with or without `skip locked`; SQLite has only one writer and
/// needs neither. `contains(body, $2..$9)` is true when the column `body` contains the bytes of
/// any of the eight values.
#[must_use = "a query does nothing until it is fetched or executed"]
pub struct Query<'t, 'v> {
    target: Target<'t>,
    sql: &'static str,
    values: Vec<Value<'v>>,
}

impl<'t, 'v> Query<'t, 'v> {
    pub(super) fn new(target: Target<'t>, sql: &'static str) -> Self {
        Query {
            target,
            sql,
            values: Vec::new(),
        }
    }

    pub fn bind(mut self, value: impl Into<Value<'v>>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Runs the statement, whatever it changes.
    pub async fn done(self) -> Result<()> {
        self.execute().await.map(|_| ())
    }

    /// Runs the statement. True when it changed one row.
    pub async fn changed_one(self) -> Result<bool> {
        Ok(self.execute().await? == 1)
    }

    /// Whether there is a row.
    pub async fn is_any(self) -> Result<bool> {
        Ok(self.fetch_optional().await?.is_some())
    }

    /// What `read` makes of the first row, if there is one.
    pub async fn first<T>(self, read: impl FnOnce(&Row) -> Result<T>) -> Result<Option<T>> {
        self.fetch_optional().await?.as_ref().map(read).transpose()
    }

    /// What `read` makes of each row.
    pub async fn all<T, C: FromIterator<T>>(
        self,
        read: impl FnMut(&Row) -> Result<T>,
    ) -> Result<C> {
        self.fetch_all().await?.iter().map(read).collect()
    }

    /// Runs the statement, and returns how many rows it changed.
    pub async fn execute(self) -> Result<u64> {
        match self.run(true).await? {
            Answer::Changed(rows) => Ok(rows),
            Answer::Rows(rows) => Ok(rows.len() as u64),
        }
    }

    pub async fn fetch_all(self) -> Result<Vec<Row>> {
        match self.run(false).await? {
            Answer::Rows(rows) => Ok(rows),
            Answer::Changed(_) => Ok(Vec::new()),
        }
    }

    /// The first row, if there is one.
    pub async fn fetch_optional(self) -> Result<Option<Row>> {
        Ok(self.fetch_all().await?.into_iter().next())
    }

    pub async fn fetch_one(self) -> Result<Row> {
        self.fetch_optional().await?.ok_or(Error::RowNotFound)
    }

    async fn run(self, execute: bool) -> Result<Answer> {
        let Query {
            target,
            sql,
            values,
        } = self;
        match target {
            Target::Db(
                db @ Db::Postgres {
                    pooling: Pooling::Transaction,
                    ..
                },
            ) => {
                let mut tx = Tx::begin(db).await?;
                match run_in(&mut tx, sql, values, execute).await {
                    Ok(answer) => tx.commit().await.map(|()| answer),
                    Err(error) => {
                        // If the connection is lost, it is closed.
                        if !is_connection_error(&error) {
                            let _ = tx.rollback().await;
                        }
                        Err(error)
                    }
                }
            }
            Target::Db(Db::Postgres { pool, .. }) => loop {
                let is_new = pool.num_idle() == 0;
                // If the future is dropped half way, the connection is closed. The pool would
                // otherwise wait for it forever.
                let mut connection = Undetermined(Some(acquire(pool).await?));
                let open = open(&mut connection.0)?;
                let answer = in_time(postgres(open, true, sql, &values, execute)).await;
                if !answer.as_ref().is_err_and(is_connection_error) {
                    drop(connection.0.take());
                }
                // It writes nothing, so it may be asked again.
                if is_new || !answer.as_ref().is_err_and(is_dead) {
                    return answer;
                }
            },
            Target::Db(Db::Sqlite { read, .. }) => {
                let mut connection = acquire_sqlite(read).await?;
                let answer = elsewhere(sqlite(&mut connection, sql, values, execute)).await;
                give_back(Some(connection)).await;
                answer
            }
            Target::Tx(tx) => run_in(tx, sql, values, execute).await,
            Target::Alone(db, crash_points) => {
                crash_points.begins().await?;
                let mut tx = Tx::begin(db).await?;
                tx.crash_points = crash_points;
                let answer = run_in(&mut tx, sql, values, execute).await?;
                tx.commit().await?;
                Ok(answer)
            }
        }
    }
}

async fn run_in(
    tx: &mut Tx,
    sql: &'static str,
    values: Vec<Value<'_>>,
    execute: bool,
) -> Result<Answer> {
    let persistent = tx.persistent;
    let result = match &mut tx.connection {
        Connection::Postgres(connection) => {
            let connection = open(connection)?;
            in_time(postgres(connection, persistent, sql, &values, execute)).await
        }
        Connection::Sqlite(connection) => {
            elsewhere(sqlite(open(connection)?, sql, values, execute)).await
        }
    };
    tx.ran(sql, result).await
}

enum Answer {
    Changed(u64),
    Rows(Vec<Row>),
}

/// The condition for a list of pairs of texts and values of this type, as two arrays.
fn pairs(n: usize, second: &str) -> String {
    format!(
        "in (select * from unnest(${n}::text[], ${}::{second}[]))",
        n + 1
    )
}

#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn postgres(
    connection: &mut sqlx::PgConnection,
    persistent: bool,
    sql: &'static str,
    values: &[Value<'_>],
    execute: bool,
) -> Result<Answer> {
    let n = values.len();
    let listed = match values.last() {
        Some(Value::TextInts(_)) => Some(pairs(n, "bigint")),
        Some(Value::TextUuids(_)) => Some(pairs(n, "uuid")),
        Some(Value::Uuids(_) | Value::Texts(_) | Value::Ints(_) | Value::Blobs(_)) => {
            Some(format!("= any(${n})"))
        }
        _ => None,
    };
    let sql = match listed {
        Some(listed) => Cow::Owned(sql.replace(&format!("in (${n}..)"), &listed)),
        None => Cow::Borrowed(sql),
    };
    let sql = if sql.contains(CONTAINS) {
        let any = (2..=9).map(|n| format!("position(${n} in body) > 0"));
        Cow::Owned(sql.replace(CONTAINS, &any.collect::<Vec<_>>().join(" or ")))
    } else {
        sql
    };
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql)).persistent(persistent);
    for value in values {
        query = match value {
            Value::Text(value) => query.bind(value.as_deref()),
            Value::Int(value) => query.bind(*value),
            Value::Bytes(value) => query.bind(value.as_deref()),
            Value::Uuid(value) => query.bind(*value),
            Value::Uuids(values) => query.bind(values.as_slice()),
            Value::Texts(values) => query.bind(values.as_slice()),
            Value::Ints(values) => query.bind(values.as_slice()),
            Value::Blobs(values) => query.bind(values.as_slice()),
            Value::TextInts(values) => {
                let (texts, ints): (Vec<&str>, Vec<i64>) =
                    values.iter().map(|(text, int)| (&**text, *int)).unzip();
                query.bind(texts).bind(ints)
            }
            Value::TextUuids(values) => {
                let (texts, uuids): (Vec<&str>, Vec<Uuid>) =
                    values.iter().map(|(text, uuid)| (&**text, *uuid)).unzip();
                query.bind(texts).bind(uuids)
            }
        };
    }
    if execute {
        let done = query.execute(connection).await?;
        return Ok(Answer::Changed(done.rows_affected()));
    }
    let rows = query.fetch_all(connection).await?;
    Ok(Answer::Rows(rows.into_iter().map(Row::Postgres).collect()))
}

#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn sqlite(
    connection: &mut sqlx::SqliteConnection,
    sql: &'static str,
    values: Vec<Value<'_>>,
    execute: bool,
) -> Result<Answer> {
    let mut sql = Cow::Borrowed(sql.trim_end());
    if let Some((listed, pair)) = values.last().and_then(Value::list) {
        let n = values.len();
        let expanded = match pair {
            None => {
                let places: Vec<String> =
                    (n..n + listed).map(|place| format!("${place}")).collect();
                format!("in ({})", places.join(", "))
            }
            Some(_) if listed == 0 => "in (select null, null where false)".to_owned(),
            Some(pair) => {
                let places = (0..listed).map(|nth| n + 2 * nth);
                let rows: Vec<String> = places
                    .map(|place| format!("(${place}, ${})", place + 1))
                    .collect();
                format!("in (select {pair} from (values {}))", rows.join(", "))
            }
        };
        sql = Cow::Owned(sql.replace(&format!("in (${n}..)"), &expanded));
    }
    if sql.contains(CONTAINS) {
        let any = (2..=9).map(|n| format!("instr(body, ${n}) > 0"));
        sql = Cow::Owned(sql.replace(CONTAINS, &any.collect::<Vec<_>>().join(" or ")));
    }
    for lock in [SKIP_LOCKED, FOR_UPDATE] {
        if sql.contains(lock) {
            sql = Cow::Owned(sql.replace(lock, ""));
        }
    }
    let mut query = sqlx::query::<Sqlite>(AssertSqlSafe(sql));
    for value in values {
        query = match value {
            Value::Text(value) => query.bind(value.map(Cow::into_owned)),
            Value::Int(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value.map(Cow::into_owned)),
            Value::Uuid(value) => query.bind(value),
            Value::Uuids(values) => values.into_iter().fold(query, sqlx::query::Query::bind),
            Value::Texts(values) => values.into_iter().fold(query, sqlx::query::Query::bind),
            Value::Ints(values) => values.into_iter().fold(query, sqlx::query::Query::bind),
            Value::Blobs(values) => values.into_iter().fold(query, sqlx::query::Query::bind),
            Value::TextInts(pairs) => pairs
                .into_iter()
                .fold(query, |query, (text, int)| query.bind(text).bind(int)),
            Value::TextUuids(pairs) => pairs
                .into_iter()
                .fold(query, |query, (text, uuid)| query.bind(text).bind(uuid)),
        };
    }
    if execute {
        let done = query.execute(connection).await?;
        return Ok(Answer::Changed(done.rows_affected()));
    }
    let rows = query.fetch_all(connection).await?;
    Ok(Answer::Rows(rows.into_iter().map(Row::Sqlite).collect()))
}

const CONTAINS: &str = "contains(body, $2..$9)";
const SKIP_LOCKED: &str = "for update skip locked";
const FOR_UPDATE: &str = "for update";

/// A row of either database.
pub enum Row {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

impl Row {
    /// The value of a column, by its name.
    pub fn get<T: Field>(&self, name: &str) -> Result<T> {
        T::read(self, name)
    }

    /// Whether a column has no value.
    pub fn is_null(&self, name: &str) -> Result<bool> {
        use sqlx::{Row as _, ValueRef as _};
        Ok(match self {
            Row::Postgres(row) => row.try_get_raw(name)?.is_null(),
            Row::Sqlite(row) => row.try_get_raw(name)?.is_null(),
        })
    }
}

/// What is read from a whole row. `#[derive(FromRow)]` reads each field from the column of its name.
pub trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self>;
}

/// What is read from one column.
pub trait Field: Sized {
    fn read(row: &Row, name: &str) -> Result<Self>;
}

macro_rules! fields {
    ($($type:ty),*) => {
        $(impl Field for $type {
            fn read(row: &Row, name: &str) -> Result<Self> {
                use sqlx::Row as _;
                match row {
                    Row::Postgres(row) => row.try_get_unchecked(name),
                    Row::Sqlite(row) => row.try_get_unchecked(name),
                }
            }
        })*
    };
}

fields!(String, i64, Vec<u8>, Uuid);

impl<T: Field> Field for Option<T> {
    fn read(row: &Row, name: &str) -> Result<Self> {
        (!row.is_null(name)?).then(|| row.get(name)).transpose()
    }
}

impl Field for Timestamp {
    fn read(row: &Row, name: &str) -> Result<Self> {
        row.get(name).map(Timestamp)
    }
}

impl Field for [u8; 32] {
    fn read(row: &Row, name: &str) -> Result<Self> {
        let bytes = row.get::<Vec<u8>>(name)?.try_into();
        bytes.map_err(|_| Error::Decode(format!("{name} has 32 bytes").into()))
    }
}

impl Field for bool {
    fn read(row: &Row, name: &str) -> Result<Self> {
        Ok(row.get::<i64>(name)? != 0)
    }
}

/// Enums that are stored as text.
macro_rules! texts {
    ($($type:ty),* $(,)?) => {
        $(impl Field for $type {
            fn read(row: &Row, name: &str) -> Result<Self> {
                let text: String = row.get(name)?;
                text.parse().map_err(|error| Error::Decode(Box::new(error)))
            }
        })*
    };
}

texts!(
    crate::bulk_operations::State,
    crate::jobs::operate::Action,
    domain::attention::Condition,
    domain::attention::State,
    domain::endpoint::State,
    domain::job::Queue,
    domain::job::Source,
    domain::job::State,
    domain::license::Tier,
    domain::privacy::State,
    domain::reconciliation::Cause,
    domain::shape::Change,
);

/// Values that are stored as JSON.
macro_rules! jsons {
    ($($type:ty),* $(,)?) => {
        $(impl Field for $type {
            fn read(row: &Row, name: &str) -> Result<Self> {
                crate::parsed(&row.get::<String>(name)?)
            }
        })*
    };
}

jsons!(
    serde_json::Value,
    domain::privacy::Held,
    domain::privacy::Decided
);
