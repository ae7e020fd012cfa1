//! The `leases` table: work that one process at a time does for all. A lease expires by itself,
//! so a holder that dies is replaced. A holder that is late may, for a moment, not be the only
//! one, so it must do no harm when the work is done twice.

use std::time::Duration;

use uuid::Uuid;

use crate::sql::{Db, Result};
use domain::time::Timestamp;

/// A lease that ends this much later than ours would was taken by a process whose clock is wrong.
const AHEAD: Duration = Duration::from_mins(1);

/// Takes or renews a lease until `until`. False when another process holds it.
pub async fn take(
    db: &Db,
    name: &str,
    holder: Uuid,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool> {
    db.transact(
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
    .is_any()
    .await
}

/// Gives up a lease. One that another process holds stays as it is.
pub async fn release(db: &Db, name: &str, holder: Uuid) -> Result<()> {
    db.transact("delete from leases where name = $1 and holder = $2")
        .bind(name)
        .bind(holder)
        .done()
        .await
}

/// The lease to publish events to the broker.
pub const EVENTS: &str = "events";

/// The lease to send webhooks to endpoints.
pub const WEBHOOKS: &str = "webhooks";

/// The leases to ask the providers of a side what changed.
pub const RECONCILE_STOREFRONTS: &str = "reconcile storefronts";
pub const RECONCILE_PAYMENTS: &str = "reconcile payments";

/// True when some process holds this lease, so that [`take`] would not get it until `until`.
pub async fn is_held(db: &Db, name: &str, now: Timestamp, until: Timestamp) -> Result<bool> {
    db.query("select name from leases where name = $1 and expires_at > $2 and expires_at <= $3")
        .bind(name)
        .bind(now.0)
        .bind(until.plus(AHEAD).0)
        .is_any()
        .await
}

/// The lease to do the batches of operations.
pub const OPERATIONS: &str = "operations";

/// True when any worker holds a lease. A worker renews its own. Operations are done by processes that serve
/// the console.
pub async fn any_held(db: &Db, now: Timestamp) -> Result<bool> {
    db.query("select name from leases where expires_at > $1 and name <> $2 limit 1")
        .bind(now.0)
        .bind(OPERATIONS)
        .is_any()
        .await
}
