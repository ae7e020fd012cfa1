//! The broker as one of the endpoints: its row in the `endpoints` table, whose cursor says up to which position
//! (`event_head`) the broker has confirmed all events. The publisher moves it, after the broker has confirmed, so an
//! event whose confirmation was lost is sent again.
//!
//! The row is there while a broker is configured. Each process with one makes it before it works, so whoever configures
//! a broker later is not sent what happened before.

use domain::endpoint::State;
use domain::event::Pattern;
use domain::time::Timestamp;
use uuid::{Uuid, uuid};

use crate::endpoints::{self, DELIVERY_NOTED, Endpoint};
use crate::sql::{Db, Result};
use crate::{event_head, leases};

/// The id of the broker's row, which is "rabbitmq" in ASCII.
pub const BROKER: Uuid = uuid!("72616262-6974-6d71-0000-000000000000");

/// The word that commands take for this id.
pub const NAME: &str = "rabbitmq";

pub async fn find(db: &Db) -> Result<Option<Endpoint>> {
    endpoints::find(db, BROKER).await
}

/// Up to which position the broker has all events. Without a broker none waits for it.
pub async fn position(db: &Db) -> Result<i64> {
    Ok(find(db).await?.map_or(i64::MAX, |it| it.position))
}

/// Up to which position events may be deleted when they are old enough: an active broker gets those after it. One that an
/// operator has paused loses them with time, as the endpoints of webhooks do.
pub async fn not_owed(db: &Db) -> Result<i64> {
    let broker = find(db).await?.filter(|it| it.state == State::Active);
    Ok(broker.map_or(i64::MAX, |it| it.position))
}

/// Records that there is a broker with this address, which gets the events after a position if it has no row yet.
/// `None`: it gets what happens from now on.
pub async fn begin(db: &Db, url: &str, after: Option<i64>, now: Timestamp) -> Result<()> {
    if find(db).await?.is_some_and(|it| it.url == url) {
        return Ok(());
    }
    let after = match after {
        Some(after) => after,
        None => event_head::newest(db).await?,
    };
    db.transact(
        "insert into endpoints (id, url, kinds, state, position, failures, created_at, updated_at)
         values ($1, $2, $3, 'active', $4, 0, $5, $5)
         on conflict (id) do update set url = excluded.url, updated_at = excluded.updated_at",
    )
    .bind(BROKER)
    .bind(url)
    .bind(Pattern::all().as_str())
    .bind(after)
    .bind(now.0)
    .done()
    .await
}

/// Records that the broker has all events up to this position. The cursor is never moved back.
pub async fn advance(db: &Db, position: i64, now: Timestamp) -> Result<()> {
    db.transact(
        "update endpoints
         set position = $1, failing_since = null, failures = 0, last_error = null, updated_at = $2,
             delivered_at = case when delivered_at > $3 then delivered_at else $2 end
         where id = $4 and position <= $1",
    )
    .bind(position)
    .bind(now.0)
    .bind(now.minus(DELIVERY_NOTED).0)
    .bind(BROKER)
    .done()
    .await
}

/// Records that the broker is there again, before there is anything to send.
pub async fn recovered(db: &Db, now: Timestamp) -> Result<()> {
    db.transact(
        "update endpoints
         set failing_since = null, failures = 0, last_error = null, updated_at = $1
         where id = $2",
    )
    .bind(now.0)
    .bind(BROKER)
    .done()
    .await
}

/// Records that the broker did not confirm events.
pub async fn failed(db: &Db, error: &str, now: Timestamp) -> Result<()> {
    let mut tx = db.begin().await?;
    endpoints::failed(&mut tx, BROKER, 1, error, now).await?;
    tx.commit().await
}

/// Records that there is no broker, unless some process publishes to one. One that was there before and did not get all
/// events gets these when it is there again, and one that was paused is still paused then.
pub async fn end(db: &Db, now: Timestamp) -> Result<()> {
    if find(db).await?.is_none() || leases::is_held(db, leases::EVENTS, now, now).await? {
        return Ok(());
    }
    db.transact(
        "delete from endpoints
         where id = $1 and state = 'active'
           and not exists (select 1 from events where events.position > endpoints.position)",
    )
    .bind(BROKER)
    .done()
    .await
}
