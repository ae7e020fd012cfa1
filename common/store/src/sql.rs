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
//!
//! What is deleted or overwritten in a SQLite file is overwritten with zeros there
//! (`secure_delete`), and the log, which has pages as they were, is emptied every few seconds.
//! When SQLite moves rows between pages it leaves copies behind, which no setting clears: so
//! after an erasure ([`Db::erased`]) a file that is not large is rewritten, too.

mod insert;
mod query;
mod server;
mod turn;
mod tx;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use tokio::sync::Notify;
use tokio::time::Instant;

use platform::{private_files, task};

pub use insert::{Cell, Column, Values, column};
pub use query::{Field, Query, Row, Value};
pub use server::Server;
pub use sqlx::Error;
pub use turn::Turn;
pub use tx::Tx;

pub type Result<T> = std::result::Result<T, Error>;

/// The connections of a process to its database.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    pub used: u32,
    pub idle: u32,
    pub most: u32,
}

/// How long a statement may wait for a connection, and a connection for its server.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
/// Idle connections are closed before the networks in between forget them silently.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a transaction waits for other processes to end theirs. None of ours takes a second:
/// whoever holds SQLite's lock for so long is stopped, or no part of Waybill.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Measured: at 25 ms the slowest hundredth of commits waits 6 ms, at 100 ms 12, at a second 40.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(25);
/// Between two times that the log is emptied, be it asked for or not.
const EMPTYING_PAUSE: Duration = Duration::from_secs(10);
/// Between two tries when readers were in the way.
const EMPTYING_RETRY: Duration = Duration::from_millis(500);
/// Writers wait for no longer than this for the log to be emptied.
const EMPTYING_TIMEOUT: Duration = Duration::from_millis(100);
/// A larger file takes longer to be rewritten than intake waits for a commit.
const MOST_REWRITTEN: i64 = 48 * 1024 * 1024;
/// A file is rewritten when nothing was erased for so long, or after this time all the same.
const REWRITE_QUIET: Duration = Duration::from_secs(3);
const REWRITE_LATEST: Duration = Duration::from_secs(30);
/// Between two times it rests so many times as long as it took.
const REWRITE_REST: u32 = 30;
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
        /// Among the processes that write to this file.
        turn: Turn,
        /// Something was erased.
        erased: Arc<Notify>,
    },
}

