//! What is changed in a SQLite file while it is copied: triggers write the key of each row that anybody
//! inserts, changes or deletes into the table `copy_changes`. When all is copied, other triggers refuse
//! every change, so that nothing is taken any more that would not be in the copy.

use std::fmt::Write as _;
use std::sync::LazyLock;

use uuid::Uuid;

use super::tables::{TABLES, Table, Value, all, values};
use crate::sql::{Db, MOVED, Result, Row, Tx};

/// The tables for the copy alone. The row of `copy_state` names this copy, so that one that was begun
/// again does not go on where another one has ended.
const TABLES_OF_COPY: [&str; 3] = [
    "create table copy_changes (
         change integer primary key autoincrement, table_name text not null,
         k1, k2, k3, k4, k5, k6, k7, k8
     )",
    "create index copy_changes_table on copy_changes (table_name, change)",
    "create table copy_state (id uuid primary key)",
];
const LONGEST_KEY: usize = 8;

static LOG: LazyLock<Vec<String>> = LazyLock::new(|| TABLES.iter().flat_map(log).collect());
static FORGET_LOG: LazyLock<Vec<String>> = LazyLock::new(|| {
    let names = TABLES.iter().map(|table| table.name);
    let triggers = names.flat_map(|name| ["insert", "update", "delete"].map(|on| (on, name)));
    let mut drops: Vec<String> = triggers
        .map(|(on, name)| format!("drop trigger if exists copy_{on}_{name}"))
        .collect();
    drops.extend(["copy_changes", "copy_state"].map(|name| format!("drop table if exists {name}")));
    drops
});
static REFUSE: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tables = all().into_iter().map(|table| table.name);
    let triggers = tables.flat_map(|name| ["insert", "update", "delete"].map(|on| (on, name)));
    let refuse = triggers.map(|(on, name)| {
        format!(
            "create trigger moved_{on}_{name} before {on} on {name}
             begin select raise(abort, '{MOVED}, and nothing is written into it'); end"
        )
    });
    refuse.collect()
});
static ALLOW: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tables = all().into_iter().map(|table| table.name);
    let triggers = tables.flat_map(|name| ["insert", "update", "delete"].map(|on| (on, name)));
    let mut drops: Vec<String> = triggers
        .map(|(on, name)| format!("drop trigger if exists moved_{on}_{name}"))
        .collect();
    drops.push("drop table if exists moved_to".to_owned());
    drops
});

/// The triggers of a table.
fn log(table: &Table) -> [String; 3] {
    assert!(table.key.len() <= LONGEST_KEY, "{}", table.name);
    let name = table.name;
    let into = (1..=table.key.len()).fold("table_name".to_owned(), |mut text, nth| {
        let _ = write!(text, ", k{nth}");
        text
    });
    let key = |of: &str| {
        let names = table.key.iter().map(|it| format!("{of}.{}", it.name));
        names.collect::<Vec<_>>().join(", ")
    };
    let (old, new) = (key("old"), key("new"));
    let note = |key: &str, rest: &str| {
        format!("insert into copy_changes ({into}) select '{name}', {key}{rest};")
    };
    let of_new = note(&new, "");
    let moved = note(&old, &format!(" where ({old}) is not ({new})"));
    let moved = if table.key.len() == 1 {
        note(&old, &format!(" where {old} is not {new}"))
    } else {
        moved
    };
    let trigger = |on: &str, body: &str| {
        format!("create trigger copy_{on}_{name} after {on} on {name} begin {body} end")
    };
    [
        trigger("insert", &of_new),
        trigger("update", &format!("{of_new} {moved}")),
        trigger("delete", &note(&old, "")),
    ]
}

async fn run(tx: &mut Tx, statements: &'static [String]) -> Result<()> {
    for statement in statements {
        tx.query(statement).execute().await?;
    }
    Ok(())
}

/// Whether a SQLite file has this table.
async fn has(tx: &mut Tx, table: &str) -> Result<bool> {
    let ask = "select 1 as n from sqlite_schema where type = 'table' and name = $1";
    Ok(tx.query(ask).bind(table).fetch_optional().await?.is_some())
}

