//! How far events may be read.
//!
//! Readers follow events by their positions. An event gets its position when it is written, while the row of its object
//! is locked, so the positions of one object's events sort as these happened. Between objects an event can become
//! visible after a later one, because its transaction takes longer; whoever had read the later one and remembered its
//! position would never see it. So readers go no further than the head, before which every position is visible or will
//! never be used: its transaction was rolled back.
//!
//! On PostgreSQL a transaction that writes events holds a mark from before it is given their positions until it
//! has ended: the last position of others at that moment (`sql::positions`). The head is the last position that was given, or
//! the first mark, if there is one. It is found with two statements, of which the second one must begin when the first
//! one has ended, and events are read with another one after these. Then let the transaction of a position up to the
//! head be under way at the second statement: it took its mark, which is below that position, before the position was
//! given, and so before the first statement; the second one has seen the mark, and the head is below the position. A
//! transaction that has ended is visible to every statement that begins after its locks are gone.
//!
//! So a transaction that lasts long holds readers back only if it has written events, and these are the last that a
//! transaction of ours writes. The server ends one that does nothing for two minutes.
//!
//! SQLite has one writer: there the head is the last position that is visible.

use crate::sql::{Db, Result};

/// The head; 0 before the first event.
pub async fn newest(db: &Db) -> Result<i64> {
    newest_after(db, 0).await
}

/// The head for somebody who knows of an earlier one: it is the same or a later one. It is an earlier one only after the
/// server was replaced by one that lacks what the former one had committed last.
pub async fn newest_after(db: &Db, known: i64) -> Result<i64> {
    let given = db.last_given().await?;
    if given == known {
        return Ok(known);
    }
    let mark = db.first_mark(given).await?;
    let head = mark.map_or(given, |mark| mark.min(given));
    // A mark that is taken after an earlier look may be below the head of that look. That one holds all the same.
    Ok(if given > known { head.max(known) } else { head })
}

/// Has the next position come after all that are known. They do unless the database was made of another one without
/// the sequence of that one: by a copy, by a replication of rows, by hand.
pub async fn raise(db: &Db) -> Result<()> {
    let row = db.query(KNOWN).fetch_one().await?;
    let known: Option<i64> = row.get("position")?;
    let Some(known) = known else { return Ok(()) };
    if known <= db.last_given().await? {
        return Ok(());
    }
    let mut tx = db.begin().await?;
    tx.lock(ONE_AT_A_TIME).await?;
    tx.give_after(known).await?;
    tx.commit().await
}

/// Of two who raise it at once the second one waits, so that none lowers what the other has raised. The number has no
/// meaning.
const ONE_AT_A_TIME: i64 = 0x5761_7962_696c_6c03;

/// The greatest position that is stored anywhere.
const KNOWN: &str = "select max(position) as position from (
        select position from (select position from events order by position desc limit 1) as last
        union all select position from event_head
        union all select position from endpoints
    ) as known";
