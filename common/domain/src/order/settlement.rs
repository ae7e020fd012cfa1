//! Decides what the payments of an agreement mean for its order. Everything here is pure.
//!
//! A payment counts for an order only in the order's currency, and the order is covered only when
//! the payments reach its whole total. A buyer may have written the agreement's name into a
//! payment, so a payment that is too small must not ship anything.
//!
//! An agreement can be paid several times, in cycles. The order itself is the first cycle. Each
//! further cycle costs the order's total again, is settled by its own payments alone, and has a
//! fulfilment of its own.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::FinancialStatus;
use super::record::Record;
use crate::money::Currency;

/// A cycle of an agreement (`metadata.fulfillment_cycle`), by the name that the merchant gave it.
/// The first number in the name decides: `2`, `cycle-2` and `2/12` are further cycles. A name
/// whose number is 1, a name without a number (such as `once`), and a missing name all mean the
/// first cycle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cycle(String);

impl Cycle {
    /// The first cycle, which is the order itself.
    pub fn first() -> Self {
        Cycle("1".to_owned())
    }

    /// The cycle with this name. Leading zeros of a name that is a number are ignored.
    pub fn named(name: Option<&str>) -> Self {
        let name = name.map(str::trim).unwrap_or_default();
        let is_digit = |byte: char| byte.is_ascii_digit();
        let number = name.trim_start_matches(|it| !is_digit(it));
        let end = number.find(|it| !is_digit(it)).unwrap_or(number.len());
        let number = number[..end].trim_start_matches('0');
        if number == "1" || !name.contains(is_digit) {
            Cycle::first()
        } else if name.chars().all(is_digit) && !number.is_empty() {
            Cycle(number.to_owned())
        } else {
            Cycle(name.to_owned())
        }
    }

    pub fn is_first(&self) -> bool {
        *self == Cycle::first()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A payment that is linked to an order. Amounts are minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The payment provider's id of the payment.
    pub id: String,
    pub currency: Currency,
    /// The amount that was captured.
    pub received: i64,
    /// The amount that was refunded.
    pub refunded: i64,
    pub fully_refunded: bool,
    /// When the payment was canceled, in Unix milliseconds. None for a payment that was paid
    /// nevertheless.
    pub canceled_at: Option<i64>,
    pub cycle: Cycle,
}

/// How the payment provider's checkout page changed the price when the buyer paid there: it can
/// take off a discount, and add tax and shipping. Amounts are minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceChange {
    pub cycle: Cycle,
    pub currency: Currency,
    pub discount: i64,
    /// Tax and shipping together.
    pub added: i64,
}

/// All payments of an order, with what is needed to compare them with its total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payments {
    pub linked: Vec<Linked>,
    /// The price changes of the completed checkout sessions that are paid for.
    pub price_changes: Vec<PriceChange>,
    /// True when a checkout session of the order began a subscription and an invoice of that
    /// subscription was paid, with money or in full by a discount. The invoice of a trial does
    /// not count.
    pub is_subscription_paid: bool,
}

/// What all payments of an order or of a cycle come to together.
#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Settlement {
    /// None when no payment was paid.
    pub status: Option<FinancialStatus>,
    /// True when the payments pay for the whole order.
    pub covers: bool,
    /// When the first of the payments was canceled, in Unix milliseconds.
    pub canceled_at: Option<i64>,
}

impl Linked {
    /// True when money came in, even if that is only known because some of it was refunded.
    pub fn is_paid(&self) -> bool {
        self.received > 0 || self.refunded > 0
    }

    /// The amount that can still be refunded, in minor units.
    pub fn left(&self) -> i64 {
        self.received.saturating_sub(self.refunded).max(0)
    }
}

impl Payments {
    fn of(&self, cycle: &Cycle) -> Vec<&Linked> {
        let linked = self.linked.iter();
        linked.filter(|it| it.cycle == *cycle).collect()
    }

    /// The discount that checkout price_changes took off the price of a cycle, in minor units.
    fn discount(&self, cycle: &Cycle, currency: Currency) -> i64 {
        self.sum(cycle, currency, |change| change.discount)
    }

    fn sum(&self, cycle: &Cycle, currency: Currency, amount: fn(&PriceChange) -> i64) -> i64 {
        let price_changes = self.price_changes.iter();
        let price_changes =
            price_changes.filter(|it| it.cycle == *cycle && it.currency == currency);
        price_changes.fold(0, |sum, change| sum.saturating_add(amount(change)))
    }

