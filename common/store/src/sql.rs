//! PostgreSQL and SQLite behind one SQL text. With `store::migrations`, and `config::database` which reads
//! their URLs, this is the only module that knows that there are two databases.
//!
//! A statement is written once, with `$n` placeholders and without anything that only one of the
//! two understands. The differences are handled here: `in ($n..)` lists, `for update skip
//! locked`, multi-row inserts, and who may write (SQLite has one writer).
//!
//! Invariant: a connection goes back to its pool only after a confirmed `commit` or `rollback`, or the answer to a statement
//! that was alone. A
//! [`Tx`] that is dropped in any other state, even by a future that is cancelled in the middle of
//! `begin`, closes its connection. So the pool never hands out a connection that is inside a
//! forgotten transaction. Nor does it hand out a connection to a server that has become read-only.
//!
//! What is deleted or changed in a SQLite file is overwritten with zeros there (`secure_delete`),
//! and the log, which has earlier contents of pages, is emptied every few seconds and after an erasure
//! ([`Db::erased`]). Copies that SQLite leaves behind when it moves rows between pages go when the file
//! is rewritten (`erasure::file`).

mod backup;
mod insert;
mod new_rows;
mod outdated;
mod positions;
mod query;
mod server;
mod turn;
mod tx;

use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, PgConnection, Row as _, Sqlite, SqliteConnection};

use tokio::sync::Notify;
use tokio::time::Instant;

use outdated::Outdated;

use config::database::{Pooling, postgres_options};
use platform::{crash_point, private_files, task};

pub use backup::{check_sqlite, copy_sqlite};
pub use insert::{Cell, column};
pub(crate) use new_rows::Rows;
pub use positions::HeldBack;
pub use query::{Field, FromRow, Query, Row, Value};
pub use row::FromRow;
pub use server::{Access, Oldest, Server};
pub use sqlx::Error;
pub use turn::Turn;
pub use tx::Tx;

pub type Result<T> = std::result::Result<T, Error>;

/// How many connections a process has to its database.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    pub used: u32,
    pub idle: u32,
    pub most: u32,
}

/// How long a statement may wait for a connection, and a new connection for its server.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
/// Idle connections are closed before a network in between drops them silently.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a transaction waits for other processes to end theirs. No transaction of ours takes a
/// second, so a process that holds SQLite's lock for that long is stopped or does not belong to
/// Waybill.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait until nobody else has a file open. A command that ends closes it sooner.
const ALONE_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two checkpoints. Measured for the slowest hundredth of commits: they wait 6
/// ms with a pause of 25 ms, 12 ms with 100 ms, and 40 ms with a second.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(25);
/// While nothing is written the pause grows to this, so that an idle process does next to nothing.
const LONGEST_CHECKPOINT_PAUSE: Duration = Duration::from_millis(400);
/// The log is emptied at least this often, even if nothing was erased.
const EMPTYING_PAUSE: Duration = Duration::from_secs(10);
/// The pause before the next try when readers prevented it.
const EMPTYING_RETRY: Duration = Duration::from_millis(500);
/// Writers wait at most this long for the log to be emptied.
const EMPTYING_TIMEOUT: Duration = Duration::from_millis(100);
/// 128 MiB. When the log has grown to this size, the writer itself folds it into the file.
const WAL_BACKSTOP_PAGES: &str = "32768";

/// A database: a pool of connections. Clones share the pool.
#[derive(Clone, Debug)]
pub enum Db {
    Postgres {
        pool: PgPool,
        pooling: Pooling,
        outdated: Outdated,
    },
    /// One connection writes at a time, and the others read a snapshot beside it.
    Sqlite {
        write: SqlitePool,
        read: SqlitePool,
        /// The turn among the processes that write to this file.
        turn: Turn,
        /// Notified when something was erased.
        erased: Arc<Notify>,
    },
}

