//! The `events` table: what happened, for the merchant's own systems. Each event is written in
//! the transaction in which it happened. Events have only ids and amounts, never personal data.
//!
//! Readers follow events by their positions (`event_head`). Ids say only about when an event was made.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::sql::{Db, Error, FromRow, Result, Row, Tx, column};
use domain::envelope::Envelope;
use domain::event::{Event, Message};
use domain::time::Timestamp;
use domain::trace::{self, TraceContext, TraceId};

/// An event to be stored.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// An id with the time at which it happened.
    pub id: Uuid,
    pub event: Event,
    /// The trace context of what the event follows from.
    pub traceparent: Option<TraceContext>,
}

/// Inserts events in this sequence. The caller has locked their objects, and commits next: readers wait for the end of
/// the transaction.
pub async fn insert(tx: &mut Tx, new: impl IntoIterator<Item = &NewEvent>) -> Result<()> {
    let rows = new.into_iter().map(|new| {
        let Message { kind, data, .. } = new.event.message();
        [
            column("id", new.id),
            column("kind", kind),
            column("shop", new.event.shop().map(ToOwned::to_owned)),
            column("object_id", new.event.object_id().to_owned()),
            column("body", data.to_string()),
            column("created_at", time_of(new.id)),
            column("traceparent", trace::column(new.traceparent)),
        ]
    });
    tx.insert_events(rows.collect()).await
}

fn read(row: &Row) -> Result<Envelope> {
    let body: String = row.get("body")?;
    Ok(Envelope {
        id: row.get("id")?,
        kind: row.get("kind")?,
        shop: row.get("shop")?,
        object_id: row.get("object_id")?,
        created_at: row.get("created_at")?,
        position: row.get("position")?,
        data: RawValue::from_string(body).map_err(|error| Error::Decode(Box::new(error)))?,
        traceparent: trace::stored(row.get("traceparent")?),
    })
}

/// The smallest id that an event or a job of this time can have.
pub fn first_id(at: Timestamp) -> Uuid {
    let millis = u128::from(at.0.unsigned_abs() & 0xffff_ffff_ffff);
    Uuid::from_u128(if at.0 < 0 { 0 } else { millis << 80 })
}

/// The time in an event's id.
pub fn time_of(id: Uuid) -> Timestamp {
    Timestamp(i64::try_from(id.as_u128() >> 80).unwrap_or(i64::MAX))
}

/// Deletes at most `limit` events from before this time and up to this position, the oldest first.
pub async fn forget(db: &Db, before: Timestamp, up_to: i64, limit: i64) -> Result<u64> {
    db.transact(
        "delete from events
         where id in (
             select id from events
             where id < $1 and position <= $2
             order by id
             limit $3
             for update skip locked
         )",
    )
    .bind(first_id(before))
    .bind(up_to)
    .bind(limit)
    .execute()
    .await
}

/// Which events to read. An empty text means any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub kind_prefix: String,
    pub shop: String,
    pub object_id: String,
}

/// The newest events before the position `before` that match, the newest first.
pub async fn newest(db: &Db, filter: &Filter, before: i64, limit: i64) -> Result<Vec<Envelope>> {
    db.query(
        "select id, position, kind, shop, object_id, body, created_at, traceparent from events
         where position < $1 and substr(kind, 1, length($2)) = $2
           and ($3 = '' or shop = $3) and ($4 = '' or object_id = $4)
         order by position desc
         limit $5",
    )
    .bind(before)
    .bind(filter.kind_prefix.as_str())
    .bind(filter.shop.as_str())
    .bind(filter.object_id.as_str())
    .bind(limit)
    .all(read)
    .await
}

/// The last events of an object of this shop, at most `limit`, in the sequence in which they
/// happened.
pub async fn of_object(db: &Db, shop: &str, object_id: &str, limit: i64) -> Result<Vec<Envelope>> {
    let rows = db
        .query(
            "select id, position, kind, shop, object_id, body, created_at, traceparent from events
             where object_id = $1 and coalesce(shop, '') = $2
             order by object_id desc, position desc
             limit $3",
        )
        .bind(object_id)
        .bind(shop)
        .bind(limit)
        .fetch_all()
        .await?;
    rows.iter().rev().map(read).collect()
}

/// The events of these traces, the oldest first. The query sorts by the trace first, because
/// PostgreSQL would scan the table by its primary key, instead of using the index, if it were
/// sorted by id alone.
pub async fn of_traces(db: &Db, traces: &[TraceId], limit: i64) -> Result<Vec<Envelope>> {
    let mut events: Vec<Envelope> = db
        .query(
            "select id, position, kind, shop, object_id, body, created_at, traceparent from events
             where traceparent is not null and substr(traceparent, 4, 32) in ($2..)
             order by substr(traceparent, 4, 32), position
             limit $1",
        )
        .bind(limit)
        .bind(traces.iter().map(ToString::to_string).collect::<Vec<_>>())
        .all(read)
        .await?;
    events.sort_by_key(|event| event.position);
    Ok(events)
}

