//! What was taken for an order, what of it went back, and what is still due: by the shop itself
//! and by the payment provider together. What is paid, to be shipped and owed is asked here.
//! Amounts are minor units of the order's currency, and everything is computed from the record
//! alone.
//!
//! The shop says in the signed body what is outstanding of the current total, so what it has taken
//! and not given back is the difference. Its status decides only where there is no amount. The
//! payments are known from the provider. The shop may or may not know of a payment. It knows of it
//! when it has taken at least as much, and it does not when the payment is exactly what the shop
//! still waits for. In doubt it knows, because then less is owed.

use super::FinancialStatus;
use super::record::Record;
use super::settlement::is_back;

/// What the storefront says of the money that it knows of.
struct Shop {
    /// What it has taken and not given back. None when it does not say how much.
    kept: Option<i64>,
    outstanding: Option<i64>,
    is_paid: bool,
}

/// What the shop has taken by itself, and no provider that we hear of.
struct Own {
    taken: i64,
    kept: i64,
}

/// What a version of an order says of its money that cannot be true together. Nothing is shipped or given back of it until
/// a newer version or a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// The status says that it is paid, and a part of it is outstanding.
    PaidAndOutstanding,
    TotalBelowZero,
    /// The total is given in two currencies of the shop.
    CurrenciesDiffer,
}

impl Record {
    pub fn contradiction(&self) -> Option<Contradiction> {
        let totals = &self.totals.value;
        let is_below_zero = |amount: Option<i64>| amount.is_some_and(|amount| amount < 0);
        if totals.other_currency.is_some() {
            return Some(Contradiction::CurrenciesDiffer);
        }
        if is_below_zero(totals.total) || is_below_zero(totals.current) {
            return Some(Contradiction::TotalBelowZero);
        }
        let shop = self.shop();
        let says_paid = self.financial.value == Some(FinancialStatus::Paid);
        let is_outstanding = shop.outstanding.is_some() && !shop.is_paid;
        let is_open = self.cancelled.is_none() && !self.settled.covers;
        (says_paid && is_outstanding && is_open).then_some(Contradiction::PaidAndOutstanding)
    }

    /// True when all of the order is paid for. A status that was true once is no fact for ever:
    /// when the shop says that a paid order is not paid any more, it is not, whatever the
    /// payments say.
    pub fn is_paid(&self) -> bool {
        let is_stale = self.settled.amounts.iter().any(is_back);
        let shop_counts = !is_stale || self.is_enough();
        let is_doubtful = self.is_taken_back() || self.contradiction().is_some();
        !is_doubtful && (self.settled.covers || (self.shop().is_paid && shop_counts))
    }

    /// True when the order is to be shipped before it is paid.
    pub fn ships_first(&self) -> bool {
        self.pays_later() && self.means.value.terms.is_some_and(|it| !it.pays_first)
    }

    /// True when the buyer is to pay later for what could be shipped, and the shop decided to wait
    /// for the money.
    pub fn waits_by_terms(&self) -> bool {
        let waits = self.means.value.terms.is_some_and(|it| it.pays_first);
        waits && self.pays_later() && !self.is_paid() && !self.is_test && self.is_open()
    }

    fn pays_later(&self) -> bool {
        matches!(
            self.financial.value,
            None | Some(FinancialStatus::Pending | FinancialStatus::PartiallyPaid)
        )
    }

    /// True when the storefront says that the order was refunded in full, or when all of its
    /// payments were and the shop has kept nothing of its own.
    pub fn is_given_back(&self) -> bool {
        let by_payments = self.settled.status == Some(FinancialStatus::Refunded);
        self.financial.value == Some(FinancialStatus::Refunded)
            || (by_payments && self.own().is_none_or(|own| own.kept == 0))
    }

    /// What was taken for the order and not given back. None when the shop does not say it.
    pub fn kept(&self) -> Option<i64> {
        let own = self.own()?.kept;
        Some(own.saturating_add(self.kept_by_provider()))
    }

    /// What the shop has to give back for a cancelled order besides the payments, which are given
    /// back by the provider. None when the shop does not say how much it took.
    pub fn owed_by_shop(&self) -> Option<i64> {
        Some(self.own()?.kept)
    }