impl Db {
    /// Opens `postgres://..` or `sqlite://path`. Makes the SQLite file and its folder if they do
    /// not exist. `connections` is the greatest number of connections to a PostgreSQL server. The
    /// parameter `pgbouncer=true` of its URL means [`Pooling::Transaction`].
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return open_postgres(url, connections);
        }
        open_sqlite(url, LOCK_TIMEOUT).await
    }

    /// Opens a SQLite file that exists and that nobody else has open, and keeps others out until it is
    /// closed: they cannot have its log (WAL), which every other connection needs. Those who want it
    /// alone at once try one after the other, since of two that have opened it neither gets it alone.
    pub async fn open_alone(url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(false)
            .busy_timeout(ALONE_TIMEOUT)
            .journal_mode(SqliteJournalMode::Delete)
            .synchronous(SqliteSynchronous::Full)
            .pragma("locking_mode", "exclusive");
        let turn = Turn::beside(options.get_filename());
        let held = turn.take().await;
        let write = sqlite_pool(1).connect_with(options).await;
        drop(held);
        let write = write?;
        Ok(Db::Sqlite {
            read: write.clone(),
            write,
            turn,
            erased: Arc::default(),
        })
    }

    /// The same server with connections of its own, so that whoever uses these never waits for others. A statement ends after
    /// `longest`, but for a pooler as in [`Db::for_readers`]; the time of its commit does not count.
    /// `None` for SQLite, which has one writer in any case, and readers that nobody waits for.
    pub fn apart(&self, connections: u32, longest: Duration) -> Option<Self> {
        let Db::Postgres {
            pool,
            pooling,
            outdated,
        } = self
        else {
            return None;
        };
        let options = (*pool.connect_options()).clone();
        Some(Db::Postgres {
            pool: postgres_pool(
                options,
                *pooling,
                connections,
                outdated,
                Limit::Statement(longest),
            ),
            pooling: *pooling,
            outdated: outdated.clone(),
        })
    }

    /// The same database with connections of its own that can only read, for what people look at: so
    /// nobody else ever waits for a connection because somebody looks. On PostgreSQL a statement ends
    /// after `longest`, unless a pooler gives each transaction another connection: there it has as long
    /// as any other. SQLite knows no such limit.
    #[must_use]
    pub fn for_readers(&self, connections: u32, longest: Duration) -> Self {
        match self {
            Db::Postgres {
                pool,
                pooling,
                outdated,
            } => {
                let options = (*pool.connect_options()).clone();
                Db::Postgres {
                    pool: postgres_pool(
                        options,
                        *pooling,
                        connections,
                        outdated,
                        Limit::Reading(longest),
                    ),
                    pooling: *pooling,
                    outdated: outdated.clone(),
                }
            }
            Db::Sqlite {
                write,
                read,
                turn,
                erased,
            } => Db::Sqlite {
                write: write.clone(),
                read: sqlite_readers(&read.connect_options(), connections),
                turn: turn.clone(),
                erased: erased.clone(),
            },
        }
    }

    /// Closes the connections of [`Db::for_readers`], and no others.
    pub async fn close_readers(&self) {
        match self {
            Db::Postgres { pool, .. } => pool.close().await,
            Db::Sqlite { read, .. } => read.close().await,
        }
    }

    /// The name of the database system, for a label.
    pub fn name(&self) -> &'static str {
        match self {
            Db::Postgres { .. } => "postgresql",
            Db::Sqlite { .. } => "sqlite",
        }
    }

    /// How many transactions may write at a time, at most `wanted`.
    pub fn writers(&self, wanted: usize) -> usize {
        match self {
            Db::Postgres { .. } => wanted,
            Db::Sqlite { .. } => 1,
        }
    }

    /// A statement outside a transaction. It must not write, because SQLite's writer is taken
    /// with [`Db::begin`] or [`Db::transact`].
    pub fn query(&self, sql: &'static str) -> Query<'_, '_> {
        Query::new(query::Target::Db(self), sql)
    }

    /// A statement in a transaction of its own, which is committed when the statement has run.
    /// Its crash points have the name of the caller's line.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn transact(&self, sql: &'static str) -> Query<'_, '_> {
        let crash_points = crash_point::Transaction::begun_here();
        Query::new(query::Target::Alone(self, crash_points), sql)
    }

    /// Begins a transaction. On SQLite it is the only one that can write.
    /// Its crash points have the name of the caller's line.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn begin(&self) -> impl Future<Output = Result<Tx>> + Send {
        let crash_points = crash_point::Transaction::begun_here();
        async move {
            crash_points.begins().await?;
            let mut tx = Tx::begin(self).await?;
            tx.crash_points = crash_points;
            Ok(tx)
        }
    }

    /// Begins a transaction that only reads, and sees the database of the moment of its first statement
    /// throughout. On SQLite others write meanwhile, and the log grows by what they write.
    pub async fn snapshot(&self) -> Result<Tx> {
        Tx::snapshot(self).await
    }

    /// How many connections its pools have at this moment.
    pub fn connections(&self) -> Connections {
        match self {
            Db::Postgres { pool, .. } => held(&[pool]),
            Db::Sqlite { write, read, .. } => held(&[write, read]),
        }
    }

    /// Says that something was erased. The log of SQLite is emptied soon, beside other work.
    pub fn erased(&self) {
        if let Db::Sqlite { erased, .. } = self {
            erased.notify_one();
        }
    }

    /// How many bytes a SQLite file has. None for a server.
    pub async fn file_size(&self) -> Result<Option<u64>> {
        let Db::Sqlite { .. } = self else {
            return Ok(None);
        };
        let size = "select page_count * page_size as bytes
                    from pragma_page_count(), pragma_page_size()";
        let bytes: i64 = self.query(size).fetch_one().await?.get("bytes")?;
        Ok(Some(bytes.unsigned_abs()))
    }

    /// Writes a SQLite file anew, without free space. Others read meanwhile, and none can write.
    #[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
    pub async fn rewrite_file(&self) -> Result<()> {
        let Db::Sqlite { write, turn, .. } = self else {
            return Ok(());
        };
        let mut writer = acquire_sqlite(write).await?;
        let held = turn.take().await;
        let rewritten = task::elsewhere(sqlx::raw_sql("vacuum").execute(&mut *writer)).await;
        drop(held);
        give_back(Some(writer)).await;
        rewritten?;
        self.erased();
        Ok(())
    }

    /// Asks the database for a trivial answer.
    pub async fn ping(&self) -> Result<()> {
        self.query("select 1").fetch_optional().await.map(|_| ())
    }

    /// Waits until every connection is closed. SQLite's log is then folded into its file.
    pub async fn close(&self) {
        match self {
            Db::Postgres { pool, .. } => pool.close().await,
            Db::Sqlite { write, read, .. } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

fn held<D: sqlx::Database>(pools: &[&sqlx::Pool<D>]) -> Connections {
    let idle = |pool: &sqlx::Pool<D>| u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    let idle: u32 = pools.iter().map(|pool| idle(pool)).sum();
    let open: u32 = pools.iter().map(|pool| pool.size()).sum();
    Connections {
        used: open.saturating_sub(idle),
        idle,
        most: pools
            .iter()
            .map(|pool| pool.options().get_max_connections())
            .sum(),
    }
}

/// Waits for a connection, and measures how long that takes.
async fn acquire<D: sqlx::Database>(pool: &sqlx::Pool<D>) -> Result<PoolConnection<D>> {
    let begun = Instant::now();
    let connection = pool.acquire().await;
    metrics::histogram!("waybill_database_acquire_seconds").record(begun.elapsed());
    connection
}

/// The same of SQLite, whose statements run in threads of their own.
pub(crate) async fn acquire_sqlite(pool: &SqlitePool) -> Result<PoolConnection<Sqlite>> {
    // Where a test directs this thread, it must not stand still until another task gives a connection back.
    #[cfg(debug_assertions)]
    while crash_point::director().is_some()
        && pool.num_idle() == 0
        && pool.size() >= pool.options().get_max_connections()
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    task::elsewhere(acquire(pool)).await
}

/// Puts a connection back before anything else happens, and not in a task of its own as its drop would.
pub(crate) async fn give_back(connection: Option<PoolConnection<Sqlite>>) {
    if let Some(mut connection) = connection {
        task::elsewhere(connection.return_to_pool()).await;
    }
}

fn open_postgres(url: &str, connections: u32) -> Result<Db> {
    let (options, pooling) = postgres_options(url)?;
    let outdated = Outdated::default();
    let pool = postgres_pool(options, pooling, connections, &outdated, Limit::Usual);
    Ok(Db::Postgres {
        pool,
        pooling,
        outdated,
    })
}

/// What the connections of a pool may do, unless a pooler gives each transaction another one.
#[derive(Clone, Copy)]
enum Limit {
    Usual,
    /// No statement may take longer.
    Statement(Duration),
    /// The same, and they can only read.
    Reading(Duration),
}

fn postgres_pool(
    options: PgConnectOptions,
    pooling: Pooling,
    connections: u32,
    outdated: &Outdated,
    limit: Limit,
) -> PgPool {
    let pool = usual_pool(connections, outdated);
    let pool = match pooling {
        Pooling::Session => {
            pool.after_connect(move |connection, _| Box::pin(set(connection, limit)))
        }
        // Each transaction begins with the settings.
        Pooling::Transaction => pool,
    };
    pool.connect_lazy_with(options)
}

fn usual_pool(connections: u32, outdated: &Outdated) -> PgPoolOptions {
    let outdated = outdated.clone();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(move |_, found| {
            let is_current = !outdated.is_older(found.age);
            Box::pin(async move { Ok(is_current) })
        })
}

/// The statements that make the settings of a PostgreSQL connection, after `$begin` and each in `$scope`.
/// They are not parameters of the connection because poolers refuse these.
macro_rules! settings {
    ($begin:literal, $scope:literal, $local:literal) => {
        concat!(
            $begin,
            // A statement that takes longer than this has lost its client, or waits for one that has.
            "set ", $scope, "statement_timeout = '60s';",
            "set ", $scope, "lock_timeout = '30s';",
            "set ", $scope, "idle_in_transaction_session_timeout = '120s';",
            // Every statement has its index. Without this setting, a plan that was made when a table was
            // small would still scan the table from end to end after it has grown.
            "set ", $scope, "enable_seqscan = off;",
            // A plan without sequential scans looks so expensive that the server would compile it first,
            // which takes longer than to run it.
            "set ", $scope, "jit = off;",
            // The locks of a killed client are released even while its last statement waits for others.
            "set ", $scope, "client_connection_check_interval = '2s';",
            // A commit is answered only when it is on disk, and on that of the standby if the server waits
            // for one. A role or a server that is set to answer earlier would lose deliveries that were
            // answered as accepted. Other settings that wait for the standby are kept.
            "select set_config('synchronous_commit', 'on', ", $local, ")
             where current_setting('synchronous_commit') in ('off', 'local')",
        )
    };
}

/// What is written here relies on the isolation, whatever the server's own default is.
const SET: &str = settings!(
    "set default_transaction_isolation = 'read committed';",
    "",
    "false"
);
const BEGIN_AND_SET: &str = settings!("begin isolation level read committed;", "local ", "true");

#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn set(connection: &mut PgConnection, limit: Limit) -> Result<()> {
    sqlx::raw_sql(SET).execute(&mut *connection).await?;
    let (longest, limited) = match limit {
        Limit::Usual => return Ok(()),
        Limit::Statement(longest) => (longest, "select set_config('statement_timeout', $1, false)"),
        Limit::Reading(longest) => (
            longest,
            "select set_config('statement_timeout', $1, false),
                    set_config('default_transaction_read_only', 'on', false)",
        ),
    };
    let limited = sqlx::query(limited).bind(longest.as_millis().to_string());
    limited.execute(connection).await?;
    Ok(())
}

/// A transaction waits for at most `lock_timeout` for other processes to end theirs.
async fn open_sqlite(url: &str, lock_timeout: Duration) -> Result<Db> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(lock_timeout)
        .pragma("wal_autocheckpoint", WAL_BACKSTOP_PAGES)
        .pragma("secure_delete", "on")
        .pragma("cache_size", "-8192");
    let file = options.get_filename();
    if let Some(folder) = file.parent()
        && folder != Path::new("")
    {
        private_files::make_folder(folder).map_err(Error::Io)?;
    }
    // SQLite gives the files that it makes beside this one the same permissions.
    private_files::make_file(file).map_err(Error::Io)?;
    let write = sqlite_pool(1).connect_with(options.clone()).await?;
    let read = sqlite_readers(&options, 4);
    let turn = Turn::beside(options.get_filename());
    let erased = Arc::new(Notify::new());
    let db = Db::Sqlite {
        write: write.clone(),
        read,
        turn,
        erased: erased.clone(),
    };
    task::spawn("checkpoints", checkpoint(options, write, erased));
    Ok(db)
}

