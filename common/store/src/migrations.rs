//! The schema. It is built into the binary and applied by services when they start and by
//! `waybill migrate`, by one process at a time. Other commands only compare it.
//!
//! A migration is portable SQL and is never changed after its release: its checksum is stored in
//! the database and compared.
//!
//! Services of the version before run on while a migration is applied, so on PostgreSQL it never makes
//! them wait for long: it waits at most half a second for a lock, behind which all others would queue,
//! and then tries again; and one that is a single `create index concurrently` runs outside a
//! transaction, beside all writers. SQLite knows no such index and makes it as any other, and it knows no sequence.

pub mod copy;
pub(crate) mod tables;

use std::borrow::Cow;
use std::time::Duration;

use platform::crash_point::{self, Point};
use sqlx::error::DatabaseError;
use sqlx::migrate::{AppliedMigration, MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Connection as _, SqlSafeStr};
use tokio::time::Instant;

use crate::event_head;
use crate::sql::{Db, Error, Row, acquire_sqlite, give_back};
use tables::TABLES;

/// The migration that makes the schema of the first release.
const FIRST: i64 = 1;

const ALL: &[Source] = &[(
    FIRST,
    "initial",
    include_str!("../../../migrations/0001_initial.sql"),
)];

/// The newest migration: a database that has it can be served.
pub fn newest() -> i64 {
    ALL.iter().map(|source| source.0).max().unwrap_or(FIRST)
}

/// The message for a database that was made before the first release. Its migrations were other
/// files than those of `ALL`, so it cannot be brought up to date.
const UNRELEASED: &str = "the database was made by a version of Waybill from before its first \
    release, and no version can bring it up to date; set DATABASE_URL to a new database (for \
    SQLite a file that does not exist yet), or remove this one if nobody needs what is in it";

/// The message for a database behind a pooler that lacks migrations. They need locks and settings that
/// last longer than a transaction.
const POOLED: &str = "the database lacks migrations of this version, and they cannot be applied \
    through a pooler; run `waybill migrate` with the address of the server itself in DATABASE_URL, \
    without pgbouncer=true";

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error("{UNRELEASED}")]
    Unreleased,
    #[error("{POOLED}")]
    Pooled,
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Failed(#[from] MigrateError),
}

/// Applies the migrations that the database lacks. Several processes may call this at once.
pub async fn apply(db: &Db) -> Result<(), MigrationError> {
    if compare(db).await?.is_unreleased() {
        return Err(MigrationError::Unreleased);
    }
    if db.is_pooled() {
        let compared = compare(db).await?;
        if compared.missing.is_empty() {
            return match compared.lacks() {
                None => Ok(event_head::raise(db).await.map_err(MigrateError::from)?),
                Some(lacks) => Err(MigrationError::Unusable(lacks)),
            };
        }
        return Err(MigrationError::Pooled);
    }
    crash_point::reach(Point::Migrate).await;
    apply_these(db, ALL).await?;
    crash_point::reach(Point::Migrated).await;
    if let Db::Postgres { pool, .. } = db {
        keep_no_samples(pool).await.map_err(MigrateError::from)?;
        set_parameters(pool).await.map_err(MigrateError::from)?;
    }
    Ok(event_head::raise(db).await.map_err(MigrateError::from)?)
}

/// Applies those of these migrations that the database lacks: version, name and SQL of each. It is
/// public so that a test can apply some to a database of some size.
pub async fn apply_these(db: &Db, migrations: &[Source]) -> Result<(), MigrateError> {
    match db {
        Db::Postgres { pool, .. } if !compare_with(db, migrations).await?.is_complete() => {
            apply_postgres(pool, migrations).await
        }
        Db::Postgres { .. } => Ok(()),
        Db::Sqlite { write, .. } => apply_sqlite(db, write, migrations).await,
    }
}

/// The version, the name and the SQL of a migration.
pub type Source = (i64, &'static str, &'static str);

/// How long a migration waits for a lock before it is tried again. Whoever comes later waits behind
/// it, and a delivery is answered with 503 if it is not stored within a second.
const LOCK_TIMEOUT: &str = "set lock_timeout = '500ms'";
/// For an index that is made beside all writers. Nobody waits behind it, and it waits itself until
/// every transaction has ended that was open when it began.
const NO_LOCK_TIMEOUT: &str = "set lock_timeout = 0";
/// How long it is tried again, in all, and the pause between two tries, in which whoever waited behind
/// the last one gets through.
const MOST_TRIED: Duration = Duration::from_mins(30);
const PAUSE: Duration = Duration::from_secs(2);
/// How often it is looked whether another process still applies migrations.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// PostgreSQL's error when a lock was not granted in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// The advisory lock of the process that applies migrations; the number has no meaning. It is never
/// waited for in a statement: an index that is made concurrently waits for the end of all statements.
const ONE_AT_A_TIME: i64 = 0x5761_7962_696c_6c01;

