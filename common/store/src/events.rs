//! The `events` table: what happened, for the merchant's own systems. Each event is written in
//! the transaction in which it happened. Events have only ids and amounts, never personal data.
//!
//! The ids of one object's events sort in the sequence in which they happened, and an event is
//! visible only when all earlier events of its object are. Neither is true between objects, so
//! readers follow events by their positions (`event_head`).

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
    /// An id with the time that [`LastEvent`](domain::event::LastEvent) gave the event.
    pub id: Uuid,
    pub event: Event,
    /// The trace context of what the event follows from.
    pub traceparent: Option<TraceContext>,
}

pub async fn insert(tx: &mut Tx, new: &[NewEvent], now: Timestamp) -> Result<()> {
    let rows = new.iter().map(|new| {
        let Message { kind, data, .. } = new.event.message();
        [
            column("id", new.id),
            column("kind", kind),
            column("shop", new.event.shop().map(ToOwned::to_owned)),
            column("object_id", new.event.object_id().to_owned()),
            column("body", data.to_string()),
            column("created_at", now),
            column("traceparent", trace::column(new.traceparent)),
        ]
    });
    tx.insert("events", rows.collect(), "").await?;
    Ok(())
}

fn read(row: &Row) -> Result<Envelope> {
    let body: String = row.get("body")?;
    Ok(Envelope {
        id: row.get("id")?,
        kind: row.get("kind")?,
        shop: row.get("shop")?,
        object_id: row.get("object_id")?,
        created_at: row.get("created_at")?,
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

/// Deletes at most `limit` events from before this time, the oldest first, of those with a position up to this one.
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

/// The newest events before the id `before` that match, the newest first.
pub async fn newest(db: &Db, filter: &Filter, before: Uuid, limit: i64) -> Result<Vec<Envelope>> {
    db.query(
        "select id, kind, shop, object_id, body, created_at, traceparent from events
         where id < $1 and substr(kind, 1, length($2)) = $2
           and ($3 = '' or shop = $3) and ($4 = '' or object_id = $4)
         order by id desc
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
            "select id, kind, shop, object_id, body, created_at, traceparent from events
             where object_id = $1 and coalesce(shop, '') = $2
             order by object_id desc, id desc
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
            "select id, kind, shop, object_id, body, created_at, traceparent from events
             where traceparent is not null and substr(traceparent, 4, 32) in ($2..)
             order by substr(traceparent, 4, 32), id
             limit $1",
        )
        .bind(limit)
        .bind(traces.iter().map(ToString::to_string).collect::<Vec<_>>())
        .all(read)
        .await?;
    events.sort_by_key(|event| event.id);
    Ok(events)
}

/// The ids of all events after the id `after`, in their order.
pub async fn ids_after(db: &Db, after: Uuid, limit: i64) -> Result<Vec<Uuid>> {
    db.query("select id from events where id > $1 order by id limit $2")
        .bind(after)
        .bind(limit)
        .all(|row| row.get("id"))
        .await
}

/// Reads the events that have one of these ids and match, sorted by id.
pub async fn matching(db: &Db, filter: &Filter, ids: Vec<Uuid>) -> Result<Vec<Envelope>> {
    db.query(
        "select id, kind, shop, object_id, body, created_at, traceparent from events
         where substr(kind, 1, length($1)) = $1
           and ($2 = '' or shop = $2) and ($3 = '' or object_id = $3)
           and id in ($4..)
         order by id",
    )
    .bind(filter.kind_prefix.as_str())
    .bind(filter.shop.as_str())
    .bind(filter.object_id.as_str())
    .bind(ids)
    .all(read)
    .await
}

/// No event becomes visible so long after the time in its id, unless clocks are that wrong.
const LATE: Duration = Duration::from_mins(10);

/// The place of an event in the sequence, and what a filter asks about.
#[derive(Clone, Debug, FromRow)]
pub struct Placed {
    pub id: Uuid,
    pub position: i64,
    pub kind: String,
    pub shop: Option<String>,
    pub object_id: String,
}

/// The next events after a position, in their sequence.
pub async fn placed_after(db: &Db, position: i64, limit: i64) -> Result<Vec<Placed>> {
    db.query(
        "select id, position, kind, shop, object_id from events
         where position > $1
         order by position
         limit $2",
    )
    .bind(position)
    .bind(limit)
    .all(Placed::from_row)
    .await
}

/// The next events after a position, in their sequence, each with its position.
pub async fn after(db: &Db, position: i64, limit: i64) -> Result<Vec<(i64, Envelope)>> {
    db.query(
        "select id, position, kind, shop, object_id, body, created_at, traceparent from events
         where position > $1
         order by position
         limit $2",
    )
    .bind(position)
    .bind(limit)
    .all(|row| Ok((row.get("position")?, read(row)?)))
    .await
}

/// The events of objects with this id after a position, in their sequence. They are sorted here:
/// asked for an order by position, PostgreSQL would go through all positions.
pub async fn placed_of_object(db: &Db, object_id: &str, position: i64) -> Result<Vec<Placed>> {
    let mut events: Vec<Placed> = db
        .query(
            "select id, position, kind, shop, object_id from events
             where object_id = $1 and position > $2",
        )
        .bind(object_id)
        .bind(position)
        .all(Placed::from_row)
        .await?;
    events.sort_by_key(|event| event.position);
    Ok(events)
}

/// The position after which a reader goes on that has seen the event with this id. If the event is no
/// longer kept, or has no position yet, it is a position that is surely early enough: some events come
/// again, and none is passed over.
pub async fn position_of(db: &Db, id: Uuid) -> Result<i64> {
    let own = db.query("select position from events where id = $1 and position is not null");
    let own = own.bind(id).fetch_optional().await?;
    let before = first_id(time_of(id).minus(LATE));
    let row = match own {
        Some(row) => Some(row),
        None => {
            db.query(
                "select position from events where id < $1 and position is not null
                 order by id desc
                 limit 1",
            )
            .bind(before)
            .fetch_optional()
            .await?
        }
    };
    row.map_or(Ok(0), |row| row.get("position"))
}

/// A position such that all events of this time and later ones come after it. Events get their
/// positions in the sequence in which they were committed, so one that was made before this time and
/// committed late may have a position after later ones.
pub async fn position_at(db: &Db, at: Timestamp) -> Result<i64> {
    let row = db
        .query(
            "select position from events where id < $1 and position is not null
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

/// The id of the newest event that has a position up to this one.
pub async fn id_at(db: &Db, position: i64) -> Result<Option<Uuid>> {
    db.query(
        "select id from events where position <= $1
         order by position desc
         limit 1",
    )
    .bind(position)
    .first(|row| row.get("id"))
    .await
}

/// Reads the events that are still kept, in the sequence of the ids.
pub async fn by_ids(db: &Db, ids: Vec<Uuid>) -> Result<Vec<Envelope>> {
    let rows = db
        .query(
            "select id, kind, shop, object_id, body, created_at, traceparent from events
             where id in ($1..)",
        )
        .bind(ids.clone())
        .fetch_all()
        .await?;
    let mut found: HashMap<Uuid, Envelope> = HashMap::new();
    for row in &rows {
        let event = read(row)?;
        found.insert(event.id, event);
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

/// The kinds of the events of one object, oldest first.
pub async fn kinds(db: &Db, shop: &str, object_id: &str) -> Result<Vec<String>> {
    db.query("select kind from events where shop = $1 and object_id = $2 order by id")
        .bind(shop)
        .bind(object_id)
        .all(|row| row.get("kind"))
        .await
}