fn sqlite_readers(options: &SqliteConnectOptions, connections: u32) -> SqlitePool {
    sqlite_pool(connections).connect_lazy_with(options.clone().pragma("query_only", "on"))
}

/// Connections live as long as the process, because opening one costs more than keeping it.
fn sqlite_pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
}

/// Folds the log into the database file while the writer works, which would otherwise have to do
/// it in the middle of a commit. Regularly, and after an erasure, the log is also emptied,
/// because contents that were folded in stay in the log until they are overwritten. Ends when the
/// writer's pool is closed.
async fn checkpoint(options: SqliteConnectOptions, write: SqlitePool, erased: Arc<Notify>) {
    let options = options.busy_timeout(EMPTYING_TIMEOUT);
    let Ok(mut connection) = options.connect().await else {
        return;
    };
    let mut emptying = Instant::now() + EMPTYING_PAUSE;
    let (mut pause, mut pages) = (CHECKPOINT_PAUSE, None);
    while !write.is_closed() {
        // A checkpoint that fails, or that a reader prevents, is tried again; at the latest the
        // writer does it ([`WAL_BACKSTOP_PAGES`]).
        let folded = fold_log(&mut connection).await.ok();
        pause = if folded.is_some() && folded == pages {
            LONGEST_CHECKPOINT_PAUSE.min(pause * 2)
        } else {
            CHECKPOINT_PAUSE
        };
        pages = folded;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = write.close_event() => {}
            () = erased.notified() => emptying = Instant::now(),
        }
        if Instant::now() >= emptying {
            let is_empty = empty_log(&mut connection).await.unwrap_or(false);
            let pause = if is_empty {
                EMPTYING_PAUSE
            } else {
                EMPTYING_RETRY
            };
            emptying = Instant::now() + pause;
        }
    }
}

