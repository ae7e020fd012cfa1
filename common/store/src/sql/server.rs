//! What a database server says about itself, for somebody who looks for a mistake.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::{Db, Error, Limit, Result, Row, acquire, is_connection_error, set};
use config::database::Pooling;
use domain::time::Timestamp;

/// How many questions are timed.
const QUESTIONS: usize = 5;

/// How long a start waits for a server that does not answer yet, and a command that works with the data. A delivery could
/// not wait so long.
const START_DEADLINE: Duration = Duration::from_secs(5);
const START_PAUSE: Duration = Duration::from_millis(100);
const CHECK_DEADLINE: Duration = Duration::from_secs(5);

/// The error when settings do not stay with the connection on which they were made.
const UNDECLARED_POOLER: &str = "a pooler that gives each transaction another connection of the server is in \
    between; add pgbouncer=true to the parameters of the URL";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Such as `PostgreSQL 17.2` and `SQLite 3.50.1`.
    pub version: String,
    /// The time of the server's clock. `None` for SQLite, which runs in this process and has no
    /// clock of its own.
    pub clock: Option<Timestamp>,
    /// How long it takes from a question to its answer: the shortest of some, because a longer one
    /// says more of what else this machine does than of the way to the server.
    pub round_trip: Duration,
}

/// What a database takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Writes,
    /// A primary whose settings, or those of our role or database, allow reading only.
    ReadOnly,
    /// A server that follows another one.
    Standby,
}

/// The transaction that is the furthest back of those for which a server keeps old versions of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// The process that holds it. None for a prepared transaction.
    pub process: Option<i64>,
    /// The user of the session, and what it does.
    pub whose: String,
    /// How long ago it began. None for the reader of a standby.
    pub age: Option<Duration>,
    /// How many transactions have begun to write since.
    pub transactions: i64,
}

impl Db {
    /// The oldest transaction of others in this database. None if there is none, or if it belongs to a
    /// role of which we may see nothing, and for SQLite.
    pub async fn oldest_transaction(&self) -> Result<Option<Oldest>> {
        let Db::Postgres { .. } = self else {
            return Ok(None);
        };
        let ask = "with held (process, whose, began, transactions) as (
                select cast(pid as bigint),
                       concat_ws(', ', 'role ' || usename, nullif(application_name, ''), state),
                       xact_start,
                       greatest(cast(age(backend_xid) as bigint), cast(age(backend_xmin) as bigint))
                from pg_stat_activity
                where pid <> pg_backend_pid()
                  and (datname = current_database() or backend_type = 'walsender')
                  and coalesce(backend_xid, backend_xmin) is not null
                union all
                select null, concat_ws(', ', 'role ' || owner, 'prepared as ' || gid), prepared,
                       cast(age(transaction) as bigint)
                from pg_prepared_xacts where database = current_database()
            )
            select process, whose, transactions,
                   cast(extract(epoch from clock_timestamp() - began) * 1000 as bigint) as age
            from held order by transactions desc, began limit 1";
        let row = self.query(ask).fetch_optional().await?;
        let read = |row: &Row| {
            let age: Option<i64> = row.get("age")?;
            Ok(Oldest {
                process: row.get("process")?,
                whose: row.get("whose")?,
                age: age.map(|age| Duration::from_millis(age.try_into().unwrap_or_default())),
                transactions: row.get("transactions")?,
            })
        };
        row.as_ref().map(read).transpose()
    }

    /// How many sessions of our role have waited for seconds for a standby to have what they committed.
    /// The server ends none of them while no standby answers, even if their client is gone.
    pub async fn waiting_for_standby(&self) -> Result<i64> {
        let Db::Postgres { .. } = self else {
            return Ok(0);
        };
        let ask = "select count(*) as n from pg_stat_activity
            where datname = current_database() and usename = current_user
              and wait_event = 'SyncRep'
              and query_start < clock_timestamp() - interval '2 seconds'";
        self.query(ask).fetch_one().await?.get("n")
    }

    /// Asks the database for a trivial answer, and whether it takes writes. If it does not, the
    /// connections that there are are not used again, because the address of the server may lead to
    /// another one by now.
    pub async fn access(&self) -> Result<Access> {
        let Db::Postgres { outdated, .. } = self else {
            self.ping().await?;
            return Ok(Access::Writes);
        };
        let ask = "select case when pg_is_in_recovery() then 'standby'
                               else current_setting('transaction_read_only') end as access";
        let row = self.query(ask).fetch_one().await?;
        let access = match row.get::<String>("access")?.as_str() {
            "standby" => Access::Standby,
            "on" => Access::ReadOnly,
            _ => return Ok(Access::Writes),
        };
        outdated.mark();
        Ok(access)
    }

    pub async fn server(&self) -> Result<Server> {
        // The first question may have to open a connection.
        self.ping().await?;
        let mut round_trip = Duration::MAX;
        for _ in 0..QUESTIONS {
            let asked = Instant::now();
            self.ping().await?;
            round_trip = round_trip.min(asked.elapsed());
        }
        let row = match self {
            Db::Postgres { .. } => self.query(
                "select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)
                            as version,
                        cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as now",
            ),
            Db::Sqlite { .. } => {
                self.query("select 'SQLite ' || sqlite_version() as version, null as now")
            }
        };
        let row = row.fetch_one().await?;
        Ok(Server {
            version: row.get("version")?,
            clock: row.get::<Option<i64>>("now")?.map(Timestamp),
            round_trip,
        })
    }

    /// Waits until the server answers on a connection, at most 5 s, because one that pauses or restarts, or has no
    /// connection left, is soon back. After that the error is the last one.
    pub async fn reached(&self) -> Result<()> {
        let Db::Postgres { pool, .. } = self else {
            return Ok(());
        };
        let options = pool.connect_options();
        let mut last = Error::PoolTimedOut;
        let reached = async {
            loop {
                match answers(&options).await {
                    Err(error) if is_away(&error) => last = error,
                    answered => return answered,
                }
                tokio::time::sleep(START_PAUSE).await;
            }
        };
        match timeout(START_DEADLINE, reached).await {
            Ok(reached) => reached,
            Err(_) => Err(last),
        }
    }

    /// Makes the settings on a connection, so that an error is the server's own and not that of the pool,
    /// and refuses a pooler of transactions that the URL does not declare: what is set on one connection
    /// would hold on any of those that others use.
    pub async fn check_settings(&self) -> Result<()> {
        let Db::Postgres {
            pool,
            pooling: Pooling::Session,
            ..
        } = self
        else {
            return Ok(());
        };
        let options = pool.connect_options();
        let checked = timeout(CHECK_DEADLINE, check(&options)).await;
        checked.unwrap_or_else(|_| Err(Error::Io(io::ErrorKind::TimedOut.into())))
    }

    /// Has a server run these statements one after the other, on a connection of their own that is
    /// closed afterwards. Behind a pooler each may have another connection of the server, so those that
    /// only set something for the next ones are left out. A file has its own ways ([`Db::erased`]).
    #[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
    pub async fn on_server(&self, statements: &[&'static str]) -> Result<()> {
        let Db::Postgres { pool, pooling, .. } = self else {
            return Ok(());
        };
        let mut connection = acquire(pool).await?.detach();
        for statement in statements {
            if *pooling == Pooling::Transaction && statement.starts_with("set ") {
                continue;
            }
            sqlx::raw_sql(*statement).execute(&mut connection).await?;
        }
        connection.close().await
    }

    /// True when each transaction may have another connection of the server.
    pub fn is_pooled(&self) -> bool {
        let pooled = Pooling::Transaction;
        matches!(self, Db::Postgres { pooling, .. } if *pooling == pooled)
    }

    /// How many bytes a server's table has with its indexes; of a file's none.
    pub async fn size_of(&self, table: &str) -> Result<i64> {
        let Db::Postgres { .. } = self else {
            return Ok(0);
        };
        let size = self.query("select pg_total_relation_size(to_regclass($1)) as size");
        size.bind(table).fetch_one().await?.get("size")
    }
}

