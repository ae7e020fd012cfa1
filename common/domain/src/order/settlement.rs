//! Decides what the payments of an agreement mean for its order. Everything here is pure.
//!
//! A payment counts for an order only in the order's currency or in that in which the buyer saw
//! the prices, and the order is covered only when the payments reach its whole total. A buyer may
//! have written the agreement's name into a payment, so a payment that is too small must not ship
//! anything. What the shop took itself adds up with the payments ([`super::account`]).
//!
//! An agreement can be paid several times, in cycles. The order itself is the first cycle. Each
//! further cycle costs the order's total again, is settled by its own payments alone, and has a
//! fulfilment of its own.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::FinancialStatus;
use super::record::{Record, Totals};
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
    /// The part of it that is a tip. It pays for nothing, and is no money too much.
    pub tip: i64,
    /// The amount that went back: it was refunded, or the customer's bank has taken it for good.
    pub refunded: i64,
    /// True when all of it went back.
    pub fully_refunded: bool,
    /// True while the customer's bank has taken money of it and has not decided whose it is.
    pub is_disputed: bool,
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
    /// True while one of the payments is disputed. Nothing is shipped until that is decided.
    pub is_disputed: bool,
    /// When the first of the payments was canceled, in Unix milliseconds.
    pub canceled_at: Option<i64>,
    /// True when one of the payments is in a currency that is not the order's.
    pub is_foreign: bool,
    /// What was captured and what was refunded of each payment, in minor units of the order's
    /// currency.
    pub amounts: Vec<(i64, i64)>,
    /// What the payment page took off and added, in minor units of the order's currency.
    pub discount: i64,
    pub added: i64,
}

impl Linked {
    /// True when money came in, even if that is only known because some of it was refunded.
    pub fn is_paid(&self) -> bool {
        self.received > 0 || self.refunded > 0
    }

    /// What the customer got back, in minor units. The bank may take a payment that was refunded before, and then more is
    /// gone than came in.
    pub fn given_back(&self) -> i64 {
        if self.received > 0 {
            self.refunded.min(self.received)
        } else {
            self.refunded
        }
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

    fn sum(&self, cycle: &Cycle, currency: Currency, amount: fn(&PriceChange) -> i64) -> i64 {
        let price_changes = self.price_changes.iter();
        let price_changes =
            price_changes.filter(|it| it.cycle == *cycle && it.currency == currency);
        price_changes.fold(0, |sum, change| sum.saturating_add(amount(change)))
    }

    /// True when these can be the payments of this order: all are in a currency of the order, and
    /// the payments of each cycle come to no more than the order's total with the tax and
    /// shipping that the page added. Payments that do not fit are left to people to decide,
    /// because a buyer may have written the agreement's name into them.
    pub fn are_of(&self, record: &Record) -> bool {
        let totals = &record.totals.value;
        let (Some(currency), Some(total)) = (totals.currency, totals.total) else {
            return false;
        };
        let total = totals.current.map_or(total, |current| current.max(total));
        let mut received: BTreeMap<&Cycle, i64> = BTreeMap::new();
        for payment in self.linked.iter().filter(|it| it.is_paid()) {
            let Some((amount, _)) = in_order(totals, payment) else {
                return false;
            };
            let sum = received.entry(&payment.cycle).or_default();
            *sum = sum.saturating_add(amount);
        }
        received.iter().all(|(cycle, received)| {
            let added = self.sum(cycle, currency, |change| change.added);
            *received <= total.saturating_add(added)
        })
    }
}

/// What was captured without the tip and what was refunded of a payment, in minor units of the
/// order's currency. The storefront says what its total is in the currency in which the buyer saw the prices, so an
/// amount in that currency is the same part of the total. None in any other currency.
fn in_order(totals: &Totals, payment: &Linked) -> Option<(i64, i64)> {
    let received = payment.received.saturating_sub(payment.tip);
    if Some(payment.currency) == totals.currency {
        return Some((received, payment.refunded));
    }
    let seen = totals
        .presentment
        .filter(|seen| seen.currency == payment.currency)?;
    let (ours, theirs) = match (totals.current, seen.current) {
        (Some(ours), Some(theirs)) if ours > 0 && theirs > 0 => (ours, theirs),
        _ => (totals.total?, seen.total),
    };
    let convert = |amount: i64| {
        let ours = i128::from(amount) * i128::from(ours) / i128::from(theirs.max(1));
        i64::try_from(ours).ok()
    };
    Some((convert(received)?, convert(payment.refunded)?))
}

/// Chooses the payments whose whole money is beyond the price of the order, in the sequence in which they are given, and
/// says what is too much besides, in minor units of the order's currency. A payment that is `going` back already, or that a
/// bank has taken, counts as gone. A payment that is `kept_back` stays, whatever is too much.
pub fn beyond_price<'a>(
    record: &Record,
    payments: impl IntoIterator<Item = &'a Linked>,
    is_going: impl Fn(&Linked) -> bool,
    is_kept_back: impl Fn(&Linked) -> bool,
) -> (Vec<&'a Linked>, i64) {
    let totals = &record.totals.value;
    let kept = |payment: &'a Linked| {
        let (received, back) = in_order(totals, payment)?;
        let kept = received.saturating_sub(back);
        (payment.cycle.is_first() && kept > 0).then_some((payment, kept))
    };
    let kept = payments.into_iter().filter_map(kept);
    let (going, staying): (Vec<_>, Vec<_>) =
        kept.partition(|(payment, _)| is_going(payment) || payment.is_disputed);
    let going = going.iter().map(|(_, kept)| *kept);
    let mut too_much = going.fold(record.too_much(), i64::saturating_sub);
    let whole = staying.into_iter().filter(|(payment, kept)| {
        let is_beyond = *kept <= too_much && !is_kept_back(payment);
        too_much -= if is_beyond { *kept } else { 0 };
        is_beyond
    });
    let whole = whole.map(|(payment, _)| payment).collect();
    (whole, too_much.max(0))
}