/// Folds the log into the file. Returns how many pages the log has and how many of them were folded, which
/// are the same as before when nothing was written.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn fold_log(connection: &mut SqliteConnection) -> Result<(i64, i64)> {
    let row = sqlx::raw_sql("pragma wal_checkpoint(passive)")
        .fetch_one(connection)
        .await?;
    Ok((row.try_get(1)?, row.try_get(2)?))
}

/// Empties the log. False when somebody prevented it.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn empty_log(connection: &mut SqliteConnection) -> Result<bool> {
    let row = sqlx::raw_sql("pragma wal_checkpoint(truncate)")
        .fetch_one(connection)
        .await?;
    Ok(row.try_get::<i64, _>(0)? == 0)
}

/// True when the connection is lost or could not be had. The statement may be tried again on
/// another connection, unless it was a `commit` or committed by itself.
pub fn is_connection_error(error: &Error) -> bool {
    match error {
        Error::Io(_)
        | Error::Tls(_)
        | Error::Protocol(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed => true,
        // Class 08 is a connection exception. With 57P0x the server is shutting down or starting.
        Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("08") || code.starts_with("57P")),
        _ => false,
    }
}

/// True when the server has ended a statement that took longer than it may.
pub fn is_late(error: &Error) -> bool {
    matches!(error, Error::Database(error) if error.code().as_deref() == Some("57014"))
}

