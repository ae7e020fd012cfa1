//! What the payments of its agreement make of an order. Pure.
//!
//! A payment pays for an order in the order's currency and for all that is due, or not at
//! all: a buyer may have written the agreement's name, so a small payment ships nothing.
//!
//! An agreement can be paid again and again, in cycles. The order itself is the first cycle.
//! Each further one costs the order's total again, is settled by its own payments alone, and
//! is a fulfilment of its own.

use std::collections::BTreeMap;
use std::fmt;

use super::FinancialStatus;
use super::record::Record;
use crate::money::Currency;

/// A cycle of an agreement (`metadata.fulfillment_cycle`), by the name that the merchant gives
/// it. The first number in the name counts: `2`, `cycle-2` and `2/12` are further cycles. One
/// of number 1 is the first, and so is one without a number, such as `once`, or without a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cycle(String);

impl Cycle {
    /// The order itself.
    pub fn first() -> Self {
        Cycle("1".to_owned())
    }

    /// Names that are numbers are the same with zeros before them and without.
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
    pub cycle: Cycle,
}

/// What the payment provider's page made of the price when somebody paid there: it can take
/// off a discount, and add tax and shipping. Minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub cycle: Cycle,
    pub currency: Currency,
    pub discount: i64,
    /// Tax and shipping.
    pub added: i64,
}

/// All that was paid for an order, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payments {
    pub linked: Vec<Linked>,
    /// Of the completed sessions that are paid for.
    pub pages: Vec<Page>,
    /// A session began a subscription, and an invoice of it was paid that was no trial's: with
    /// money, or all of it by a discount.
    pub is_subscription_paid: bool,
}

/// What all payments of an order come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
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

impl Payments {
    fn of(&self, cycle: &Cycle) -> Vec<&Linked> {
        let linked = self.linked.iter();
        linked.filter(|it| it.cycle == *cycle).collect()
    }

    /// Minor units that pages took off the price of a cycle.
    fn discount(&self, cycle: &Cycle, currency: Currency) -> i64 {
        self.sum(cycle, currency, |page| page.discount)
    }

    fn sum(&self, cycle: &Cycle, currency: Currency, amount: fn(&Page) -> i64) -> i64 {
        let pages = self.pages.iter();
        let pages = pages.filter(|it| it.cycle == *cycle && it.currency == currency);
        pages.fold(0, |sum, page| sum.saturating_add(amount(page)))
    }

    /// True when these can be the payments of this order: in its currency, and for each cycle
    /// no more than it costs, with the tax and shipping that the page added. The rest is left
    /// to people, because a buyer may have written the agreement's name.
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
            let added = self.sum(cycle, currency, |page| page.added);
            *received <= total.saturating_add(added)
        })
    }
}

/// Enters into an order what the payments of its first cycle come to now: a function of what
/// is known of them, whatever was entered before.
pub fn settle(record: &mut Record, payments: &Payments) {
    record.settled = settled(record, payments, &Cycle::first());
}

/// What the payments of the further cycles come to, each by itself.
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

/// Whether what came in, with what the page took off, is the order's total. What the
/// storefront says is outstanding does not count: it may know of these payments, or not. A
/// payment that went back in full pays for nothing beside others; alone it did, and is given
/// back.
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

/// Whether an order ends with a payment that was canceled: it does not when anything was paid
/// or is authorized for it otherwise.
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
