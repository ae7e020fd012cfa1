//! Transactions, and how their connections are kept from going back to the pool in the middle of
//! one.

use std::io;
use std::time::Duration;

use platform::crash_point::{self, Moment};
use platform::task::elsewhere;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use sqlx::{Postgres, Sqlite};

use super::insert::{arrays, insert_postgres, insert_sqlite, names, overwriting};
use super::outdated::Outdated;
use super::query::Target;
use super::{
    BEGIN_AND_SET, Cell, Db, Error, Query, Result, Row, acquire, acquire_sqlite, give_back, is_dead,
};
use config::database::Pooling;

/// A server that has not answered a statement by then never will, because its own limit is a
/// minute.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(65);

/// A transaction. Dropping it without [`Tx::commit`] or [`Tx::rollback`] closes the connection,
/// which rolls the transaction back.
#[derive(Debug)]
pub struct Tx {
    pub(super) connection: Connection,
    /// Whether the server may keep prepared statements.
    pub(super) persistent: bool,
    /// PostgreSQL answers `commit` in a failed transaction with success and rolls it back. So a
    /// failure is remembered here, and the commit is refused.
    pub(super) failed: bool,
    outdated: Option<Outdated>,
    pub(super) crash_points: crash_point::Transaction,
}

#[derive(Debug)]
pub(super) enum Connection {
    Postgres(Option<PoolConnection<Postgres>>),
    Sqlite(Option<PoolConnection<Sqlite>>),
}

impl Tx {
    pub(super) async fn begin(db: &Db) -> Result<Self> {
        match db {
            Db::Postgres {
                pool,
                pooling,
                outdated,
            } => loop {
                let is_new = pool.num_idle() == 0;
                let begun = Tx::begin_postgres(pool, *pooling, outdated).await;
                if is_new || !begun.as_ref().is_err_and(is_dead) {
                    return begun;
                }
            },
            Db::Sqlite { write, turn, .. } => {
                let connection = Connection::Sqlite(Some(acquire_sqlite(write).await?));
                let mut tx = Tx::on(connection);
                let held = turn.take().await;
                let begun = tx.command("begin immediate").await;
                drop(held);
                begun.map_err(locked_out)?;
                Ok(tx)
            }
        }
    }

    pub(super) async fn snapshot(db: &Db) -> Result<Self> {
        match db {
            Db::Postgres {
                pool,
                pooling,
                outdated,
            } => {
                let mut tx = Tx::begin_postgres(pool, *pooling, outdated).await?;
                tx.command("set transaction isolation level repeatable read, read only")
                    .await?;
                Ok(tx)
            }
            Db::Sqlite { read, .. } => {
                let mut tx = Tx::on(Connection::Sqlite(Some(acquire_sqlite(read).await?)));
                tx.command("begin").await?;
                Ok(tx)
            }
        }
    }

    async fn begin_postgres(pool: &PgPool, pooling: Pooling, outdated: &Outdated) -> Result<Self> {
        let connection = Connection::Postgres(Some(acquire(pool).await?));
        let mut tx = Tx::on(connection);
        tx.persistent = pooling == Pooling::Session;
        tx.outdated = Some(outdated.clone());
        tx.command(match pooling {
            Pooling::Session => "begin",
            Pooling::Transaction => BEGIN_AND_SET,
        })
        .await?;
        Ok(tx)
    }

    fn on(connection: Connection) -> Self {
        Tx {
            connection,
            persistent: true,
            failed: false,
            outdated: None,
            crash_points: crash_point::Transaction::default(),
        }
    }

    pub fn query(&mut self, sql: &'static str) -> Query<'_, '_> {
        Query::new(Target::Tx(self), sql)
    }

    /// Makes everything that was written durable. After an error it is unknown whether it was
    /// committed only if [`is_connection_error`](super::is_connection_error) says so.
    pub async fn commit(mut self) -> Result<()> {
        if self.failed {
            return Err(Error::Protocol(
                "a statement of this transaction failed; it cannot be committed".into(),
            ));
        }
        self.crash_points.reach(Moment::Commit).await?;
        self.command("commit").await?;
        self.crash_points.reach(Moment::Committed).await?;
        self.give_back().await;
        Ok(())
    }

    pub async fn rollback(mut self) -> Result<()> {
        self.command("rollback").await?;
        self.give_back().await;
        Ok(())
    }

    /// Takes advisory locks, one after the other in this sequence, shared with others, until the end
    /// of this transaction. On SQLite there is only one writer.
    pub async fn lock_shared(&mut self, keys: Vec<i64>) -> Result<()> {
        if let Connection::Postgres(_) = self.connection {
            let lock = "select pg_advisory_xact_lock_shared(key) from unnest($1) as key";
            self.query(lock).bind(keys).fetch_all().await?;
        }
        Ok(())
    }

    /// Takes an advisory lock exclusively until the end of this transaction. Waits until all
    /// transactions that share it have ended.
    pub async fn lock(&mut self, key: i64) -> Result<()> {
        self.advisory_lock("select pg_advisory_xact_lock($1)", key)
            .await
    }

