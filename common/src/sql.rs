//! PostgreSQL and SQLite behind one SQL text: with `store::migrations`, the only file that
//! knows there are two.
//!
//! A statement is written once, with `$n` placeholders and nothing that only one of
//! the two understands. What differs is handled here: `in ($n..)` lists, `for update
//! skip locked`, multi-row inserts, and who may write (SQLite has one writer).
//!
//! Invariant: a connection goes back to its pool only after a confirmed `commit` or
//! `rollback`. A [`Tx`] that is dropped in any other state, be it a cancelled future
//! in the middle of `begin`, closes its connection, so the pool can never hand out
//! one that is inside a transaction nobody tracks.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Postgres, Sqlite};
use uuid::Uuid;

use crate::task;

pub use sqlx::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// How long a statement may wait for a connection, and a connection for its server.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most placeholders in one SQLite statement (its compiled-in limit is 32,766).
const SQLITE_PLACEHOLDERS: usize = 30_000;

/// A server that has not answered a statement by then never will: its own limit is a minute.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(65);
/// Idle connections are closed before the networks in between forget them silently.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(100);
/// 128 MiB: a log that has grown so long is folded in by the writer itself.
const WAL_BACKSTOP_PAGES: &str = "32768";

/// A database: a pool of connections. Clones share the pool.
#[derive(Clone, Debug)]
pub enum Db {
    Postgres(PgPool),
    /// One connection writes, in turn; the others read a snapshot beside it.
    Sqlite {
        write: SqlitePool,
        read: SqlitePool,
    },
}

impl Db {
    /// Opens `postgres://..` or `sqlite://path`; makes the SQLite file and its folder
    /// when they do not exist. `connections` is the most to a PostgreSQL server.
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return open_postgres(url, connections);
        }
        open_sqlite(url).await
    }

    /// How many transactions may write at a time, of the `wanted` ones.
    pub fn writers(&self, wanted: usize) -> usize {
        match self {
            Db::Postgres(_) => wanted,
            Db::Sqlite { .. } => 1,
        }
    }

    /// A statement on its own. It must not write: SQLite's writer is taken with [`Db::begin`].
    pub fn query(&self, sql: &'static str) -> Query<'_, '_> {
        Query::new(Target::Db(self), sql)
    }

    /// Opens a transaction; on SQLite it is the only one that writes.
    pub async fn begin(&self) -> Result<Tx> {
        let mut tx = Tx {
            connection: match self {
                Db::Postgres(pool) => Connection::Postgres(Some(pool.acquire().await?)),
                Db::Sqlite { write, .. } => Connection::Sqlite(Some(write.acquire().await?)),
            },
            failed: false,
        };
        let begin = match self {
            Db::Postgres(_) => "begin",
            Db::Sqlite { .. } => "begin immediate",
        };
        tx.command(begin).await?;
        Ok(tx)
    }

    /// Asks the server for a trivial answer.
    pub async fn ping(&self) -> Result<()> {
        self.query("select 1").fetch_optional().await.map(|_| ())
    }

    /// Waits until every connection is closed; SQLite's log is then folded into its file.
    pub async fn close(&self) {
        match self {
            Db::Postgres(pool) => pool.close().await,
            Db::Sqlite { write, read } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

/// Whether a URL names a database, without asking it; what is wrong otherwise.
pub fn check_url(url: &str) -> std::result::Result<(), &'static str> {
    let fits = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        PgConnectOptions::from_str(url).is_ok()
    } else if url.starts_with("sqlite://") {
        SqliteConnectOptions::from_str(url).is_ok()
    } else {
        return Err("must start with postgres:// or sqlite://");
    };
    if fits {
        Ok(())
    } else {
        Err("is not a URL that can be read")
    }
}

fn open_postgres(url: &str, connections: u32) -> Result<Db> {
    // A statement that outlives these has lost its client, or waits for one that has.
    let options = PgConnectOptions::from_str(url)?.options([
        ("statement_timeout", "60s"),
        ("lock_timeout", "30s"),
        ("idle_in_transaction_session_timeout", "120s"),
        // A killed client's locks are not kept while its last statement waits for others.
        ("client_connection_check_interval", "2s"),
    ]);
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        .test_before_acquire(false)
        .connect_lazy_with(options);
    Ok(Db::Postgres(pool))
}