/// Applies migrations with a connection of their own, whose statements may take as long as they need.
#[expect(clippy::disallowed_methods, reason = "no table of ours")]
async fn apply_postgres(pool: &PgPool, migrations: &[Source]) -> Result<(), MigrateError> {
    let mut connection = PgConnection::connect_with(&pool.connect_options()).await?;
    let no_timeout = sqlx::query("set statement_timeout = 0");
    no_timeout.execute(&mut connection).await?;
    let begun = Instant::now();
    let applied = loop {
        let locked: bool = sqlx::query_scalar("select pg_try_advisory_lock($1)")
            .bind(ONE_AT_A_TIME)
            .fetch_one(&mut connection)
            .await?;
        let pause = if locked {
            let applied = apply_alone(&mut connection, migrations).await;
            if !applied.as_ref().is_err_and(is_lock_timeout) || begun.elapsed() > MOST_TRIED {
                break applied;
            }
            tracing::info!("a migration waits for a lock that others hold; trying again");
            PAUSE
        } else {
            LOOK_AGAIN
        };
        tokio::time::sleep(pause).await;
    };
    // The advisory lock ends with its connection.
    applied.and(connection.close().await.map_err(MigrateError::from))
}

#[expect(clippy::disallowed_methods, reason = "no table of ours")]
async fn apply_alone(
    connection: &mut PgConnection,
    migrations: &[Source],
) -> Result<(), MigrateError> {
    let mut migrator = migrator(migrations, false);
    migrator.set_locking(false);
    for &(version, _, sql) in migrations {
        let index = concurrent_index(sql);
        let lock_timeout = if index.is_some() {
            NO_LOCK_TIMEOUT
        } else {
            LOCK_TIMEOUT
        };
        sqlx::query(lock_timeout).execute(&mut *connection).await?;
        if let Some(index) = index {
            drop_unfinished(connection, index).await?;
        }
        migrator.run_to(version, &mut *connection).await?;
    }
    Ok(())
}

/// An index that was being made while its process ended exists and is not used. So it is removed before
/// it is made again.
#[expect(clippy::disallowed_methods, reason = "no table of ours")]
async fn drop_unfinished(
    connection: &mut PgConnection,
    index: &'static str,
) -> Result<(), MigrateError> {
    let unfinished =
        sqlx::query("select 1 from pg_index where indexrelid = to_regclass($1) and not indisvalid");
    let unfinished = unfinished.bind(index).fetch_optional(&mut *connection);
    if unfinished.await?.is_some() {
        let drop = AssertSqlSafe(format!("drop index concurrently if exists {index}"));
        sqlx::query(drop).execute(&mut *connection).await?;
    }
    Ok(())
}

const CONCURRENTLY: &str = "create index concurrently ";
/// A line that SQLite does not get.
const SEQUENCE: &str = "create sequence ";

