//! `store::leases`.

use std::time::Duration;

use domain::time::Timestamp;

use crate::database::{Database, Result, TxId, lock};
use crate::rows::{Lease, LeaseName};

const AHEAD: Duration = Duration::from_mins(1);

/// `leases::take`. `expires`: a lease ends by itself.
pub fn take(
    db: &mut Database,
    tx: TxId,
    name: LeaseName,
    holder: u32,
    (now, until): (Timestamp, Timestamp),
    expires: bool,
) -> Result<bool> {
    db.statement(tx)?;
    lock!(db, leases, tx, name as usize);
    let may_take = |lease: Lease| {
        let is_over = lease.expires_at <= now || lease.expires_at > until.plus(AHEAD);
        lease.holder == holder || (is_over && expires)
    };
    if !db.leases.seen(tx, name as usize).is_none_or(may_take) {
        return Ok(false);
    }
    let expires_at = until;
    let lease = Lease { holder, expires_at };
    db.leases.write(tx, name as usize, Some(lease));
    Ok(true)
}

/// `leases::release`.
pub fn release(db: &mut Database, tx: TxId, name: LeaseName, holder: u32) -> Result<()> {
    db.statement(tx)?;
    lock!(db, leases, tx, name as usize);
    let lease = db.leases.seen(tx, name as usize);
    if lease.is_some_and(|lease| lease.holder == holder) {
        db.leases.write(tx, name as usize, None);
    }
    Ok(())
}

/// `leases::is_held`.
pub fn is_held(db: &Database, name: LeaseName, now: Timestamp) -> Result<bool> {
    db.reading()?;
    let lease = db.leases.committed(name as usize);
    Ok(lease.is_some_and(|lease| lease.expires_at > now))
}
