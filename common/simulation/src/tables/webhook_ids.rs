//! `store::webhook_ids`.

use std::time::Duration;

use domain::time::Timestamp;

use crate::database::{Database, Result, TxId, lock};
use crate::rows::Remembered;

/// The id of a delivery, and the job that the delivery becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub delivery: usize,
    pub job: usize,
}

/// `webhook_ids::remember`. `waits`: an id that another transaction is writing is waited for.
pub fn remember(
    db: &mut Database,
    tx: TxId,
    claims: &[Claim],
    now: Timestamp,
    ttl: Duration,
    waits: bool,
) -> Result<Vec<usize>> {
    let mut fresh = Vec::with_capacity(claims.len());
    db.statement(tx)?;
    for claim in claims {
        if !waits && db.webhook_ids.locked_by_other(tx, claim.delivery).is_some() {
            continue;
        }
        if insert(db, tx, *claim, now, ttl)? {
            fresh.push(claim.job);
        }
    }
    Ok(fresh)
}

/// `webhook_ids::insert` for one id, after `webhook_ids::remove_expired`. A statement that waited has inserted some of
/// its ids before.
fn insert(
    db: &mut Database,
    tx: TxId,
    claim: Claim,
    now: Timestamp,
    ttl: Duration,
) -> Result<bool> {
    lock!(db, webhook_ids, tx, claim.delivery);
    if let Some(known) = db.webhook_ids.seen(tx, claim.delivery)
        && known.expires_at > now
    {
        return Ok(known.job == claim.job);
    }
    let row = Remembered {
        job: claim.job,
        expires_at: now.plus(ttl),
    };
    db.webhook_ids.write(tx, claim.delivery, Some(row));
    Ok(true)
}