/// Begins to note changes, or goes on. Returns which copy this is, and the number of the newest change. None
/// when the file was moved meanwhile.
pub async fn begin(from: &Db) -> Result<Option<(Uuid, i64)>> {
    let mut tx = from.begin().await?;
    if has(&mut tx, "moved_to").await? {
        tx.rollback().await?;
        return Ok(None);
    }
    if !has(&mut tx, "copy_state").await? {
        for statement in TABLES_OF_COPY {
            tx.query(statement).execute().await?;
        }
        run(&mut tx, &LOG).await?;
        let state = "insert into copy_state (id) values ($1)";
        tx.query(state).bind(Uuid::now_v7()).execute().await?;
    }
    let row = tx.query("select id from copy_state").fetch_one().await?;
    let id = row.get("id")?;
    let newest = last(&mut tx).await?;
    tx.commit().await?;
    Ok(Some((id, newest)))
}

/// The number of the newest change.
pub async fn last(source: &mut Tx) -> Result<i64> {
    let ask = "select coalesce(max(change), 0) as n from copy_changes";
    source.query(ask).fetch_one().await?.get("n")
}

/// The tables in which something was changed.
pub async fn tables(source: &mut Tx, after: i64, until: i64) -> Result<Vec<&'static Table>> {
    let ask = "select distinct table_name from copy_changes where change > $1 and change <= $2";
    let rows = source
        .query(ask)
        .bind(after)
        .bind(until)
        .fetch_all()
        .await?;
    let names: Vec<String> = rows
        .iter()
        .map(|row| row.get("table_name"))
        .collect::<Result<_>>()?;
    let is_changed = |table: &&Table| names.iter().any(|name| name == table.name);
    Ok(TABLES.iter().filter(is_changed).collect())
}

/// The rows of a table that were changed after one change, until another one.
pub async fn rows(
    source: &mut Tx,
    table: &'static Table,
    after: i64,
    until: i64,
) -> Result<Vec<Row>> {
    let query = source.query(&table.changed).bind(table.name);
    query.bind(after).bind(until).fetch_all().await
}

/// The keys of the rows of a table that were deleted.
pub async fn gone(
    source: &mut Tx,
    table: &'static Table,
    after: i64,
    until: i64,
) -> Result<Vec<Vec<Value>>> {
    let query = source.query(&table.gone).bind(table.name);
    let rows = query.bind(after).bind(until).fetch_all().await?;
    rows.iter().map(|row| values(&table.key, row)).collect()
}

/// From the commit on nothing is written into this file any more, and nothing is noted.
pub async fn refuse(tx: &mut Tx, copy: Uuid, place: &str) -> Result<()> {
    run(tx, &FORGET_LOG).await?;
    tx.query("create table moved_to (copy_id uuid primary key, place text not null)")
        .execute()
        .await?;
    let moved = "insert into moved_to (copy_id, place) values ($1, $2)";
    tx.query(moved).bind(copy).bind(place).execute().await?;
    run(tx, &REFUSE).await
}

/// Which copy has taken the place of this file, and where it is.
pub async fn moved(from: &Db) -> Result<Option<(Uuid, String)>> {
    let mut tx = from.snapshot().await?;
    let moved = moved_in(&mut tx).await?;
    tx.rollback().await?;
    Ok(moved)
}

async fn moved_in(tx: &mut Tx) -> Result<Option<(Uuid, String)>> {
    if !has(tx, "moved_to").await? {
        return Ok(None);
    }
    let row = tx.query("select copy_id, place from moved_to").fetch_one();
    let row = row.await?;
    Ok(Some((row.get("copy_id")?, row.get("place")?)))
}

/// Forgets the copy, and lets the file be written again. Returns whether there was one.
pub async fn abandon(from: &Db) -> Result<bool> {
    let mut tx = from.begin().await?;
    let was = has(&mut tx, "copy_state").await? || has(&mut tx, "moved_to").await?;
    run(&mut tx, &FORGET_LOG).await?;
    run(&mut tx, &ALLOW).await?;
    tx.commit().await?;
    Ok(was)
}