impl Db {
    /// Opens `postgres://..` or `sqlite://path`; makes the SQLite file and its folder
    /// when they do not exist. `connections` is the most to a PostgreSQL server.
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return open_postgres(url, connections);
        }
        open_sqlite(url, LOCK_TIMEOUT).await
    }

    /// What it is, for a label.
    pub fn name(&self) -> &'static str {
        match self {
            Db::Postgres(_) => "postgresql",
            Db::Sqlite { .. } => "sqlite",
        }
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
        Query::new(query::Target::Db(self), sql)
    }

    /// Opens a transaction; on SQLite it is the only one that writes.
    pub async fn begin(&self) -> Result<Tx> {
        Tx::begin(self).await
    }

    /// What its pools hold at this moment.
    pub fn connections(&self) -> Connections {
        match self {
            Db::Postgres(pool) => held(&[pool]),
            Db::Sqlite { write, read, .. } => held(&[write, read]),
        }
    }

    /// Says that something was erased, of which SQLite's files are cleared soon, beside other work.
    pub fn erased(&self) {
        if let Db::Sqlite { erased, .. } = self {
            erased.notify_one();
        }
    }

    /// Has a server take what was deleted and overwritten in these tables out of its pages, for as
    /// long as it takes. A file has its own ways ([`Db::erased`]).
    #[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
    pub async fn vacuum(&self, statement: &'static str) -> Result<()> {
        let Db::Postgres(pool) = self else {
            return Ok(());
        };
        let mut connection = acquire(pool).await?.detach();
        for sql in ["set statement_timeout = 0", statement] {
            sqlx::raw_sql(sql).execute(&mut connection).await?;
        }
        connection.close().await
    }

    /// Asks the server for a trivial answer.
    pub async fn ping(&self) -> Result<()> {
        self.query("select 1").fetch_optional().await.map(|_| ())
    }

    /// Waits until every connection is closed; SQLite's log is then folded into its file.
    pub async fn close(&self) {
        match self {
            Db::Postgres(pool) => pool.close().await,
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

/// Waits for a connection, and counts how long.
async fn acquire<D: sqlx::Database>(pool: &sqlx::Pool<D>) -> Result<PoolConnection<D>> {
    let begun = Instant::now();
    let connection = pool.acquire().await;
    metrics::histogram!("waybill_database_acquire_seconds").record(begun.elapsed());
    connection
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

/// Which database a URL names, for people: where it is and what it is called, and no credential.
pub fn place(url: &str) -> String {
    if let Ok(options) = PgConnectOptions::from_str(url)
        && !url.starts_with("sqlite:")
    {
        let name = options.get_database().unwrap_or("its user's own");
        if let Some(socket) = options.get_socket() {
            return format!("the database {name} at {}", socket.display());
        }
        let (host, port) = (options.get_host(), options.get_port());
        return format!("the database {name} at {host}:{port}");
    }
    match SqliteConnectOptions::from_str(url) {
        Ok(options) => format!("the database {}", options.get_filename().display()),
        Err(_) => "the database".to_owned(),
    }
}

/// How a connection to a PostgreSQL server is kept from others on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// None, or none when who stands between prevents it.
    None,
    /// Nobody can listen, but who stands between can pose as the server.
    Unverified,
    Verified,
}

/// The server's host; `None`: it is a SQLite file, or a socket of this machine.
pub fn on_network(url: &str) -> Option<(String, Encryption)> {
    let is_server = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let options = PgConnectOptions::from_str(url).ok().filter(|_| is_server)?;
    let host = options.get_host().to_owned();
    if options.get_socket().is_some() || host.starts_with('/') {
        return None;
    }
    let encryption = match options.get_ssl_mode() {
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer => Encryption::None,
        PgSslMode::Require => Encryption::Unverified,
        PgSslMode::VerifyCa | PgSslMode::VerifyFull => Encryption::Verified,
    };
    Some((host, encryption))
}

/// The file of a SQLite database.
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let options = SqliteConnectOptions::from_str(url).ok();
    let options = options.filter(|_| url.starts_with("sqlite://"))?;
    Some(options.get_filename().to_owned())
}

fn open_postgres(url: &str, connections: u32) -> Result<Db> {
    // A statement that outlives these has lost its client, or waits for one that has.
    let options = PgConnectOptions::from_str(url)?.options([
        ("statement_timeout", "60s"),
        ("lock_timeout", "30s"),
        ("idle_in_transaction_session_timeout", "120s"),
        // Every statement has its index. A plan kept from when a table was small would go on
        // scanning it from end to end once it has grown.
        ("enable_seqscan", "off"),
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

/// A transaction waits for other processes to end theirs for `lock_timeout`.
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
    // SQLite makes the files beside it as open as this one is.
    private_files::make_file(file).map_err(Error::Io)?;
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
    let turn = Turn::beside(options.get_filename());
    let erased = Arc::new(Notify::new());
    let checkpoints = checkpoint(options, write.clone(), erased.clone());
    task::spawn("checkpoints", checkpoints);
    Ok(Db::Sqlite {
        write,
        read,
        turn,
        erased,
    })
}

/// Folds the log into the database file beside the writer, which would otherwise stand still
/// for it in the middle of a commit. Now and then, and after an erasure, the log is emptied as
/// well: what was folded in stays in it until it is written over. Ends with the writer's pool.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn checkpoint(options: SqliteConnectOptions, write: SqlitePool, erased: Arc<Notify>) {
    let options = options.busy_timeout(EMPTYING_TIMEOUT);
    let Ok(mut connection) = options.connect().await else {
        return;
    };
    let mut emptying = Instant::now() + EMPTYING_PAUSE;
    let mut rewriting: Option<Rewriting> = None;
    let mut rested = Instant::now();
    while !write.is_closed() {
        // Not done because a reader is in the way, or failed: the backstop remains.
        let folded = sqlx::raw_sql("pragma wal_checkpoint(passive)").execute(&mut connection);
        let _ = folded.await;
        tokio::select! {
            () = tokio::time::sleep(CHECKPOINT_PAUSE) => {}
            () = erased.notified() => {
                let now = Instant::now();
                emptying = emptying.min(now);
                let latest = rewriting.map_or(now + REWRITE_LATEST, |known| known.latest);
                rewriting = Some(Rewriting { quiet: now + REWRITE_QUIET, latest });
            }
        }
        let begun = Instant::now();
        if begun >= rested && rewriting.is_some_and(|it| begun >= it.quiet.min(it.latest)) {
            match rewrite(&mut connection).await {
                Ok(()) => {
                    rewriting = None;
                    emptying = Instant::now();
                    rested = emptying + (emptying - begun) * REWRITE_REST;
                }
                // Somebody writes.
                Err(_) => rested = Instant::now() + EMPTYING_RETRY,
            }
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

/// When a file is rewritten.
#[derive(Clone, Copy)]
struct Rewriting {
    quiet: Instant,
    latest: Instant,
}

/// Rewrites a file that is not large.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn rewrite(connection: &mut SqliteConnection) -> Result<()> {
    let mut size = 1;
    for sql in ["pragma page_count", "pragma page_size"] {
        let row = sqlx::raw_sql(sql).fetch_one(&mut *connection).await?;
        size *= row.try_get::<i64, _>(0)?;
    }
    if size <= MOST_REWRITTEN {
        sqlx::raw_sql("vacuum").execute(connection).await?;
    }
    Ok(())
}

/// False: somebody was in the way.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn empty_log(connection: &mut SqliteConnection) -> Result<bool> {
    let row = sqlx::raw_sql("pragma wal_checkpoint(truncate)")
        .fetch_one(connection)
        .await?;
    Ok(row.try_get::<i64, _>(0)? == 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_the_lock_in_vain_learns_what_to_look_for() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/locked.db", folder.path().display());
        let holder = open_sqlite(&url, LOCK_TIMEOUT).await.unwrap();
        let held = holder.begin().await.unwrap();
        let waits = open_sqlite(&url, Duration::from_millis(50)).await.unwrap();
        let error = waits.begin().await.unwrap_err();
        assert!(is_outage(&error), "it is tried again later");
        let reported = error.to_string();
        assert!(reported.contains("another process"), "{reported}");
        assert!(!reported.contains("database is locked"), "{reported}");
        held.rollback().await.unwrap();
        waits.begin().await.unwrap().rollback().await.unwrap();
    }
}