async fn open_sqlite(url: &str) -> Result<Db> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .pragma("wal_autocheckpoint", WAL_BACKSTOP_PAGES)
        .pragma("cache_size", "-8192");
    if let Some(folder) = options.get_filename().parent()
        && folder != Path::new("")
    {
        std::fs::create_dir_all(folder).map_err(Error::Io)?;
    }
    // Connections live as long as the process: opening one costs more than keeping it.
    let write = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options.clone())
        .await?;
    let read = SqlitePoolOptions::new()
        .max_connections(4)
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(options.clone().pragma("query_only", "on"));
    task::spawn("checkpoints", checkpoint(options, write.clone()));
    Ok(Db::Sqlite { write, read })
}

/// Folds the log into the database file beside the writer, which would otherwise stand still
/// for it in the middle of a commit. Ends with the writer's pool.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn checkpoint(options: SqliteConnectOptions, write: SqlitePool) {
    let Ok(mut connection) = options.connect().await else {
        return;
    };
    while !write.is_closed() {
        // Not done because a reader is in the way, or failed: the backstop remains.
        let folded = sqlx::raw_sql("pragma wal_checkpoint(passive)").execute(&mut connection);
        let _ = folded.await;
        tokio::time::sleep(CHECKPOINT_PAUSE).await;
    }
}

/// True when the connection is lost or could not be had: the statement may be tried
/// again on another one, if it was not a `commit`.
pub fn is_connection_error(error: &Error) -> bool {
    match error {
        Error::Io(_)
        | Error::Tls(_)
        | Error::Protocol(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed => true,
        // Class 08: connection exception; 57P0x: the server is shutting down or starting.
        Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("08") || code.starts_with("57P")),
        _ => false,
    }
}

/// True when the statement may succeed later as it is: the connection was lost, the server
/// is out of room or of memory, or another transaction was in the way.
pub fn is_outage(error: &Error) -> bool {
    let Error::Database(database) = error else {
        return is_connection_error(error);
    };
    let code = database.code().unwrap_or_default();
    // PostgreSQL: insufficient resources, read-only (a failover), serialization, deadlock,
    // lock timeout. SQLite: BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN in the low byte.
    let sqlite = code.parse::<u32>().ok().filter(|_| code.len() < 5);
    is_connection_error(error)
        || code.starts_with("53")
        || ["25006", "40001", "40P01", "55P03"].contains(&code.as_ref())
        || sqlite.is_some_and(|code| [5, 6, 8, 10, 13, 14].contains(&(code & 0xff)))
}

/// A transaction. Dropping it without [`Tx::commit`] or [`Tx::rollback`] closes the
/// connection, which rolls it back.
#[derive(Debug)]
pub struct Tx {
    connection: Connection,
    /// PostgreSQL answers `commit` in a failed transaction with success and rolls back:
    /// so a failure is remembered here and the commit refused.
    failed: bool,
}

#[derive(Debug)]
enum Connection {
    Postgres(Option<PoolConnection<Postgres>>),
    Sqlite(Option<PoolConnection<Sqlite>>),
}

impl Tx {
    pub fn query(&mut self, sql: &'static str) -> Query<'_, '_> {
        Query::new(Target::Tx(self), sql)
    }

    /// Makes all that was written durable. An error leaves the outcome unknown only when
    /// [`is_connection_error`] says so.
    pub async fn commit(mut self) -> Result<()> {
        if self.failed {
            return Err(Error::Protocol(
                "a statement of this transaction failed; it cannot be committed".into(),
            ));
        }
        self.command("commit").await?;
        self.give_back();
        Ok(())
    }

    pub async fn rollback(mut self) -> Result<()> {
        self.command("rollback").await?;
        self.give_back();
        Ok(())
    }

    /// Marks a point to which [`Tx::undo_to_savepoint`] returns.
    pub async fn savepoint(&mut self) -> Result<()> {
        self.command("savepoint job").await
    }

    pub async fn release_savepoint(&mut self) -> Result<()> {
        self.command("release savepoint job").await
    }

