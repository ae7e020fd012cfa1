//! What the payments of its agreement make of an order. Pure.
//!
//! A payment pays for an order in the order's currency and for all that is due, or not at
//! all: a buyer may have written the agreement's name, so a small payment ships nothing.

use super::FinancialStatus;
use super::record::Record;
use crate::money::Currency;

/// A payment that is linked to an order. Amounts are minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The provider's id.
    pub id: String,
    pub currency: Currency,
    /// What was captured.
    pub received: i64,
    /// What went back of it.
    pub refunded: i64,
    pub fully_refunded: bool,
    /// When it was canceled, Unix milliseconds, unless it was paid all the same.
    pub canceled_at: Option<i64>,
}

/// What all payments of an order come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// None when none was paid.
    pub status: Option<FinancialStatus>,
    /// They pay for all of it.
    pub covers: bool,
    /// When the first was canceled, Unix milliseconds.
    pub canceled_at: Option<i64>,
}

impl Linked {
    /// Money came in, be it only known from what went back.
    pub fn is_paid(&self) -> bool {
        self.received > 0 || self.refunded > 0
    }

    /// What is left to give back.
    pub fn left(&self) -> i64 {
        self.received.saturating_sub(self.refunded).max(0)
    }
}

/// Enters into an order what all its payments come to now: a function of what is known of
/// them, whatever was entered before.
pub fn settle(record: &mut Record, payments: &[Linked]) {
    let paid: Vec<&Linked> = payments.iter().filter(|it| it.is_paid()).collect();
    let covers = covers(record, &paid);
    let all_back = paid.iter().all(|it| it.fully_refunded);
    let some_back = paid.iter().any(|it| it.refunded > 0);
    let status = match () {
        () if paid.is_empty() => None,
        () if all_back => Some(FinancialStatus::Refunded),
        () if some_back => Some(FinancialStatus::PartiallyRefunded),
        () if covers => Some(FinancialStatus::Paid),
        () => Some(FinancialStatus::PartiallyPaid),
    };
    record.settled = Settled {
        status,
        covers,
        canceled_at: payments.iter().filter_map(|it| it.canceled_at).min(),
    };
}

/// Whether what came in is the order's total. What the storefront says is outstanding does
/// not count: it may know of these payments, or not. A payment that went back in full pays
/// for nothing beside others; alone it did, and is given back.
fn covers(record: &Record, paid: &[&Linked]) -> bool {
    let totals = &record.totals.value;
    let (Some(currency), Some(total)) = (totals.currency, totals.total) else {
        return false;
    };
    let all_back = paid.iter().all(|it| it.fully_refunded);
    let received = paid
        .iter()
        .filter(|it| it.currency == currency && (all_back || !it.fully_refunded))
        .fold(0_i64, |sum, it| sum.saturating_add(it.received));
    received > 0 && received >= total
}

/// The further on of what the storefront says and what the payments say: either may not
/// know of the other's.
pub fn status(
    storefront: Option<&FinancialStatus>,
    payments: Option<&FinancialStatus>,
) -> Option<FinancialStatus> {
    let further = match (storefront, payments) {
        (Some(a), Some(b)) if progress(b) > progress(a) => Some(b),
        (a, b) => a.or(b),
    };
    further.cloned()
}

fn progress(status: &FinancialStatus) -> u8 {
    match status {
        FinancialStatus::Pending
        | FinancialStatus::Other(_)
        | FinancialStatus::Expired
        | FinancialStatus::Voided => 0,
        FinancialStatus::Authorized => 1,
        FinancialStatus::PartiallyPaid => 2,
        FinancialStatus::Paid => 3,
        FinancialStatus::PartiallyRefunded => 4,
        FinancialStatus::Refunded => 5,
    }
}
