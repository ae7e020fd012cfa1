//! The `bulk_operations` table: an operator has all dead jobs of a filter requeued
//! or discarded. An operation is made of batches. Each batch moves the cursor and the counts in its own
//! transaction, so that another process goes on where one that died had come.

use serde::Serialize;
use serde_json::json;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::audit::By;
use crate::jobs::ended::{Cursor, Filter};
use crate::jobs::operate::Action;
use crate::sql::{Db, FromRow, Result, Row, Tx};
use domain::job::Queue;
use domain::names::{Unknown, unknown};
use domain::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unknown::<State>)]
pub enum State {
    /// It was confirmed, and begins at its time.
    Waiting,
    Running,
    /// An operator stopped it. It may go on.
    Stopped,
    /// An operator took it back before anything was done.
    Undone,
    Done,
}

#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Operation {
    pub id: Uuid,
    #[serde(serialize_with = "crate::as_text")]
    pub action: Action,
    /// Which dead jobs it concerns. An empty text means any.
    pub queue: String,
    pub kind: String,
    pub shop: String,
    pub connection: String,
    pub error: String,
    /// Only jobs that died at this time or before, so no job is added while it runs.
    pub died_until: Timestamp,
    /// How many jobs a second, at most.
    pub rate: i64,
    /// Who confirmed it, as the audit has it.
    pub actor: String,
    #[serde(serialize_with = "crate::as_text")]
    pub state: State,
    /// How many jobs there were when it was confirmed; null until they are counted.
    pub found: Option<i64>,
    pub done: i64,
    /// How many jobs somebody else changed first.
    pub passed_over: i64,
    pub refused: i64,
    #[serde(skip)]
    #[with(cursor)]
    pub cursor: Option<Cursor>,
    pub created_at: Timestamp,
    pub begins_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub last_error: Option<String>,
}

impl Operation {
    pub fn filter(&self) -> Filter {
        Filter {
            queue: self.queue.parse().ok(),
            kind: self.kind.clone(),
            shop: self.shop.clone(),
            connection: self.connection.clone(),
            error: self.error.clone(),
            until: Timestamp(self.died_until.0.saturating_add(1)),
            ..Filter::default()
        }
    }

    /// Nothing was done yet.
    pub fn is_untouched(&self) -> bool {
        self.cursor.is_none()
    }
}

/// An operation that somebody confirms.
pub struct NewOperation<'a> {
    pub id: Uuid,
    pub action: Action,
    pub filter: &'a Filter,
    pub died_until: Timestamp,
    pub rate: i64,
    /// How many jobs there are; None when that was not counted to the end.
    pub found: Option<i64>,
    pub begins_at: Timestamp,
}

/// Confirms an operation, with its entry in the audit. False when one with this id was confirmed before.
pub async fn confirm(db: &Db, by: By<'_>, new: NewOperation<'_>) -> Result<bool> {
    let mut tx = db.begin().await?;
    let filter = new.filter;
    let inserted = tx
        .query(
            "insert into bulk_operations
                 (id, action, queue, kind, shop, connection, error, died_until, rate, actor, state, found,
                  done, passed_over, refused, created_at, begins_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'waiting', $11, 0, 0, 0, $12, $13)
             on conflict (id) do nothing",
        )
        .bind(new.id)
        .bind(new.action.into_str())
        .bind(filter.queue.map_or("", |it| it.into_str()))
        .bind(filter.kind.as_str())
        .bind(filter.shop.as_str())
        .bind(filter.connection.as_str())
        .bind(filter.error.as_str())
        .bind(new.died_until.0)
        .bind(new.rate)
        .bind(by.actor)
        .bind(new.found)
        .bind(by.now.0)
        .bind(new.begins_at.0)
        .execute()
        .await?;
    if inserted != 1 {
        tx.rollback().await?;
        return Ok(false);
    }
    // The error is a text that somebody typed, so the audit says only that there is one.
    let details = json!({
        "action": new.action.into_str(),
        "queue": filter.queue.map(|it| it.into_str()),
        "kind": filter.kind,
        "shop": filter.shop,
        "connection": filter.connection,
        "by_error": !filter.error.is_empty(),
        "died_until": new.died_until,
        "rate": new.rate,
        "found": new.found,
    });
    by.note(&mut tx, "operation.confirmed", new.id, details)
        .await?;
    tx.commit().await?;
    Ok(true)
}

/// What an operator does to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Stop,
    Resume,
    /// Only as long as nothing was done.
    Undo,
}

