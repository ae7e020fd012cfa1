//! The schema. It is built into the binary and applied by services when they start and by
//! `waybill migrate`, by one process at a time. Other commands only compare it.
//!
//! A migration is portable SQL and is never changed after its release: its checksum is stored in
//! the database and compared.

pub mod copy;

use std::borrow::Cow;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::erasure::ERASED;
use crate::sql::{Db, Error};

/// The table in which the database records its migrations.
const TABLE: &str = "_sqlx_migrations";

/// The migration that makes the schema of the first release.
const FIRST: i64 = 1;

const ALL: &[(i64, &str, &str)] = &[(
    FIRST,
    "initial",
    include_str!("../../../migrations/0001_initial.sql"),
)];

/// The message for a database that was made before the first release. Its migrations were other
/// files than those of `ALL`, so it cannot be brought up to date.
const UNRELEASED: &str = "the database was made by a version of Waybill from before its first \
    release, and no version can bring it up to date; set DATABASE_URL to a new database (for \
    SQLite a file that does not exist yet), or remove this one if nobody needs what is in it";

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error("{UNRELEASED}")]
    Unreleased,
    #[error(transparent)]
    Failed(#[from] MigrateError),
}

/// Applies the migrations that the database lacks. Several processes may call this at once.
pub async fn apply(db: &Db) -> Result<(), MigrationError> {
    if compare(db).await?.is_unreleased() {
        return Err(MigrationError::Unreleased);
    }
    match db {
        Db::Postgres(pool) => {
            migrator().run(pool).await?;
            keep_no_samples(pool).await.map_err(MigrateError::from)?;
        }
        Db::Sqlite { write, .. } => apply_sqlite(db, write).await?,
    }
    Ok(())
}

/// Keeps PostgreSQL from taking samples of personal columns for its planner: they would stand in its
/// catalog, in clear, when their people are erased. Every statement has its index without them.
#[expect(
    clippy::disallowed_methods,
    reason = "no table of ours, and no other database's"
)]
async fn keep_no_samples(pool: &PgPool) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    for (table, columns) in ERASED {
        let sampled: Vec<String> = sqlx::query_scalar(
            "select cast(attname as text) from pg_attribute
             where attrelid = to_regclass($1) and attname = any($2)
               and coalesce(attstattarget, -1) <> 0",
        )
        .bind(table)
        .bind(*columns)
        .fetch_all(&mut *connection)
        .await?;
        for column in sampled {
            let alter = format!("alter table {table} alter column {column} set statistics 0");
            sqlx::query(AssertSqlSafe(alter))
                .execute(&mut *connection)
                .await?;
        }
    }
    Ok(())
}

/// The library's lock works on PostgreSQL only. On SQLite two processes that start at once may
/// collide: one of them fails and leaves nothing behind, and finds the work of the other done
/// when it looks again.
async fn apply_sqlite(db: &Db, write: &SqlitePool) -> Result<(), MigrateError> {
    let mut last = Ok(());
    for _ in 0..20 {
        if list(db)
            .await
            .is_ok_and(|all| all.iter().all(|one| one.applied))
        {
            return Ok(());
        }
        last = migrator().run(write).await;
        if last.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    last
}

/// A migration of this binary, and whether the database has it.
pub struct Applied {
    pub version: i64,
    pub name: &'static str,
    pub applied: bool,
}

/// Every migration that this binary knows, in sequence.
pub async fn list(db: &Db) -> Result<Vec<Applied>, MigrateError> {
    let applied = match db {
        Db::Postgres(pool) => {
            let mut connection = pool.acquire().await?;
            connection.ensure_migrations_table(TABLE).await?;
            connection.list_applied_migrations(TABLE).await?
        }
        Db::Sqlite { write, .. } => {
            let mut connection = write.acquire().await?;
            connection.ensure_migrations_table(TABLE).await?;
            connection.list_applied_migrations(TABLE).await?
        }
    };
    Ok(ALL
        .iter()
        .map(|&(version, name, _)| Applied {
            version,
            name,
            applied: applied.iter().any(|done| done.version == version),
        })
        .collect())
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
    let listed = match db {
        Db::Postgres(pool) => pool.acquire().await?.list_applied_migrations(TABLE).await,
        Db::Sqlite { read, .. } => read.acquire().await?.list_applied_migrations(TABLE).await,
    };
    let listed = match listed {
        Ok(listed) => listed,
        Err(MigrateError::Execute(Error::Database(_))) => Vec::new(),
        Err(error) => return Err(error),
    };
    let ours = migrator();
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
fn migrator() -> Migrator {
    let mut migrator = Migrator::with_migrations(
        ALL.iter()
            .map(|&(version, name, sql)| {
                let name = Cow::Borrowed(name);
                Migration::new(
                    version,
                    name,
                    MigrationType::Simple,
                    sql.into_sql_str(),
                    false,
                )
            })
            .collect(),
    );
    migrator.set_ignore_missing(true);
    migrator
}
