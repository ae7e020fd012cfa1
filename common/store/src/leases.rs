//! The `leases` table: work that one process at a time does for all. A lease ends by itself,
//! so a holder that dies is replaced; one that is late may for a moment not be the only one,
//! and what it does must be harmless twice.

use std::time::Duration;

use uuid::Uuid;

use crate::sql::{Db, Result};
use domain::time::Timestamp;

/// A lease that ends so much later than ours would was taken by a clock that is wrong.
const AHEAD: Duration = Duration::from_mins(1);

/// Gets or renews a lease until `until`. False: someone else holds it.
pub async fn take(
    db: &Db,
    name: &str,
    holder: Uuid,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool> {
    let mut tx = db.begin().await?;
    let taken = tx
        .query(
            "insert into leases (name, holder, expires_at) values ($1, $2, $3)
             on conflict (name) do update
             set holder = excluded.holder, expires_at = excluded.expires_at
             where leases.holder = excluded.holder
                or leases.expires_at <= $4 or leases.expires_at > $5
             returning name",
        )
        .bind(name)
        .bind(holder)
        .bind(until.0)
        .bind(now.0)
        .bind(until.plus(AHEAD).0)
        .fetch_optional()
        .await?;
    tx.commit().await?;
    Ok(taken.is_some())
}

/// Lets go of a lease; one that someone else holds stays as it is.
pub async fn release(db: &Db, name: &str, holder: Uuid) -> Result<()> {
    let mut tx = db.begin().await?;
    tx.query("delete from leases where name = $1 and holder = $2")
        .bind(name)
        .bind(holder)
        .execute()
        .await?;
    tx.commit().await
}

/// Whether anyone holds a lease: a process that works renews its own.
pub async fn any_held(db: &Db, now: Timestamp) -> Result<bool> {
    let row = db
        .query("select name from leases where expires_at > $1 limit 1")
        .bind(now.0)
        .fetch_optional()
        .await?;
    Ok(row.is_some())
}
