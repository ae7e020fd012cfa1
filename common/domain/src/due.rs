//! How much of an order is still to be paid. Storefront and payments may not know of each other,
//! so the answer is the smaller of two amounts: what the storefront last called outstanding, and
//! the total less what the known payments brought. In doubt the buyer is told to ask the shop,
//! and is never asked for a larger amount. Pure.

use crate::money::Money;
use crate::order::FinancialStatus;

/// The facts that decide how much is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// True when the order itself is cancelled.
    pub cancelled: bool,
    /// True when the order is not cancelled but will not be shipped.
    pub withdrawn: bool,
    /// The status that the storefront reports.
    pub stated: Option<FinancialStatus>,
    /// The status that is further on: the storefront's or the one that follows from the payments.
    pub status: Option<FinancialStatus>,
    pub total: Option<Money>,
    /// What is left to be paid according to the storefront, if it says so.
    pub outstanding: Option<Money>,
    /// What the payments that are linked to the order brought, less refunds, in minor units of
    /// the order's currency. None when one of the payments is in another currency.
    pub brought: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountDue {
    /// An amount above zero.
    Amount(Money),
    Nothing(NothingDue),
    /// Something may be due, but only the shop knows how much.
    AskShop,
}

/// Why nothing is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingDue {
    Cancelled,
    Paid,
    PartiallyRefunded,
    Refunded,
    Voided,
    /// The money is authorised, and it is the shop's part to capture it.
    Authorized,
    /// The order is open, but zero is left to be paid.
    Zero,
}

impl Account {
    pub fn due(&self) -> AmountDue {
        if self.cancelled {
            return AmountDue::Nothing(NothingDue::Cancelled);
        }
        match &self.status {
            Some(FinancialStatus::Paid) => return AmountDue::Nothing(NothingDue::Paid),
            Some(FinancialStatus::PartiallyRefunded) => {
                return AmountDue::Nothing(NothingDue::PartiallyRefunded);
            }
            Some(FinancialStatus::Refunded) => return AmountDue::Nothing(NothingDue::Refunded),
            Some(FinancialStatus::Voided) => return AmountDue::Nothing(NothingDue::Voided),
            Some(FinancialStatus::Authorized) => return AmountDue::Nothing(NothingDue::Authorized),
            Some(
                FinancialStatus::PartiallyPaid
                | FinancialStatus::Pending
                | FinancialStatus::Expired
                | FinancialStatus::Other(_),
            )
            | None => {}
        }
        match self.left() {
            Some(money) if money.minor <= 0 => AmountDue::Nothing(NothingDue::Zero),
            Some(money) if !self.withdrawn => AmountDue::Amount(money),
            _ => AmountDue::AskShop,
        }
    }

    /// What is left to be paid of an order that is not settled, if that is known.
    fn left(&self) -> Option<Money> {
        let stated = match &self.stated {
            // The total is no substitute here, because it would ask again for the part that is
            // paid.
            Some(FinancialStatus::PartiallyPaid) => self.outstanding,
            _ => self.outstanding.or(self.total),
        }?;
        match (self.total, self.brought?) {
            (None, 0) => Some(stated),
            (None, _) => None,
            (Some(total), brought) => Some(Money {
                minor: stated.minor.min(total.minor.saturating_sub(brought)),
                ..stated
            }),
        }
    }
}