/// Writes into the record what the payments of the first cycle come to now. The result depends
/// only on the payments given here, and replaces what was written before.
pub fn settle(record: &mut Record, payments: &Payments) {
    let cycle = Cycle::first();
    record.settled = amounts(&record.totals.value, payments, &cycle);
    let covers = payments.is_subscription_paid || record.is_covered();
    record.settled.decide(covers, &payments.of(&cycle));
}

/// What the payments of the further cycles come to, for each cycle by itself.
pub fn cycles(record: &Record, payments: &Payments) -> BTreeMap<Cycle, Settlement> {
    let totals = &record.totals.value;
    let price = totals.current.or(totals.total);
    let named = payments.linked.iter().map(|it| &it.cycle);
    let further = named.filter(|cycle| !cycle.is_first());
    further
        .map(|cycle| {
            let mut settled = amounts(totals, payments, cycle);
            let reached = settled.reached();
            let is_certain = record.contradiction().is_none();
            let reaches = price.is_some_and(|price| reached >= price);
            let covers = reached > 0 && reaches && is_certain;
            settled.decide(covers, &payments.of(cycle));
            (cycle.clone(), settled)
        })
        .collect()
}

/// The amounts of a cycle, of which nothing is decided yet.
fn amounts(totals: &Totals, payments: &Payments, cycle: &Cycle) -> Settlement {
    let linked = payments.of(cycle);
    let by_page = |amount| {
        let currency = totals.currency;
        currency.map_or(0, |currency| payments.sum(cycle, currency, amount))
    };
    let paid: Vec<&&Linked> = linked.iter().filter(|it| it.is_paid()).collect();
    let amounts = paid.iter().filter_map(|payment| {
        let (received, back) = in_order(totals, payment)?;
        // The provider may say that all of it is back before it is known how much came.
        let all = payment.fully_refunded.then_some(received);
        Some((received, back.max(all.unwrap_or(0))))
    });
    let amounts: Vec<(i64, i64)> = amounts.collect();
    Settlement {
        is_disputed: linked.iter().any(|it| it.is_disputed),
        canceled_at: linked.iter().filter_map(|it| it.canceled_at).min(),
        is_foreign: amounts.len() < paid.len(),
        amounts,
        discount: by_page(|change| change.discount),
        added: by_page(|change| change.added),
        ..Settlement::default()
    }
}

/// Whether all that was captured went back. Of a payment of which only a refund is known, nobody
/// knows it.
pub(super) fn is_back((received, back): &(i64, i64)) -> bool {
    *received > 0 && back >= received
}

impl Settlement {
    /// What the payments and the discount of the payment page come to. A fully refunded payment
    /// does not count beside others that are not. When all payments were fully refunded they do
    /// count: the order was covered, and its money was given back.
    pub(super) fn reached(&self) -> i64 {
        let all_back = self.is_all_back();
        let standing = self.amounts.iter().filter(|it| all_back || !is_back(it));
        standing.fold(self.discount, |sum, (received, _)| {
            sum.saturating_add(*received)
        })
    }

    pub(super) fn is_all_back(&self) -> bool {
        self.amounts.iter().all(is_back)
    }

    fn decide(&mut self, covers: bool, linked: &[&Linked]) {
        let mut paid = linked.iter().filter(|it| it.is_paid()).peekable();
        self.covers = covers;
        self.status = match () {
            () if paid.peek().is_none() => covers.then_some(FinancialStatus::Paid),
            () if paid.clone().all(|it| it.fully_refunded) => Some(FinancialStatus::Refunded),
            () if paid.any(|it| it.refunded > 0) => Some(FinancialStatus::PartiallyRefunded),
            () if covers => Some(FinancialStatus::Paid),
            () => Some(FinancialStatus::PartiallyPaid),
        };
    }
}

/// The status that the storefront reports or the one that follows from the payments, whichever is
/// further on, because each side may not know what the other knows.
pub fn status(
    storefront: Option<&FinancialStatus>,
    payments: Option<&FinancialStatus>,
) -> Option<FinancialStatus> {
    use FinancialStatus::{Authorized, Paid, PartiallyPaid, PartiallyRefunded, Refunded};
    let further = [Authorized, PartiallyPaid, Paid, PartiallyRefunded, Refunded];
    let progress = |status| further.iter().position(|it| it == status);
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
