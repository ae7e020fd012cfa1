//! The `broker_cursor` table: up to which position (`event_head`) the broker has confirmed all events. The publisher moves it,
//! after the broker has confirmed, so an event whose confirmation was lost is sent again.
//!
//! Without a broker the cursor follows the positions as they are given ([`follow`]). So whoever configures a broker later is
//! not sent what happened before.

use crate::sql::{Db, Result, Tx};

/// The cursor; 0 before it was moved.
pub async fn position(db: &Db) -> Result<i64> {
    let row = db
        .query("select position from broker_cursor where id = 1")
        .fetch_optional()
        .await?;
    row.map_or(Ok(0), |row| row.get("position"))
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

/// Moves the cursor from one position to the next in the transaction that gives these positions, where there is no broker.
/// A cursor that is further back stays: a broker that was configured before did not get all events.
pub(crate) async fn follow(tx: &mut Tx, from: i64, to: i64) -> Result<()> {
    tx.query(
        "insert into broker_cursor (id, position)
         select 1, cast($2 as bigint)
         where $1 = coalesce((select position from broker_cursor where id = 1), 0)
         on conflict (id) do update set position = excluded.position",
    )
    .bind(from)
    .bind(to)
    .done()
    .await
}