    /// Undoes all since [`Tx::savepoint`], a failed statement included.
    pub async fn undo_to_savepoint(&mut self) -> Result<()> {
        self.failed = false;
        self.command("rollback to savepoint job").await?;
        self.command("release savepoint job").await
    }

    /// Inserts one row per element of the columns, in as few statements as possible, and
    /// returns the rows of a `returning` clause. `rest` is what follows the values:
    /// `on conflict ..`, `returning ..`. Columns must be of one length.
    pub async fn insert(
        &mut self,
        table: &str,
        columns: &[Column<'_>],
        rest: &str,
    ) -> Result<Vec<Row>> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        debug_assert!(columns.iter().all(|column| column.values.len() == rows));
        if rows == 0 {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let head = format!("insert into {table} ({})", names.join(", "));
        let result = match &mut self.connection {
            Connection::Postgres(connection) => {
                in_time(insert_postgres(open(connection)?, &head, columns, rest)).await
            }
            Connection::Sqlite(connection) => {
                insert_sqlite(open(connection)?, &head, columns, rest, rows).await
            }
        };
        self.failed |= result.is_err();
        result
    }

    #[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
    async fn command(&mut self, sql: &'static str) -> Result<()> {
        let result = match &mut self.connection {
            Connection::Postgres(connection) => {
                let connection = &mut **open(connection)?;
                in_time(sqlx::raw_sql(sql).execute(connection))
                    .await
                    .map(|_| ())
            }
            Connection::Sqlite(connection) => {
                let connection = &mut **open(connection)?;
                sqlx::raw_sql(sql).execute(connection).await.map(|_| ())
            }
        };
        self.failed |= result.is_err();
        result
    }

    /// Lets the connection go back to its pool: it is known to be outside a transaction.
    fn give_back(&mut self) {
        match &mut self.connection {
            Connection::Postgres(connection) => drop(connection.take()),
            Connection::Sqlite(connection) => drop(connection.take()),
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        match &mut self.connection {
            Connection::Postgres(connection) => {
                drop(connection.take().map(PoolConnection::detach));
            }
            Connection::Sqlite(connection) => {
                drop(connection.take().map(PoolConnection::detach));
            }
        }
    }
}

/// A connection in the middle of a statement; dropped so, it does not go back to its pool.
struct Undetermined(Option<PoolConnection<Postgres>>);

impl Drop for Undetermined {
    fn drop(&mut self) {
        drop(self.0.take().map(PoolConnection::detach));
    }
}

async fn in_time<T>(statement: impl Future<Output = Result<T>>) -> Result<T> {
    let answered = tokio::time::timeout(STATEMENT_DEADLINE, statement).await;
    answered.unwrap_or_else(|_| Err(Error::Io(io::ErrorKind::TimedOut.into())))
}

fn open<Database: sqlx::Database>(
    connection: &mut Option<PoolConnection<Database>>,
) -> Result<&mut PoolConnection<Database>> {
    connection.as_mut().ok_or(Error::PoolClosed)
}

/// `unnest` of one array a column: one statement text and one plan whatever the number
/// of rows.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn insert_postgres(
    connection: &mut PoolConnection<Postgres>,
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
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql));
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

/// Multi-row `values`, in chunks whose sizes are powers of two, so that a few statement
/// texts are parsed once and kept.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn insert_sqlite(
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
    name: &'static str,
    values: Values<'a>,
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
    fn len(&self) -> usize {
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

/// What can stand in a column of a multi-row insert.
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

/// A value bound to a placeholder.
#[derive(Debug)]
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

impl From<Vec<Uuid>> for Value<'_> {
    fn from(values: Vec<Uuid>) -> Self {
        Value::Uuids(values)
    }
}

impl From<Vec<i64>> for Value<'_> {
    fn from(values: Vec<i64>) -> Self {
        Value::Ints(values)
    }
}

impl From<Vec<String>> for Value<'_> {
    fn from(values: Vec<String>) -> Self {
        Value::Texts(values)
    }
}