    /// What is owed for a cancelled order in all, by the shop and the provider. What the shop gave
    /// back past the provider is not given back again.
    pub fn owed(&self) -> Option<i64> {
        if self.cancelled.is_none() {
            return Some(0);
        }
        let by_provider = self.kept_by_provider().saturating_sub(self.past_provider());
        Some(self.owed_by_shop()?.saturating_add(by_provider.max(0)))
    }

    /// What was taken beyond the price, as by a second payment for the same order.
    pub fn too_much(&self) -> i64 {
        let price = self.price().zip(self.kept());
        match price {
            Some((price, kept)) if self.cancelled.is_none() && self.contradiction().is_none() => {
                let price = price.saturating_add(self.settled.added);
                within(kept.saturating_sub(price), self.tolerance()).max(0)
            }
            _ => 0,
        }
    }

    /// True when a payment went back, or a part of one.
    pub fn is_any_back(&self) -> bool {
        self.settled.amounts.iter().any(|(_, back)| *back > 0)
    }

    /// True when the shop gave money back past the providers. A person must find out whether this
    /// was the money of a payment.
    pub fn is_back_past_providers(&self) -> bool {
        self.refunds
            .value
            .iter()
            .any(|refund| refund.past_providers)
    }

    /// What the storefront gave back. None when it does not say how much.
    pub fn returned_by_shop(&self) -> Option<i64> {
        let mut refunds = self.refunds.value.iter();
        refunds.try_fold(0_i64, |sum, refund| {
            Some(sum.saturating_add(refund.amount?))
        })
    }

    /// True when the payments, together with what the shop took itself and with what the payment
    /// page took off, pay for all of the order. Money that went back in part does not make an
    /// order unpaid whose total it once reached.
    pub(super) fn is_covered(&self) -> bool {
        let totals = &self.totals.value;
        let Some(total) = totals.total else {
            return false;
        };
        let highest = totals.current.map_or(total, |current| current.max(total));
        let by_payments = self.settled.reached();
        let own = self
            .own()
            .filter(|own| own.kept == 0 || !self.settled.is_all_back());
        let all = by_payments.saturating_add(own.map_or(0, |own| own.taken));
        let reaches = all.saturating_add(self.tolerance()) >= highest;
        by_payments > 0 && (reaches || self.is_enough())
    }

    /// True when what is kept reaches the price.
    fn is_enough(&self) -> bool {
        let kept = self.kept().unwrap_or(self.kept_by_provider());
        let kept = kept.saturating_add(self.settled.discount);
        let reached = kept.saturating_add(self.tolerance());
        kept > 0 && self.price().is_some_and(|price| reached >= price)
    }

    /// What is to be paid for what is still part of the order.
    pub(crate) fn price(&self) -> Option<i64> {
        let totals = &self.totals.value;
        totals.current.or_else(|| {
            let back = self.returned_by_shop().unwrap_or(0);
            Some(totals.total?.saturating_sub(back))
        })
    }

    /// The shop said that the order is paid, and now says that it is not. Only a storefront does
    /// so that can take everything back.
    pub(super) fn is_taken_back(&self) -> bool {
        self.can_come_back()
            && self.was_paid
            && matches!(
                self.financial.value,
                Some(
                    FinancialStatus::Pending
                        | FinancialStatus::Authorized
                        | FinancialStatus::Voided
                        | FinancialStatus::Expired
                )
            )
    }

    fn shop(&self) -> Shop {
        let (price, status) = (self.price(), self.financial.value.as_ref());
        let Some((price, outstanding)) = price.zip(self.outstanding.value) else {
            return self.shop_by_status(price);
        };
        let is_settled = match status {
            // Samples of documentation say that an order is paid and that all of it is
            // outstanding.
            Some(FinancialStatus::Paid) if outstanding >= price && price > 0 => None,
            Some(FinancialStatus::Paid | FinancialStatus::PartiallyRefunded) => Some(true),
            Some(FinancialStatus::PartiallyPaid) => Some(false),
            // Some version was paid, so these amounts are of money that was taken.
            Some(FinancialStatus::Pending | FinancialStatus::Voided | FinancialStatus::Expired) => {
                self.was_paid.then_some(false)
            }
            _ => None,
        };
        let Some(is_settled) = is_settled else {
            return self.shop_by_status(Some(price));
        };
        let rounding = self.totals.value.cash_rounding;
        Shop {
            kept: Some(within(price.saturating_sub(outstanding), rounding).max(0)),
            outstanding: Some(outstanding),
            is_paid: is_settled && within(outstanding, rounding) <= 0,
        }
    }