#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn check(options: &PgConnectOptions) -> Result<()> {
    let mut first = PgConnection::connect_with(options).await?;
    set(&mut first, Limit::Usual).await?;
    let probe = RandomState::new().hash_one(0).to_string();
    let set_probe = AssertSqlSafe(format!("set waybill.probe = '{probe}'"));
    sqlx::raw_sql(set_probe).execute(&mut first).await?;
    let mut second = PgConnection::connect_with(options).await?;
    // A pooler would give it the connection of the server on which the first one has set it, and the
    // first one another.
    sqlx::raw_sql("begin").execute(&mut second).await?;
    let is_shared = sees(&mut second, &probe).await? || !sees(&mut first, &probe).await?;
    sqlx::raw_sql("rollback").execute(&mut second).await?;
    first.close().await?;
    second.close().await?;
    if is_shared {
        return Err(Error::Configuration(UNDECLARED_POOLER.into()));
    }
    Ok(())
}

/// Asks on a new connection: a pooler may take one while its server is away.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn answers(options: &PgConnectOptions) -> Result<()> {
    let mut connection = PgConnection::connect_with(options).await?;
    sqlx::raw_sql("select 1").execute(&mut connection).await?;
    // It has answered, so how the connection ends does not matter.
    let _ = connection.close().await;
    Ok(())
}

/// Whether a server may soon be back. Class 53 means that it has too little of something, such as connections.
fn is_away(error: &Error) -> bool {
    let is_full = |code: &str| code.starts_with("53");
    is_connection_error(error)
        || matches!(error, Error::Database(error) if error.code().is_some_and(|code| is_full(&code)))
}

#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn sees(connection: &mut PgConnection, probe: &str) -> Result<bool> {
    let ask = "select coalesce(current_setting('waybill.probe', true), '')";
    let row = sqlx::raw_sql(ask).fetch_one(connection).await?;
    Ok(row.try_get::<&str, _>(0)? == probe)
}
