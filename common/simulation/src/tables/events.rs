//! `store::events`.

use domain::time::Timestamp;

use crate::database::{Database, Result, TxId};
use crate::rows::Event;

/// The id of an event: its time, and then its key.
pub type EventId = (Timestamp, usize);

/// `events::insert` for one event. Returns its key.
pub fn insert(db: &mut Database, tx: TxId, event: Event) -> Result<usize> {
    db.statement(tx)?;
    let key = db.events.reserve();
    db.events.write(tx, key, Some(event));
    Ok(key)
}

/// `events::placed_after` and `events::after`.
pub fn placed_after(db: &Database, position: i64, limit: usize) -> Result<Vec<(usize, Event)>> {
    db.reading()?;
    let all = db.events.all();
    let after = all.filter(|(_, event)| event.position.is_some_and(|it| it > position));
    Ok(first(after, |_, event| event.position, limit))
}

/// What readers did who followed ids: all events after this id that are visible, sorted by id.
pub fn after_id(db: &Database, id: EventId, limit: usize) -> Result<Vec<(usize, Event)>> {
    db.reading()?;
    let all = db.events.all();
    let after = all.filter(|(key, event)| (event.id_at, *key) > id);
    Ok(first(after, |key, event| (event.id_at, key), limit))
}

fn first<K: Ord>(
    events: impl Iterator<Item = (usize, Event)>,
    by: impl Fn(usize, &Event) -> K,
    limit: usize,
) -> Vec<(usize, Event)> {
    let mut events: Vec<(usize, Event)> = events.collect();
    events.sort_by_key(|(key, event)| by(*key, event));
    events.truncate(limit);
    events
}
