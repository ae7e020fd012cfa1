//! The `events` table: what happened, for the merchant's own systems. Each event is written in
//! the transaction in which it happened. Events have only ids and amounts, never personal data.
//!
//! Readers follow events by their positions (`event_head`). The id of an event has its position, so no id is stored.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::sql::{Db, Error, Result, Row, Tx, column};
use domain::envelope::Envelope;
use domain::event::{Event, Message};
use domain::time::Timestamp;
use domain::trace::{self, TraceContext, TraceId};

/// An event to be stored.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// When it happened.
    pub at: Timestamp,
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
            column("kind", kind),
            column("shop", new.event.shop().map(ToOwned::to_owned)),
            column("object_id", new.event.object_id().to_owned()),
            column("body", data.to_string()),
            column("created_at", new.at),
            column("traceparent", trace::column(new.traceparent)),
        ]
    });
    tx.insert_events(rows.collect()).await
}

/// The id of the event at this position: a UUID of version 7 (RFC 9562, 5.7) with the time at which it happened. Its last
/// 62 bits are the position, and the twelve bits between are of the object, so that two installations hardly ever give
/// the same id. Whoever has ids of events can tell how many events there were between them.
fn id(at: Timestamp, position: i64, object_id: &str) -> Uuid {
    let millis = at.0.unsigned_abs() & 0xffff_ffff_ffff;
    let object = object_id.bytes().fold(0_u16, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    let mut low = [0; 10];
    low[..2].copy_from_slice(&object.to_be_bytes());
    low[2..].copy_from_slice(&position.to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(millis, &low).into_uuid()
}

/// The id of the event in a row that has at least these columns.
pub(crate) fn id_of(row: &Row) -> Result<Uuid> {
    let object_id: String = row.get("object_id")?;
    Ok(id(row.get("created_at")?, row.get("position")?, &object_id))
}

/// The position in an event's id.
pub fn position_in(id: Uuid) -> i64 {
    let (_, low) = id.as_u64_pair();
    (low & (u64::MAX >> 2)).cast_signed()
}

fn read(row: &Row) -> Result<Envelope> {
    let body: String = row.get("body")?;
    let Placed {
        id,
        position,
        kind,
        shop,
        object_id,
        created_at,
    } = placed(row)?;
    Ok(Envelope {
        id,
        kind,
        shop,
        object_id,
        created_at,
        position,
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

/// Deletes at most `limit` events from before this time and up to this position, the oldest first. Events that are not
/// old enough are looked at only where others around them are.
pub async fn forget(db: &Db, before: Timestamp, up_to: i64, limit: i64) -> Result<u64> {
    let last = position_at(db, before.plus(LATE)).await?;
    db.transact(
        "delete from events
         where created_at < $1 and position <= (
             select max(position) from (
                 select position from events
                 where position <= $2 and created_at < $1
                 order by position
                 limit $3
             ) as oldest
         )",
    )
    .bind(before)
    .bind(up_to.min(last))
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

/// The newest events at these positions that match, the newest first. Of an object they are found by an index; of
/// others each position is looked at.
pub async fn newest(
    db: &Db,
    filter: &Filter,
    positions: Range<i64>,
    limit: i64,
) -> Result<Vec<Envelope>> {
    let statement = if filter.object_id.is_empty() {
        "select position, kind, shop, object_id, body, created_at, traceparent from events
         where position >= $1 and position < $2
           and substr(kind, 1, length($3)) = $3 and ($4 = '' or shop = $4)
         order by position desc
         limit $5"
    } else {
        "select position, kind, shop, object_id, body, created_at, traceparent from events
         where position >= $1 and position < $2
           and substr(kind, 1, length($3)) = $3 and ($4 = '' or shop = $4) and object_id = $6
         order by object_id desc, position desc
         limit $5"
    };
    let mut asked = db
        .query(statement)
        .bind(positions.start)
        .bind(positions.end)
        .bind(filter.kind_prefix.as_str())
        .bind(filter.shop.as_str())
        .bind(limit);
    if !filter.object_id.is_empty() {
        asked = asked.bind(filter.object_id.as_str());
    }
    asked.all(read).await
}

/// The first position of an event that is still kept.
pub async fn first_position(db: &Db) -> Result<Option<i64>> {
    db.query("select position from events order by position limit 1")
        .first(|row| row.get("position"))
        .await
}

/// The last events of an object of this shop, at most `limit`, in the sequence in which they
/// happened.
pub async fn of_object(db: &Db, shop: &str, object_id: &str, limit: i64) -> Result<Vec<Envelope>> {
    let rows = db
        .query(
            "select position, kind, shop, object_id, body, created_at, traceparent from events
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
/// sorted by position alone.
pub async fn of_traces(db: &Db, traces: &[TraceId], limit: i64) -> Result<Vec<Envelope>> {
    let mut events: Vec<Envelope> = db
        .query(
            "select position, kind, shop, object_id, body, created_at, traceparent from events
             where traceparent is not null and substr(traceparent, 1, 16) in ($2..)
             order by substr(traceparent, 1, 16), position
             limit $1",
        )
        .bind(limit)
        .bind(
            traces
                .iter()
                .map(|trace| trace.bytes().to_vec())
                .collect::<Vec<_>>(),
        )
        .all(read)
        .await?;
    events.sort_by_key(|event| event.position);
    Ok(events)
}

/// No event is written so long after the time in its id, unless clocks are that wrong.
pub const LATE: Duration = Duration::from_mins(10);

/// The place of an event in the sequence, and what a filter asks about.
#[derive(Clone, Debug)]
pub struct Placed {
    pub id: Uuid,
    pub position: i64,
    pub kind: String,
    pub shop: Option<String>,
    pub object_id: String,
    pub created_at: Timestamp,
}

fn placed(row: &Row) -> Result<Placed> {
    Ok(Placed {
        id: id_of(row)?,
        position: row.get("position")?,
        kind: row.get("kind")?,
        shop: row.get("shop")?,
        object_id: row.get("object_id")?,
        created_at: row.get("created_at")?,
    })
}

/// The next events after a position, in their sequence, up to the head (`event_head`), which was found before.
pub async fn placed_after(db: &Db, position: i64, head: i64, limit: i64) -> Result<Vec<Placed>> {
    db.query(
        "select position, kind, shop, object_id, created_at from events
         where position > $1 and position <= $2
         order by position
         limit $3",
    )
    .bind(position)
    .bind(head)
    .bind(limit)
    .all(placed)
    .await
}

/// The same with the whole events.
pub async fn after(db: &Db, position: i64, head: i64, limit: i64) -> Result<Vec<Envelope>> {
    db.query(
        "select position, kind, shop, object_id, body, created_at, traceparent from events
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
        "select position, kind, shop, object_id, created_at from events
         where object_id = $1 and position > $2 and position <= $3
         order by object_id, position",
    )
    .bind(object_id)
    .bind(position)
    .bind(head)
    .all(placed)
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
    let at = db.query("select position, object_id, created_at from events where position = $1");
    let found = at.bind(position_in(id)).first(id_of).await?;
    Ok(found.filter(|found| *found == id).map(position_in))
}

/// A position such that all events of this time and later ones come after it. Events get their positions when they are
/// written, so one that was made before this time may have a position after later ones. It is searched by halves, and
/// holds as far as clocks were not wrong by more than [`LATE`].
pub async fn position_at(db: &Db, at: Timestamp) -> Result<i64> {
    let before = at.minus(LATE);
    let newest = last(db, i64::MAX).await?;
    // All up to `passed` may be passed over, and nothing from `end` on. What is between is still to be found out.
    let (mut passed, mut end) = (0, newest.map_or(0, |event| event.position + 1));
    while passed + 1 < end {
        let middle = i64::midpoint(passed, end);
        let next = db
            .query(
                "select position, kind, shop, object_id, created_at from events
                 where position >= $1 and position < $2
                 order by position
                 limit 1",
            )
            .bind(middle)
            .bind(end)
            .first(placed)
            .await?;
        match next.filter(|event| event.created_at < before) {
            Some(event) => passed = event.position,
            None => end = middle,
        }
    }
    Ok(passed)
}

/// At which of these positions there still is an event.
pub async fn kept(tx: &mut Tx, positions: Vec<i64>) -> Result<HashSet<i64>> {
    let rows = tx
        .query("select position from events where position in ($1..)")
        .bind(positions);
    rows.all(|row| row.get("position")).await
}

/// The newest event up to this position.
pub async fn last(db: &Db, position: i64) -> Result<Option<Placed>> {
    db.query(
        "select position, kind, shop, object_id, created_at from events
         where position <= $1
         order by position desc
         limit 1",
    )
    .bind(position)
    .first(placed)
    .await
}

/// Reads the events that are still kept, in the sequence of the ids.
pub async fn by_ids(db: &Db, ids: Vec<Uuid>) -> Result<Vec<Envelope>> {
    let positions: Vec<i64> = ids.iter().map(|id| position_in(*id)).collect();
    let mut found: HashMap<Uuid, Envelope> = db
        .query(
            "select position, kind, shop, object_id, body, created_at, traceparent from events
             where position in ($1..)",
        )
        .bind(positions)
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