    fn shop_by_status(&self, price: Option<i64>) -> Shop {
        let (kept, is_paid) = match &self.financial.value {
            Some(FinancialStatus::Paid | FinancialStatus::PartiallyRefunded) => {
                // Without the current total the price is only known with what went back.
                let is_known =
                    self.totals.value.current.is_some() || self.returned_by_shop().is_some();
                (price.filter(|_| is_known), true)
            }
            Some(FinancialStatus::PartiallyPaid) => (None, false),
            // It was paid, and its money was given back.
            Some(FinancialStatus::Refunded) => (Some(0), self.was_paid),
            _ => (Some(0), false),
        };
        Shop {
            kept,
            outstanding: None,
            is_paid,
        }
    }

    fn own(&self) -> Option<Own> {
        let shop = self.shop();
        let kept = shop.kept?;
        let payments = &self.settled.amounts;
        let back = self.returned_by_shop();
        let received: Vec<i64> = payments.iter().map(|(received, _)| *received).collect();
        let all = sum(received.iter().copied());
        // What went back and is not known may have been the provider's.
        let taken = kept.saturating_add(back.unwrap_or(all));
        let is_waited_for = shop.outstanding.is_some_and(|outstanding| {
            outstanding > 0 && outstanding == self.kept_by_provider() && taken != all
        });
        let knows_none = self.means.value.own_credit || is_waited_for;
        let known = if knows_none { 0 } else { most(received, taken) };
        let taken = taken.saturating_sub(known);
        let back_of_own = self.unexplained_back(back.unwrap_or(0));
        let kept = taken.saturating_sub(back_of_own).max(0).min(kept);
        // Nobody pays a part of what is outstanding and more. What the shop knows of is then a part
        // of these payments.
        let by_provider = self.kept_by_provider();
        let is_part = self.price().is_some_and(|price| {
            let most = price.saturating_add(self.settled.added);
            let all = by_provider.saturating_add(kept);
            (1..price).contains(&by_provider) && all > most.saturating_add(self.tolerance())
        });
        if is_part && !knows_none && shop.outstanding > Some(0) {
            return Some(Own { taken: 0, kept: 0 });
        }
        Some(Own { taken, kept })
    }

    /// The part of what the shop gave back that the provider did not.
    fn unexplained_back(&self, back: i64) -> i64 {
        let by_provider = self.settled.amounts.iter().map(|(_, back)| *back);
        back.saturating_sub(most(by_provider.collect(), back))
    }

    /// The part of the payments that the shop gave back past their provider.
    fn past_provider(&self) -> i64 {
        let refunds = self.refunds.value.iter().filter(|it| it.past_providers);
        let past = sum(refunds.filter_map(|refund| refund.amount));
        let own = self.own().map_or(0, |own| own.taken);
        past.saturating_sub(own).max(0)
    }

    pub(crate) fn kept_by_provider(&self) -> i64 {
        let payments = self.settled.amounts.iter();
        sum(payments.map(|(received, back)| received.saturating_sub(*back).max(0)))
    }

    /// The difference that is only rounding, in minor units: that of cash, and the third decimal of a currency that has
    /// three, because the provider takes no more than two (its documentation, special cases).
    fn tolerance(&self) -> i64 {
        let currency = self.totals.value.currency;
        let tens = currency.is_some_and(|currency| currency.exponent() == 3);
        let tens = if tens { 9 } else { 0 };
        self.totals.value.cash_rounding.max(tens)
    }
}

/// Zero for an amount that is only rounding.
fn within(amount: i64, rounding: i64) -> i64 {
    if amount.saturating_abs() <= rounding {
        0
    } else {
        amount
    }
}

fn sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

/// The sum of the amounts, or of the largest of them that fit into the limit together.
fn most(mut amounts: Vec<i64>, limit: i64) -> i64 {
    amounts.sort_unstable_by(|a, b| b.cmp(a));
    amounts.into_iter().fold(0, |sum, amount| {
        let next = sum.saturating_add(amount);
        if next <= limit { next } else { sum }
    })
}