/// True when the connection had ended before it was used: the server was restarted, or something between
/// has forgotten it. After that all connections that a pool keeps idle are like this.
fn is_dead(error: &Error) -> bool {
    match error {
        Error::Io(error) => error.kind() != io::ErrorKind::TimedOut,
        // PostgreSQL says 57P.., a pooler 08P01.
        Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("57P") || code.starts_with("08")),
        _ => false,
    }
}

/// True when the database takes no writes: the server is a standby, or its settings say so, and a new
/// connection may lead to one that does.
pub fn is_read_only(error: &Error) -> bool {
    const READ_ONLY: &str = "25006";
    matches!(error, Error::Database(error) if error.code().as_deref() == Some(READ_ONLY))
}

/// True when others have a SQLite file open that [`Db::open_alone`] wants for itself.
pub fn is_in_use(error: &Error) -> bool {
    const BUSY: &str = "5";
    matches!(error, Error::Database(error) if error.code().as_deref() == Some(BUSY))
}

/// True when the same statement may succeed later: the connection was lost, the server is out of
/// disk space or memory or takes no writes, or another transaction was in the way.
pub fn is_outage(error: &Error) -> bool {
    let Error::Database(database) = error else {
        return is_connection_error(error);
    };
    let code = database.code().unwrap_or_default();
    // PostgreSQL: insufficient resources, an error of the system below it, serialization, deadlock, lock timeout. SQLite: BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN in the low byte.
    let sqlite = code.parse::<u32>().ok().filter(|_| code.len() < 5);
    is_connection_error(error)
        || code.starts_with("53")
        || code.starts_with("58")
        || is_read_only(error)
        || ["40001", "40P01", "55P03"].contains(&code.as_ref())
        || sqlite.is_some_and(|code| [5, 6, 8, 10, 13, 14].contains(&(code & 0xff)))
}

#[cfg(test)]
#[path = "../tests/unit/sql.rs"]
mod tests;