enum Target<'t> {
    Db(&'t Db),
    Tx(&'t mut Tx),
}

/// A statement with its bound values, ready to run.
///
/// One list may be bound, as the last value, to a placeholder written `in ($n..)`.
/// `for update skip locked` may end the text; SQLite, with its one writer, needs none.
#[must_use = "a query does nothing until it is fetched or executed"]
pub struct Query<'t, 'v> {
    target: Target<'t>,
    sql: &'static str,
    values: Vec<Value<'v>>,
}

impl<'t, 'v> Query<'t, 'v> {
    fn new(target: Target<'t>, sql: &'static str) -> Self {
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

    /// Runs it; the number of rows it changed.
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

    /// The first row, if any.
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
            Target::Db(Db::Postgres(pool)) => {
                // Dropped half way, it is closed: the pool would wait for it without end.
                let mut connection = Undetermined(Some(pool.acquire().await?));
                let answer =
                    in_time(postgres(open(&mut connection.0)?, sql, values, execute)).await;
                if !answer.as_ref().is_err_and(is_connection_error) {
                    drop(connection.0.take());
                }
                answer
            }
            Target::Db(Db::Sqlite { read, .. }) => {
                sqlite(&mut *read.acquire().await?, sql, values, execute).await
            }
            Target::Tx(tx) => {
                let result = match &mut tx.connection {
                    Connection::Postgres(connection) => {
                        in_time(postgres(open(connection)?, sql, values, execute)).await
                    }
                    Connection::Sqlite(connection) => {
                        sqlite(open(connection)?, sql, values, execute).await
                    }
                };
                tx.failed |= result.is_err();
                result
            }
        }
    }
}

enum Answer {
    Changed(u64),
    Rows(Vec<Row>),
}

#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn postgres(
    connection: &mut sqlx::PgConnection,
    sql: &'static str,
    values: Vec<Value<'_>>,
    execute: bool,
) -> Result<Answer> {
    let sql = match values.last() {
        Some(Value::Uuids(_) | Value::Texts(_) | Value::Ints(_)) => {
            let n = values.len();
            Cow::Owned(sql.replace(&format!("in (${n}..)"), &format!("= any(${n})")))
        }
        _ => Cow::Borrowed(sql),
    };
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(sql));
    for value in values {
        query = match value {
            Value::Text(value) => query.bind(value),
            Value::Int(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value.map(Cow::into_owned)),
            Value::Uuid(value) => query.bind(value),
            Value::Uuids(values) => query.bind(values),
            Value::Texts(values) => query.bind(values),
            Value::Ints(values) => query.bind(values),
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
    let listed = match values.last() {
        Some(Value::Uuids(list)) => Some(list.len()),
        Some(Value::Texts(list)) => Some(list.len()),
        Some(Value::Ints(list)) => Some(list.len()),
        _ => None,
    };
    if let Some(listed) = listed {
        let n = values.len();
        let places: Vec<String> = (n..n + listed).map(|place| format!("${place}")).collect();
        let expanded = format!("in ({})", places.join(", "));
        sql = Cow::Owned(sql.replace(&format!("in (${n}..)"), &expanded));
    }
    if sql.contains(SKIP_LOCKED) {
        sql = Cow::Owned(sql.replace(SKIP_LOCKED, ""));
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
        };
    }
    if execute {
        let done = query.execute(connection).await?;
        return Ok(Answer::Changed(done.rows_affected()));
    }
    let rows = query.fetch_all(connection).await?;
    Ok(Answer::Rows(rows.into_iter().map(Row::Sqlite).collect()))
}

const SKIP_LOCKED: &str = "for update skip locked";

/// A row of either database.
pub enum Row {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

impl Row {
    /// The value of a column by its name.
    pub fn get<T: Field>(&self, name: &str) -> Result<T> {
        use sqlx::Row as _;
        match self {
            Row::Postgres(row) => row.try_get_unchecked(name),
            Row::Sqlite(row) => row.try_get_unchecked(name),
        }
    }
}

/// What can be read from a column: text, `i64`, bytes, UUIDs, and `Option`s of them.
pub trait Field:
    for<'r> sqlx::Decode<'r, Postgres>
    + sqlx::Type<Postgres>
    + for<'r> sqlx::Decode<'r, Sqlite>
    + sqlx::Type<Sqlite>
{
}

impl<T> Field for T where
    T: for<'r> sqlx::Decode<'r, Postgres>
        + sqlx::Type<Postgres>
        + for<'r> sqlx::Decode<'r, Sqlite>
        + sqlx::Type<Sqlite>
{
}