/// The name of the index if a migration is one that makes an index beside all writers.
fn concurrent_index(sql: &'static str) -> Option<&'static str> {
    let statement = sql.trim_start();
    statement
        .strip_prefix(CONCURRENTLY)?
        .split_whitespace()
        .next()
}

fn is_lock_timeout(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.as_deref() == Some(LOCK_NOT_AVAILABLE)
}

/// Keeps PostgreSQL from taking samples of personal columns for its planner: they would stand in its
/// catalog, in clear, when their people are erased. Every statement has its index without them.
#[expect(
    clippy::disallowed_methods,
    reason = "no table of ours, and no other database's"
)]
async fn keep_no_samples(pool: &PgPool) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    let personal = TABLES.iter().flat_map(|table| {
        let columns = table.columns.iter().filter(|it| it.is_personal());
        columns.map(|column| (table.name, column.name))
    });
    let (tables, columns): (Vec<&str>, Vec<&str>) = personal.unzip();
    let sampled: Vec<(String, String)> = sqlx::query_as(
        "select table_name, column_name from unnest($1::text[], $2::text[]) as personal (table_name, column_name)
         join pg_attribute on attrelid = to_regclass(table_name) and attname = column_name
         where coalesce(attstattarget, -1) <> 0",
    )
    .bind(tables)
    .bind(columns)
    .fetch_all(&mut *connection)
    .await?;
    for (table, column) in sampled {
        let alter = format!("alter table {table} alter column {column} set statistics 0");
        sqlx::query(AssertSqlSafe(alter))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Parameters of tables, and how those of their kind begin. Of large tables whose rows change all the time only
/// the newest rows are read: with the server's default a fifth of the table has to change before dead rows are
/// removed and the planner learns how many there are: of a hundred million jobs that takes days, and meanwhile
/// the first places of the indexes that the sweep reads fill with entries of rows that are gone. And a changed
/// order finds room in the page where it stands, so that no index is written for it. Pages of jobs are filled to the
/// end: with room for the changes of their rows (a `fillfactor` of 70 or 50) a change takes as long and writes at most
/// 120 bytes less to the log, and rows of jobs, which are kept for good, take as much more space.
const PARAMETERS: [(&str, &str, &str); 6] = [
    ("jobs", "autovacuum_", VACUUM_OFTEN),
    ("deliveries", "autovacuum_", VACUUM_OFTEN),
    ("webhook_ids", "autovacuum_", VACUUM_OFTEN),
    ("events", "autovacuum_", VACUUM_OFTEN),
    ("outgoing_webhooks", "autovacuum_", VACUUM_OFTEN),
    ("orders", "fillfactor", "fillfactor = 80"),
];
const VACUUM_OFTEN: &str = "autovacuum_vacuum_scale_factor = 0.01, \
    autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05";

/// Sets the parameters of tables. A table for which an operator has set one of the kind stays as it is.
/// Whoever vacuums a table by hand holds this up, and somebody who does not own the tables may not do it:
/// then it is left to the next start.
#[expect(clippy::disallowed_methods, reason = "no other database's")]
async fn set_parameters(pool: &PgPool) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    for (table, kind, parameters) in PARAMETERS {
        let is_set: Option<i32> = sqlx::query_scalar(
            "select 1 from pg_class
             where oid = to_regclass($1) and array_to_string(reloptions, ',') like '%' || $2 || '%'",
        )
        .bind(table)
        .bind(kind)
        .fetch_optional(&mut *connection)
        .await?;
        if is_set.is_some() {
            continue;
        }
        let mut tx = connection.begin().await?;
        sqlx::query("set local lock_timeout = '500ms'")
            .execute(&mut *tx)
            .await?;
        let alter = AssertSqlSafe(format!("alter table {table} set ({parameters})"));
        match sqlx::query(alter).execute(&mut *tx).await {
            Ok(_) => tx.commit().await?,
            Err(error @ Error::Database(_)) => {
                tx.rollback().await?;
                tracing::warn!(
                    table,
                    error = %error,
                    "parameters of the table could not be set; the next start tries again"
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The library's lock works on PostgreSQL only. On SQLite two processes that start at once may
/// collide: one of them fails and leaves nothing behind, and finds the work of the other done
/// when it looks again.
async fn apply_sqlite(
    db: &Db,
    write: &SqlitePool,
    migrations: &[Source],
) -> Result<(), MigrateError> {
    let mut last = Ok(());
    for _ in 0..20 {
        if compare_with(db, migrations)
            .await
            .is_ok_and(|compared| compared.is_complete())
        {
            return Ok(());
        }
        let mut writer = acquire_sqlite(write).await?;
        last = migrator(migrations, true).run(&mut *writer).await;
        give_back(Some(writer)).await;
        if last.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    last
}

/// A migration of this binary, and whether the database has it.
#[derive(Clone, Debug)]
pub struct Applied {
    pub version: i64,
    pub name: &'static str,
    pub applied: bool,
    pub how: How,
}

/// How a migration is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Transaction,
    /// On PostgreSQL an index that is made concurrently; on SQLite as any other.
    BesideWriters,
}

/// Every migration that this binary knows, in sequence.
pub async fn list(db: &Db) -> Result<Vec<Applied>, MigrateError> {
    let there = applied(db).await?;
    let mut all = all_missing();
    for it in &mut all {
        it.applied = there.iter().any(|done| done.version == it.version);
    }
    Ok(all)
}

/// Every migration that this binary knows, as for a database that has none.
pub fn all_missing() -> Vec<Applied> {
    let missing = |&(version, name, sql): &Source| Applied {
        version,
        name,
        applied: false,
        how: match concurrent_index(sql) {
            Some(_) => How::BesideWriters,
            None => How::Transaction,
        },
    };
    ALL.iter().map(missing).collect()
}

/// How the migrations of a database compare with those of this binary.
#[derive(Debug, Default)]
pub struct Compared {
    pub applied: usize,
    /// Migrations of this binary that the database lacks.
    pub missing: Vec<i64>,
    /// Migrations of the database that this binary does not know.
    pub newer: Vec<i64>,
    /// Migrations whose content differs in the database.
    pub changed: Vec<i64>,
}

impl Compared {
    /// True when there is nothing to apply, and nothing that differs.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.changed.is_empty()
    }

    /// True when the database was made before the first release, so that its first migration
    /// differs from ours.
    pub fn is_unreleased(&self) -> bool {
        self.changed.contains(&FIRST)
    }

    /// Why this version cannot work with the database, and what to do about it. None when it can.
    /// Migrations of a newer version do not prevent it.
    pub fn lacks(&self) -> Option<String> {
        let list = |versions: &[i64]| {
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            versions.join(", ")
        };
        if self.is_unreleased() {
            return Some(UNRELEASED.to_owned());
        }
        if !self.changed.is_empty() {
            return Some(format!(
                "the database has migrations {} otherwise than this version; use the version of \
                 waybill that made it, or another DATABASE_URL",
                list(&self.changed)
            ));
        }
        if self.missing.is_empty() {
            return None;
        }
        if self.applied == 0 {
            return Some(
                "the database is empty; start `waybill`, or run `waybill migrate` first, or check \
                 DATABASE_URL"
                    .to_owned(),
            );
        }
        Some(format!(
            "the database lacks migrations {} of this version; a service of this version applies \
             them when it starts, and so does `waybill migrate`. While services of the version \
             before run, use its waybill",
            list(&self.missing)
        ))
    }
}

/// Compares the migrations without writing anything. A database without a table of migrations
/// counts as one that has none.
pub async fn compare(db: &Db) -> Result<Compared, MigrateError> {
    compare_with(db, ALL).await
}

/// The migrations that the database has. One without their table has none.
async fn applied(db: &Db) -> Result<Vec<AppliedMigration>, Error> {
    let listed = db
        .query("select version, checksum from _sqlx_migrations order by version")
        .fetch_all()
        .await;
    let listed = match listed {
        Ok(listed) => listed,
        Err(Error::Database(error)) if is_no_such_table(&*error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let applied = |row: &Row| {
        Ok(AppliedMigration {
            version: row.get("version")?,
            checksum: Cow::Owned(row.get("checksum")?),
        })
    };
    listed.iter().map(applied).collect()
}

fn is_no_such_table(error: &dyn DatabaseError) -> bool {
    const UNDEFINED_TABLE: &str = "42P01";
    error.code().as_deref() == Some(UNDEFINED_TABLE) || error.message().contains("no such table")
}

async fn compare_with(db: &Db, migrations: &[Source]) -> Result<Compared, MigrateError> {
    let listed = applied(db).await?;
    let ours = migrator(migrations, false);
    let mut compared = Compared::default();
    for migration in ours.iter() {
        match listed.iter().find(|it| it.version == migration.version) {
            None => compared.missing.push(migration.version),
            Some(it) if it.checksum != migration.checksum => {
                compared.changed.push(migration.version);
            }
            Some(_) => compared.applied += 1,
        }
    }
    let is_ours = |version| ours.iter().any(|migration| migration.version == version);
    let newer = listed.iter().map(|it| it.version);
    compared.newer = newer.filter(|version| !is_ours(*version)).collect();
    Ok(compared)
}

/// A database that already has migrations of a newer version is used as it is. During a rolling
/// restart both versions run, so every migration must leave the older version working.
///
/// A migration has the same checksum on both databases.
fn migrator(migrations: &[Source], is_sqlite: bool) -> Migrator {
    let migration = |&(version, name, sql): &Source| {
        let is_concurrent = concurrent_index(sql).is_some();
        let kind = MigrationType::Simple;
        let mut migration = Migration::new(
            version,
            Cow::Borrowed(name),
            kind,
            sql.into_sql_str(),
            is_concurrent,
        );
        if is_sqlite {
            let sql = sql.replacen(CONCURRENTLY, "create index ", 1);
            let lines = sql.lines().filter(|line| !line.starts_with(SEQUENCE));
            let sql = lines.collect::<Vec<_>>().join("\n");
            migration.sql = AssertSqlSafe(sql).into_sql_str();
            migration.no_tx = false;
        }
        migration
    };
    let mut migrator = Migrator::with_migrations(migrations.iter().map(migration).collect());
    migrator.set_ignore_missing(true);
    migrator
}
