//! `store::refunds`.

use domain::time::Timestamp;

use crate::database::{Database, Result, TxId, lock};
use crate::rows::{Refund, RefundState};

/// `refunds::save` of a refund that is requested. False when there is one already.
pub fn save(db: &mut Database, tx: TxId, order: usize) -> Result<bool> {
    db.statement(tx)?;
    lock!(db, refunds, tx, order);
    if db.refunds.seen(tx, order).is_some() {
        return Ok(false);
    }
    let refund = Refund {
        state: RefundState::Requested,
        tried_at: None,
        key_number: None,
    };
    db.refunds.write(tx, order, Some(refund));
    Ok(true)
}

/// `refunds::Try`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    pub key_number: i64,
    pub is_first: bool,
}

/// `refunds::begin_try`.
pub fn begin_try(db: &mut Database, tx: TxId, order: usize, now: Timestamp) -> Result<Option<Try>> {
    db.statement(tx)?;
    lock!(db, refunds, tx, order);
    let refund = db.refunds.seen(tx, order);
    let Some(refund) = refund.filter(|refund| refund.state != RefundState::Issued) else {
        return Ok(None);
    };
    let has_failed = refund.state == RefundState::Failed;
    let key_number = refund.key_number.unwrap_or(1) + i64::from(has_failed);
    let tried = Refund {
        tried_at: Some(now),
        key_number: Some(key_number),
        ..refund
    };
    db.refunds.write(tx, order, Some(tried));
    Ok(Some(Try {
        key_number,
        is_first: refund.tried_at.is_none() && !has_failed,
    }))
}

/// `refunds::try_again`.
pub fn try_again(
    db: &mut Database,
    tx: TxId,
    order: usize,
    key_number: i64,
    now: Timestamp,
) -> Result<()> {
    db.statement(tx)?;
    lock!(db, refunds, tx, order);
    if let Some(refund) = db.refunds.seen(tx, order) {
        let tried = Refund {
            tried_at: Some(now),
            key_number: Some(key_number),
            ..refund
        };
        db.refunds.write(tx, order, Some(tried));
    }
    Ok(())
}

/// `refunds::answered`.
pub fn answered(db: &mut Database, tx: TxId, order: usize, state: RefundState) -> Result<bool> {
    db.statement(tx)?;
    lock!(db, refunds, tx, order);
    let Some(refund) = db.refunds.seen(tx, order) else {
        return Ok(false);
    };
    if refund.state == RefundState::Issued || refund.state == state {
        return Ok(false);
    }
    db.refunds
        .write(tx, order, Some(Refund { state, ..refund }));
    Ok(true)
}
