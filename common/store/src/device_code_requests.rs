//! The `device_code_requests` table: when each client asked for device codes, so that all
//! replicas together count the limit. A client is a keyed hash of its network; its row goes when it is old.
//!
//! Their clocks differ, so a time that is still to come here may be another's present: it
//! counts, unless it is more than one period ahead, which only a clock that was set back sees.

use std::time::Duration;

use crate::sql::{Db, Result, Tx};
use domain::time::Timestamp;

use super::{json, parsed};

/// Counts a request of a client, of at most `most` in any `period`. The error is how long it
/// must wait; then it was not counted.
pub async fn admit(
    db: &Db,
    client: &[u8],
    now: Timestamp,
    period: Duration,
    most: u32,
) -> Result<std::result::Result<(), Duration>> {
    let mut tx = db.begin().await?;
    let mut times = lock(&mut tx, client, now).await?;
    times.retain(|at| *at > now.minus(period).0 && *at <= now.plus(period).0);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if times.len() >= most {
        tx.rollback().await?;
        let free = times[times.len() - most];
        return Ok(Err(Timestamp(free).plus(period).since(now)));
    }
    let place = times.partition_point(|at| *at <= now.0);
    times.insert(place, now.0);
    save(&mut tx, client, &times).await?;
    tx.commit().await?;
    Ok(Ok(()))
}

/// Takes back what [`admit`] counted at `at`: it came to nothing, by no fault of the client.
pub async fn take_back(db: &Db, client: &[u8], at: Timestamp) -> Result<()> {
    let mut tx = db.begin().await?;
    let mut times = lock(&mut tx, client, at).await?;
    if let Some(place) = times.iter().rposition(|time| *time == at.0) {
        times.remove(place);
    }
    save(&mut tx, client, &times).await?;
    tx.commit().await
}

/// Forgets clients that have not asked since `since`.
pub async fn forget(db: &Db, since: Timestamp) -> Result<u64> {
    let mut tx = db.begin().await?;
    let forgotten = tx
        .query("delete from device_code_requests where newest_at <= $1")
        .bind(since.0)
        .execute()
        .await?;
    tx.commit().await?;
    Ok(forgotten)
}

async fn lock(tx: &mut Tx, client: &[u8], now: Timestamp) -> Result<Vec<i64>> {
    let row = tx
        .query(
            "insert into device_code_requests (client, times, newest_at) values ($1, '[]', $2)
             on conflict (client) do update set newest_at = excluded.newest_at
             returning times",
        )
        .bind(client)
        .bind(now.0)
        .fetch_one()
        .await?;
    parsed(&row.get::<String>("times")?)
}

async fn save(tx: &mut Tx, client: &[u8], times: &[i64]) -> Result<()> {
    tx.query("update device_code_requests set times = $2 where client = $1")
        .bind(client)
        .bind(json(&times)?)
        .execute()
        .await?;
    Ok(())
}
