//! The `broker_cursor` table: up to which position (`event_head`) the broker has confirmed all events. The publisher moves it,
//! after the broker has confirmed, so an event whose confirmation was lost is sent again.
//!
//! Without a broker the cursor is [`NO_BROKER`]. So whoever configures a broker later is not sent what happened before.

use crate::sql::{Db, Result};

/// The cursor where there is no broker: all events count as sent.
pub const NO_BROKER: i64 = i64::MAX;

/// The cursor; 0 before it was moved, and [`NO_BROKER`].
pub async fn position(db: &Db) -> Result<i64> {
    let position = db
        .query("select position from broker_cursor where id = 1")
        .first(|row| row.get("position"));
    Ok(position.await?.unwrap_or(0))
}

/// Records that the broker has all events up to this position. The cursor is never moved back.
pub async fn advance(db: &Db, position: i64) -> Result<()> {
    db.transact(
        "insert into broker_cursor (id, position) values (1, $1)
         on conflict (id) do update set position = excluded.position
         where broker_cursor.position < excluded.position",
    )
    .bind(position)
    .done()
    .await
}

/// Records that there is a broker after all, which has the events up to this position.
pub async fn begin(db: &Db, has: i64) -> Result<()> {
    db.transact("update broker_cursor set position = $1 where id = 1 and position = $2")
        .bind(has)
        .bind(NO_BROKER)
        .done()
        .await
}

/// Records that there is no broker, unless one that was there before did not get all events: it gets these when it is
/// there again.
pub async fn end(db: &Db) -> Result<()> {
    if position(db).await? == NO_BROKER {
        return Ok(());
    }
    db.transact(
        "insert into broker_cursor (id, position)
         select 1, cast($1 as bigint)
         where not exists (select 1 from events
                           where position > coalesce((select position from broker_cursor where id = 1), 0))
         on conflict (id) do update set position = excluded.position",
    )
    .bind(NO_BROKER)
    .done()
    .await
}
