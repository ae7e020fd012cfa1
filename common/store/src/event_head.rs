//! The `event_head` table, and the positions of events that it counts.
//!
//! Readers follow events by position, because ids cannot be followed: an id is made before its
//! transaction commits, so an event can become visible after a later id was read, and a reader that
//! remembers the last id would never see it. A position is given after the commit, to events that
//! are visible, in a transaction of its own that holds the one row of this table. So positions
//! become visible in their sequence: whoever has read up to a position has read all
//! before it. Nobody who writes events waits for this row.
//!
//! Positions of one object's events sort as its events happened: an event is visible only when all
//! earlier ones of its object are, and those that are visible get their positions by id.

use domain::trace::{self, TraceContext};

use crate::broker_cursor;
use crate::sql::{Db, Result, Row};
use config::Outlet;

/// An event that got its position.
#[derive(Debug)]
pub struct Placed {
    pub kind: String,
    /// The place in a trace from which the event follows.
    pub traceparent: Option<TraceContext>,
}

/// Gives positions to at most `limit` events that are committed and have none, and returns these.
pub async fn place(db: &Db, limit: i64, outlet: Outlet) -> Result<Vec<Placed>> {
    // Most looks find nothing, and take no lock.
    let waiting = db.query("select id from events where position is null limit 1");
    if waiting.fetch_optional().await?.is_none() {
        return Ok(Vec::new());
    }
    let mut tx = db.begin().await?;
    tx.query("insert into event_head (id, position) values (1, 0) on conflict (id) do nothing")
        .execute()
        .await?;
    let head = tx
        .query("select position from event_head where id = 1 for update")
        .fetch_one()
        .await?;
    let last: i64 = head.get("position")?;
    let placed = tx
        .query(
            "update events set position = $1 + waiting.nth
             from (
                 select id, row_number() over (order by id) as nth from events
                 where position is null
                 order by id
                 limit $2
             ) as waiting
             where events.id = waiting.id
             returning position, kind, traceparent",
        )
        .bind(last)
        .bind(limit)
        .fetch_all()
        .await?;
    // An event may have been deleted at the same moment, so the number of rows does not say it.
    let mut newest = None;
    for row in &placed {
        newest = newest.max(Some(row.get::<i64>("position")?));
    }
    let Some(newest) = newest else {
        // Another process was faster.
        tx.rollback().await?;
        return Ok(Vec::new());
    };
    tx.query("update event_head set position = $1 where id = 1")
        .bind(newest)
        .execute()
        .await?;
    if outlet == Outlet::Database {
        broker_cursor::follow(&mut tx, last, newest).await?;
    }
    tx.commit().await?;
    let read = |row: &Row| {
        Ok(Placed {
            kind: row.get("kind")?,
            traceparent: trace::stored(row.get("traceparent")?),
        })
    };
    placed.iter().map(read).collect()
}

/// The last position that was given; 0 when none was.
pub async fn newest(db: &Db) -> Result<i64> {
    let row = db
        .query("select position from event_head where id = 1")
        .fetch_optional()
        .await?;
    row.map_or(Ok(0), |row| row.get("position"))
}
