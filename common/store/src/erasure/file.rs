//! Takes out of a SQLite file what was erased. `secure_delete` overwrites a row where it was deleted or
//! changed. But SQLite moves rows from page to page as it keeps its trees in balance, and a copy may stay
//! in the free space of the page that a row came from. `vacuum` writes the whole file anew, without free
//! space.
//!
//! Nobody else can write meanwhile: about half a minute for each GiB, in which providers get a 503 and
//! repeat their deliveries later. It also takes as much space again, in the folder of temporary files and
//! in the log. So a file is rewritten only if something was erased since the last time, at most once a day,
//! and when nothing has come for ten times as long as it will take, because then it is likely that nothing
//! comes meanwhile. If no such moment comes, it is done after three days all the same, and in any case
//! before the last two days of a request's deadline.
//!
//! An entry of the audit says when the file was rewritten, and which entries came before.

use std::time::Duration;

use serde_json::{Value, json};

use super::first_since;
use crate::audit::{self, By};
use crate::parsed;
use crate::sql::{Db, Result};
use domain::privacy::Keys;
use domain::time::Timestamp;

const REWRITTEN: &str = "file.rewritten";

/// Bytes that are rewritten in a second, on a slow disk.
const SPEED: u64 = 32 * 1024 * 1024;
/// Nothing has come for so many times as long as it will take, or for a minute.
const LULL: u32 = 10;
const SHORTEST_LULL: Duration = Duration::from_mins(1);
/// Between two times.
const REST: Duration = Duration::from_hours(24);
/// For how long a quiet moment is waited for.
const LONGEST_WAIT: Duration = Duration::from_hours(3 * 24);
/// Before the deadline of a request it is done all the same.
const BEFORE_DEADLINE: Duration = Duration::from_hours(2 * 24);

/// Rewrites the file if something that was erased may be left in it and this is the time for it. True
/// when it was rewritten. A server has no file of ours.
pub async fn rewrite_in_time(db: &Db, keys: &Keys, now: Timestamp) -> Result<bool> {
    let Some(bytes) = db.file_size().await? else {
        return Ok(false);
    };
    let (up_to, last_at) = last(db).await?.unwrap_or((0, Timestamp(0)));
    let Some(erased_at) = first_since(db, up_to).await? else {
        return Ok(false);
    };
    let due = due_since(db, erased_at).await?;
    let latest = erased_at.plus(LONGEST_WAIT).min(due.minus(BEFORE_DEADLINE));
    let takes = Duration::from_secs(bytes / SPEED);
    let lull = SHORTEST_LULL.max(takes * LULL);
    let is_time = now >= latest || (now >= last_at.plus(REST) && is_quiet(db, now, lull).await?);
    if is_time {
        let actor = audit::WORKER;
        rewrite(db, By { keys, actor, now }).await?;
    }
    Ok(is_time)
}

/// Rewrites the file, whatever the time. An operator can do it when nobody minds.
pub async fn rewrite(db: &Db, by: By<'_>) -> Result<()> {
    let newest = audit::newest(db, 1).await?;
    let newest = newest.first().map_or(0, |entry| entry.number);
    db.rewrite_file().await?;
    let mut tx = db.begin().await?;
    by.note(&mut tx, REWRITTEN, "", json!({"up_to": newest}))
        .await?;
    tx.commit().await
}

/// The last time that the file was rewritten: up to which entry of the audit what was erased has left it,
/// and when that was.
async fn last(db: &Db) -> Result<Option<(i64, Timestamp)>> {
    db.query(
        "select at, details from audit where action = $1
         order by number desc limit 1",
    )
    .bind(REWRITTEN)
    .first(|row| {
        let details: Value = parsed(&row.get::<String>("details")?)?;
        let up_to = details["up_to"].as_i64().unwrap_or_default();
        Ok((up_to, row.get("at")?))
    })
    .await
}

/// The earliest deadline of the erasures that were done since then.
async fn due_since(db: &Db, then: Timestamp) -> Result<Timestamp> {
    let row = db
        .query(
            "select min(due_at) as due_at from privacy_requests
             where finished_at >= $1 and topic <> 'customers/data_request'",
        )
        .bind(then.0)
        .fetch_one()
        .await?;
    let due: Option<i64> = row.get("due_at")?;
    Ok(due.map_or(Timestamp(i64::MAX), Timestamp))
}

/// Whether no job is due and none was made for so long.
async fn is_quiet(db: &Db, now: Timestamp, lull: Duration) -> Result<bool> {
    let is_busy = db
        .query(
            "select 1 as busy
             from (select created_at from deliveries order by id desc limit 1) as newest
             where created_at > $2
             union all
             select 1 as busy from jobs
             where state = 'ready' and notified_at is null and run_at >= 0 and run_at <= $1
             union all
             select 1 as busy from jobs
             where state = 'ready' and notified_at is not null and run_at <= $1
             limit 1",
        )
        .bind(now.0)
        .bind(now.minus(lull).0)
        .is_any();
    Ok(!is_busy.await?)
}
