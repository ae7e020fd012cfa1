//! A copy of a SQLite database, made while others use it.

use std::path::Path;
use std::str::FromStr as _;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use super::{Error, Result};

/// Writes everything that is committed in the database of this URL into `file`, which must be missing or
/// empty. The copy is the database of one moment. Readers and writers go on meanwhile, and the log grows
/// by what they write. Of space that rows have left nothing is copied.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub async fn copy_sqlite(url: &str, file: &Path) -> Result<()> {
    let mut connection = open(SqliteConnectOptions::from_str(url)?).await?;
    sqlx::query("vacuum into $1")
        .bind(path(file)?)
        .execute(&mut connection)
        .await?;
    connection.close().await
}

/// What is wrong in the structure of a SQLite file, or None. It reads the whole file, and writes nothing.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub async fn check_sqlite(file: &Path) -> Result<Option<String>> {
    let options = SqliteConnectOptions::new().filename(file).immutable(true);
    let mut connection = open(options).await?;
    let checked = sqlx::raw_sql("pragma integrity_check(1)").fetch_one(&mut connection);
    let found: String = checked.await?.try_get(0)?;
    connection.close().await?;
    Ok((found != "ok").then_some(found))
}

async fn open(options: SqliteConnectOptions) -> Result<SqliteConnection> {
    options.create_if_missing(false).connect().await
}

fn path(file: &Path) -> Result<&str> {
    let unreadable = || Error::Configuration("the path of a backup is not UTF-8".into());
    file.to_str().ok_or_else(unreadable)
}
