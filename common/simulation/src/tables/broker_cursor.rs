//! `store::broker_cursor`.

use crate::database::{Database, Result, TxId, lock};
use crate::rows::Head;

/// `broker_cursor::position`.
pub fn position(db: &Database) -> Result<i64> {
    db.reading()?;
    Ok(db.broker_cursor.committed(0).map_or(0, |row| row.position))
}

/// `broker_cursor::advance`, in a transaction.
pub fn advance(db: &mut Database, tx: TxId, position: i64) -> Result<()> {
    db.statement(tx)?;
    lock!(db, broker_cursor, tx, 0);
    let last = db.broker_cursor.seen(tx, 0).map_or(0, |row| row.position);
    if last < position {
        db.broker_cursor.write(tx, 0, Some(Head { position }));
    }
    Ok(())
}

/// `broker_cursor::follow`, by whoever has locked the head of the events.
pub fn follow(db: &mut Database, tx: TxId, from: i64, to: i64) -> Result<()> {
    lock!(db, broker_cursor, tx, 0);
    let last = db.broker_cursor.seen(tx, 0).map_or(0, |row| row.position);
    if last == from {
        db.broker_cursor.write(tx, 0, Some(Head { position: to }));
    }
    Ok(())
}
