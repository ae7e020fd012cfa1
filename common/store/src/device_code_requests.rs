//! The `device_code_requests` table: when each client asked for device codes, so that the limit
//! holds for all replicas together. A client is stored as a keyed hash of its network, and its
//! row is deleted when it is old.
//!
//! The clocks of replicas differ, so a time that is in the future here may be the present on
//! another replica. It counts, unless it is more than one period ahead, which happens only after
//! a clock was set back.

use std::time::Duration;

use crate::sql::{Db, Result, Tx};
use domain::time::Timestamp;

use super::{json, parsed};

/// Counts a request of a client, of which at most `most` are allowed in any `period`. When there
/// were too many, the request is not counted, and the error is how long the client must wait.
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

/// Takes back the request that [`admit`] counted at `at`, because it failed through no fault of
/// the client.
pub async fn take_back(db: &Db, client: &[u8], at: Timestamp) -> Result<()> {
    let mut tx = db.begin().await?;
    let mut times = lock(&mut tx, client, at).await?;
    if let Some(place) = times.iter().rposition(|time| *time == at.0) {
        times.remove(place);
    }
    save(&mut tx, client, &times).await?;
    tx.commit().await
}

/// Deletes clients that have not asked since `since`.
pub async fn forget(db: &Db, since: Timestamp) -> Result<u64> {
    db.transact("delete from device_code_requests where newest_at <= $1")
        .bind(since.0)
        .execute()
        .await
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
        .done()
        .await
}
