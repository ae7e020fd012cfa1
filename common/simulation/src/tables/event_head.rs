//! `store::event_head`.

use crate::database::{Database, Result, TxId, lock};
use crate::rows::{Event, Head};
use crate::tables::broker_cursor;

/// Whether an event waits for its position: the first statement of `event_head::place`, which most looks end with.
pub fn waits(db: &Database) -> Result<bool> {
    db.reading()?;
    Ok(db.events.all().any(|(_, event)| event.position.is_none()))
}

/// `event_head::place`, in a transaction. Returns how many events got their position.
pub fn place(db: &mut Database, tx: TxId, limit: usize, has_broker: bool) -> Result<usize> {
    db.statement(tx)?;
    lock!(db, event_head, tx, 0);
    let head = db.event_head.seen(tx, 0).unwrap_or(Head { position: 0 });
    let all = db.events.all_seen(tx);
    let mut waiting: Vec<(usize, Event)> =
        all.filter(|(_, event)| event.position.is_none()).collect();
    waiting.sort_by_key(|(key, event)| (event.id_at, *key));
    waiting.truncate(limit);
    for (id, _) in &waiting {
        lock!(db, events, tx, *id);
    }
    let mut position = head.position;
    for (id, event) in &waiting {
        position += 1;
        let event = Event {
            position: Some(position),
            ..*event
        };
        db.events.write(tx, *id, Some(event));
    }
    db.event_head.write(tx, 0, Some(Head { position }));
    if !has_broker {
        broker_cursor::follow(db, tx, head.position, position)?;
    }
    Ok(waiting.len())
}

/// `event_head::newest`.
pub fn newest(db: &Database) -> Result<i64> {
    db.reading()?;
    Ok(db.event_head.committed(0).map_or(0, |head| head.position))
}