    /// On SQLite there is only one writer, so nobody else can hold the lock.
    async fn advisory_lock(&mut self, statement: &'static str, key: i64) -> Result<()> {
        match self.connection {
            Connection::Postgres(_) => self
                .query(statement)
                .bind(key)
                .fetch_all()
                .await
                .map(|_| ()),
            Connection::Sqlite(_) => Ok(()),
        }
    }

    /// Marks a point to which [`Tx::undo_to_savepoint`] returns.
    pub async fn savepoint(&mut self) -> Result<()> {
        self.command("savepoint job").await
    }

    pub async fn release_savepoint(&mut self) -> Result<()> {
        self.command("release savepoint job").await
    }

    /// Undoes everything since [`Tx::savepoint`], including a failed statement.
    pub async fn undo_to_savepoint(&mut self) -> Result<()> {
        self.failed = false;
        self.command("rollback to savepoint job").await?;
        self.command("release savepoint job").await
    }

    /// Inserts rows, in as few statements as possible, and returns the rows of a `returning` clause. `rest`
    /// is the text that follows the values: `on conflict ..`, `returning ..`. All rows must have the same
    /// columns.
    pub async fn insert<'v>(
        &mut self,
        table: &str,
        rows: Vec<impl AsRef<[Cell<'v>]>>,
        rest: &str,
    ) -> Result<Vec<Row>> {
        let Some(first) = rows.first() else {
            return Ok(Vec::new());
        };
        let head = format!("insert into {table} ({})", names(first.as_ref()));
        let result = match &mut self.connection {
            Connection::Postgres(connection) => {
                let arrays = arrays(first.as_ref(), 1);
                let sql = format!("{head} select * from unnest({arrays}) {rest}");
                let connection = open(connection)?;
                in_time(insert_postgres(connection, self.persistent, sql, &[&rows])).await
            }
            Connection::Sqlite(connection) => {
                elsewhere(insert_sqlite(open(connection)?, &head, &rows, rest)).await
            }
        };
        self.ran(&head, result).await
    }

    /// To be called with the result of each statement.
    pub(super) async fn ran<T>(&mut self, sql: &str, result: Result<T>) -> Result<T> {
        let result = match result {
            Ok(answer) => self.crash_points.ran(sql).await.map(|()| answer),
            Err(error) => return self.note(Err(error)),
        };
        self.note(result.map_err(Error::Io))
    }

    /// Inserts rows, and overwrites those that have the same key, except for their `created_at`. `rest` is
    /// the text that follows: further columns to set, `where ..`.
    pub async fn overwrite<'v>(
        &mut self,
        table: &str,
        key: &str,
        rows: Vec<impl AsRef<[Cell<'v>]>>,
        rest: &str,
    ) -> Result<()> {
        let overwriting = rows.first().map(|row| overwriting(key, row.as_ref()));
        let rest = format!("{}{rest}", overwriting.unwrap_or_default());
        self.insert(table, rows, &rest).await.map(|_| ())
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
                elsewhere(sqlx::raw_sql(sql).execute(connection))
                    .await
                    .map(|_| ())
            }
        };
        self.note(result)
    }

    /// Remembers whether a statement has failed, and what that says of the server.
    pub(super) fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed = true;
            if let Some(outdated) = &self.outdated {
                outdated.mark_if_read_only(error);
            }
        }
        result
    }

    /// Lets the connection go back to its pool, because it is known to be outside a transaction.
    async fn give_back(&mut self) {
        match &mut self.connection {
            Connection::Postgres(connection) => drop(connection.take()),
            Connection::Sqlite(connection) => give_back(connection.take()).await,
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

/// Replaces SQLite's "database is locked", which tells nobody what to do.
fn locked_out(error: Error) -> Error {
    const BUSY: u32 = 5;
    let is_busy = matches!(&error, Error::Database(database)
        if database.code().and_then(|code| code.parse().ok()).is_some_and(|code: u32| code & 0xff == BUSY));
    if !is_busy {
        return error;
    }
    Error::Io(io::Error::new(
        io::ErrorKind::TimedOut,
        "another process has kept SQLite's write lock all the while, and nothing was changed; look \
         for one that is stopped, or for a sqlite3 shell in the middle of a transaction \
         (`fuser -v` on the database's file names them), then try again",
    ))
}

/// A connection in the middle of a statement. If it is dropped in this state, it does not go back
/// to its pool.
pub(super) struct Undetermined(pub(super) Option<PoolConnection<Postgres>>);

impl Drop for Undetermined {
    fn drop(&mut self) {
        drop(self.0.take().map(PoolConnection::detach));
    }
}

pub(super) async fn in_time<T>(statement: impl Future<Output = Result<T>>) -> Result<T> {
    let answered = tokio::time::timeout(STATEMENT_DEADLINE, statement).await;
    answered.unwrap_or_else(|_| Err(Error::Io(io::ErrorKind::TimedOut.into())))
}

pub(super) fn open<Database: sqlx::Database>(
    connection: &mut Option<PoolConnection<Database>>,
) -> Result<&mut PoolConnection<Database>> {
    connection.as_mut().ok_or(Error::PoolClosed)
}