    /// True when these can be the payments of this order: all are in the order's currency, and
    /// the payments of each cycle come to no more than the order's total with the tax and
    /// shipping that the page added. Payments that do not fit are left to people to decide,
    /// because a buyer may have written the agreement's name into them.
    pub fn are_of(&self, record: &Record) -> bool {
        let totals = &record.totals.value;
        let (Some(currency), Some(total)) = (totals.currency, totals.total) else {
            return false;
        };
        let mut received: BTreeMap<&Cycle, i64> = BTreeMap::new();
        for payment in self.linked.iter().filter(|it| it.is_paid()) {
            if payment.currency != currency {
                return false;
            }
            let sum = received.entry(&payment.cycle).or_default();
            *sum = sum.saturating_add(payment.received);
        }
        received.iter().all(|(cycle, received)| {
            let added = self.sum(cycle, currency, |change| change.added);
            *received <= total.saturating_add(added)
        })
    }
}

/// Writes into the record what the payments of the first cycle come to now. The result depends
/// only on the payments given here, and replaces what was written before.
pub fn settle(record: &mut Record, payments: &Payments) {
    record.settled = settled(record, payments, &Cycle::first());
}

/// What the payments of the further cycles come to, for each cycle by itself.
pub fn cycles(record: &Record, payments: &Payments) -> BTreeMap<Cycle, Settlement> {
    let named = payments.linked.iter().map(|it| &it.cycle);
    let further = named.filter(|cycle| !cycle.is_first());
    further
        .map(|cycle| (cycle.clone(), settled(record, payments, cycle)))
        .collect()
}

fn settled(record: &Record, payments: &Payments, cycle: &Cycle) -> Settlement {
    let linked = payments.of(cycle);
    let paid: Vec<&Linked> = linked.iter().copied().filter(|it| it.is_paid()).collect();
    let by_subscription = payments.is_subscription_paid && cycle.is_first();
    let covers = by_subscription || covers(record, &paid, payments, cycle);
    let all_back = paid.iter().all(|it| it.fully_refunded);
    let some_back = paid.iter().any(|it| it.refunded > 0);
    let status = match () {
        () if paid.is_empty() && covers => Some(FinancialStatus::Paid),
        () if paid.is_empty() => None,
        () if all_back => Some(FinancialStatus::Refunded),
        () if some_back => Some(FinancialStatus::PartiallyRefunded),
        () if covers => Some(FinancialStatus::Paid),
        () => Some(FinancialStatus::PartiallyPaid),
    };
    Settlement {
        status,
        covers,
        canceled_at: linked.iter().filter_map(|it| it.canceled_at).min(),
    }
}

/// True when the money that came in, together with the discount of the checkout page, reaches the
/// order's total. The storefront's outstanding amount is not used, because the storefront may or
/// may not know of these payments. A fully refunded payment does not count beside others that are
/// not. When all payments were fully refunded they do count: the order was covered, and its money
/// was given back.
fn covers(record: &Record, paid: &[&Linked], payments: &Payments, cycle: &Cycle) -> bool {
    let totals = &record.totals.value;
    let (Some(currency), Some(total)) = (totals.currency, totals.total) else {
        return false;
    };
    let all_back = paid.iter().all(|it| it.fully_refunded);
    let received = paid
        .iter()
        .filter(|it| it.currency == currency && (all_back || !it.fully_refunded))
        .fold(0_i64, |sum, it| sum.saturating_add(it.received));
    let covered = received.saturating_add(payments.discount(cycle, currency));
    covered > 0 && covered >= total
}

/// The status that the storefront reports or the one that follows from the payments, whichever is
/// further on, because each side may not know what the other knows.
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

/// True when a canceled payment ends the order, which is the case only when nothing else was paid
/// or authorized for it.
pub fn is_cancelled_by_payment(
    was_paid: bool,
    storefront: Option<&FinancialStatus>,
    payments: Option<&FinancialStatus>,
) -> bool {
    let has_money = matches!(
        storefront,
        Some(
            FinancialStatus::Authorized
                | FinancialStatus::PartiallyPaid
                | FinancialStatus::Paid
                | FinancialStatus::PartiallyRefunded
                | FinancialStatus::Refunded
        )
    );
    !was_paid && !has_money && payments.is_none()
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