/// No event is written so long after the time in its id, unless clocks are that wrong.
pub const LATE: Duration = Duration::from_mins(10);

/// The place of an event in the sequence, and what a filter asks about.
#[derive(Clone, Debug, FromRow)]
pub struct Placed {
    pub id: Uuid,
    pub position: i64,
    pub kind: String,
    pub shop: Option<String>,
    pub object_id: String,
}

/// The next events after a position, in their sequence, up to the head (`event_head`), which was found before.
pub async fn placed_after(db: &Db, position: i64, head: i64, limit: i64) -> Result<Vec<Placed>> {
    db.query(
        "select id, position, kind, shop, object_id from events
         where position > $1 and position <= $2
         order by position
         limit $3",
    )
    .bind(position)
    .bind(head)
    .bind(limit)
    .all(Placed::from_row)
    .await
}

/// The same with the whole events.
pub async fn after(db: &Db, position: i64, head: i64, limit: i64) -> Result<Vec<Envelope>> {
    db.query(
        "select id, position, kind, shop, object_id, body, created_at, traceparent from events
         where position > $1 and position <= $2
         order by position
         limit $3",
    )
    .bind(position)
    .bind(head)
    .bind(limit)
    .all(read)
    .await
}

/// The same for the events of objects with this id, all of them. The query sorts by the object first, because
/// PostgreSQL would go through all positions, instead of using the index, if it were sorted by position alone.
pub async fn placed_of_object(
    db: &Db,
    object_id: &str,
    position: i64,
    head: i64,
) -> Result<Vec<Placed>> {
    db.query(
        "select id, position, kind, shop, object_id from events
         where object_id = $1 and position > $2 and position <= $3
         order by object_id, position",
    )
    .bind(object_id)
    .bind(position)
    .bind(head)
    .all(Placed::from_row)
    .await
}

/// The position after which a reader goes on that has seen the event with this id. If the event is no
/// longer kept, it is a position that is surely early enough: some events come again, and none is passed over.
pub async fn position_of(db: &Db, id: Uuid) -> Result<i64> {
    match known_position(db, id).await? {
        Some(position) => Ok(position),
        None => position_at(db, time_of(id)).await,
    }
}

/// The position of the event with this id, if it is kept.
pub async fn known_position(db: &Db, id: Uuid) -> Result<Option<i64>> {
    let own = db.query("select position from events where id = $1");
    own.bind(id).first(|row| row.get("position")).await
}

/// A position such that all events of this time and later ones come after it. Events get their positions when they are
/// written, so one that was made before this time may have a position after later ones.
pub async fn position_at(db: &Db, at: Timestamp) -> Result<i64> {
    let row = db
        .query(
            "select position from events where id < $1
             order by id desc
             limit 1",
        )
        .bind(first_id(at.minus(LATE)))
        .fetch_optional()
        .await?;
    row.map_or(Ok(0), |row| row.get("position"))
}

/// Which of the events are still kept.
pub async fn kept(tx: &mut Tx, ids: Vec<Uuid>) -> Result<HashSet<Uuid>> {
    let rows = tx
        .query("select id from events where id in ($1..)")
        .bind(ids);
    rows.all(|row| row.get("id")).await
}

/// The newest event up to this position.
pub async fn last(db: &Db, position: i64) -> Result<Option<Placed>> {
    db.query(
        "select id, position, kind, shop, object_id from events
         where position <= $1
         order by position desc
         limit 1",
    )
    .bind(position)
    .first(Placed::from_row)
    .await
}

/// Reads the events that are still kept, in the sequence of the ids.
pub async fn by_ids(db: &Db, ids: Vec<Uuid>) -> Result<Vec<Envelope>> {
    let mut found: HashMap<Uuid, Envelope> = db
        .query(
            "select id, position, kind, shop, object_id, body, created_at, traceparent from events
             where id in ($1..)",
        )
        .bind(ids.clone())
        .all(|row| read(row).map(|event| (event.id, event)))
        .await?;
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

/// The kinds of the events of one object, oldest first.
pub async fn kinds(db: &Db, shop: &str, object_id: &str) -> Result<Vec<String>> {
    db.query("select kind from events where shop = $1 and object_id = $2 order by position")
        .bind(shop)
        .bind(object_id)
        .all(|row| row.get("kind"))
        .await
}