/// Changes an operation, with its entry in the audit. False when it is in no state in which that is possible.
pub async fn change(db: &Db, by: By<'_>, id: Uuid, change: Change) -> Result<bool> {
    let mut tx = db.begin().await?;
    let changed = match change {
        Change::Stop => tx.query(
            "update bulk_operations set state = 'stopped'
             where id = $1 and (state = 'running' or (state = 'waiting' and begins_at <= $2))",
        ),
        Change::Resume => tx.query(
            "update bulk_operations set state = 'running'
             where id = $1 and state = 'stopped' and begins_at <= $2",
        ),
        Change::Undo => tx.query(
            "update bulk_operations set state = 'undone', finished_at = $2
             where id = $1 and state in ('waiting', 'stopped') and cursor_job is null",
        ),
    };
    let changed = changed.bind(id).bind(by.now.0).execute().await?;
    if changed != 1 {
        tx.rollback().await?;
        return Ok(false);
    }
    let action = match change {
        Change::Stop => "operation.stopped",
        Change::Resume => "operation.resumed",
        Change::Undo => "operation.undone",
    };
    by.note(&mut tx, action, id, json!({})).await?;
    tx.commit().await?;
    Ok(true)
}

/// A statement that reads operations with what an [`Operation`] has.
macro_rules! operations {
    ($which:literal) => {
        concat!(
            "select id, action, queue, kind, shop, connection, error, died_until, rate, actor, state, found,
                    done, passed_over, refused, cursor_queue, cursor_died_at, cursor_job, created_at,
                    begins_at, finished_at, last_error
             from bulk_operations ",
            $which
        )
    };
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<Operation>> {
    let row = db.query(operations!("where id = $1")).bind(id);
    row.first(Operation::from_row).await
}

/// The newest operations, the newest first.
pub async fn list(db: &Db, limit: i64) -> Result<Vec<Operation>> {
    db.query(operations!("order by created_at desc, id desc limit $1"))
        .bind(limit)
        .all(Operation::from_row)
        .await
}

/// The operation of which a batch is to be done now.
pub async fn due(db: &Db, now: Timestamp) -> Result<Option<Operation>> {
    db.query(operations!(
        "where state in ('waiting', 'running') and begins_at <= $1
         order by begins_at, id limit 1"
    ))
    .bind(now.0)
    .first(Operation::from_row)
    .await
}

/// Locks an operation for a batch. False when it has changed since it was read: somebody stopped it, or
/// another process has done the batch.
pub async fn lock(tx: &mut Tx, seen: &Operation) -> Result<bool> {
    let found = tx
        .query("select state, cursor_job from bulk_operations where id = $1 for update")
        .bind(seen.id)
        .first(|row| Ok((row.get("state")?, row.get("cursor_job")?)));
    Ok(found.await? == Some((seen.state, seen.cursor.map(|cursor| cursor.job))))
}

/// Stores where an operation has come, what was counted, and its state.
pub async fn save(tx: &mut Tx, operation: &Operation) -> Result<()> {
    let cursor = operation.cursor;
    tx.query(
        "update bulk_operations
         set state = $1, found = $2, done = $3, passed_over = $4, refused = $5, cursor_queue = $6,
             cursor_died_at = $7, cursor_job = $8, finished_at = $9, last_error = null
         where id = $10",
    )
    .bind(operation.state.into_str())
    .bind(operation.found)
    .bind(operation.done)
    .bind(operation.passed_over)
    .bind(operation.refused)
    .bind(cursor.map(|it| it.queue.into_str()))
    .bind(cursor.map(|it| it.died_at.0))
    .bind(cursor.map(|it| it.job))
    .bind(operation.finished_at.map(|at| at.0))
    .bind(operation.id)
    .done()
    .await
}

/// Deletes the operations on the jobs of one shop alone, which is erased. Its jobs are erased too, and the
/// audit keeps who confirmed what.
pub async fn forget_shop(tx: &mut Tx, shop: &str, until: Timestamp) -> Result<u64> {
    tx.query("delete from bulk_operations where shop = $1 and created_at <= $2")
        .bind(shop)
        .bind(until.0)
        .execute()
        .await
}

/// Notes why a batch was not done. It is tried again.
pub async fn note_error(db: &Db, id: Uuid, error: &str) -> Result<()> {
    db.transact("update bulk_operations set last_error = $1 where id = $2")
        .bind(error)
        .bind(id)
        .done()
        .await
}

fn cursor(row: &Row) -> Result<Option<Cursor>> {
    let queue: Option<Queue> = row.get("cursor_queue")?;
    let read = |queue| {
        Ok(Cursor {
            queue,
            died_at: row.get("cursor_died_at")?,
            job: row.get("cursor_job")?,
        })
    };
    queue.map(read).transpose()
}
