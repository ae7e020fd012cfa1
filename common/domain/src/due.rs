//! How much of an order is still to be paid. Storefront and payments may not know of each other,
//! so the answer is the smaller of two amounts: what the storefront last called outstanding, and
//! the price less what was [kept](Record::kept). In doubt the buyer is told to ask the shop, and is
//! never asked for a larger amount. Pure.

use crate::money::Money;
use crate::order::FinancialStatus;
use crate::order::outcome::FulfillmentState;
use crate::order::record::Record;

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

impl Record {
    pub fn due(&self) -> AmountDue {
        let nothing = match self.financial_status() {
            _ if self.cancelled.is_some() => Some(NothingDue::Cancelled),
            Some(FinancialStatus::Paid) => Some(NothingDue::Paid),
            Some(FinancialStatus::PartiallyRefunded) if self.is_paid() => {
                Some(NothingDue::PartiallyRefunded)
            }
            Some(FinancialStatus::Refunded) => Some(NothingDue::Refunded),
            Some(FinancialStatus::Voided) => Some(NothingDue::Voided),
            Some(FinancialStatus::Authorized) => Some(NothingDue::Authorized),
            _ => None,
        };
        if let Some(nothing) = nothing {
            return AmountDue::Nothing(nothing);
        }
        match self.left().zip(self.totals.value.currency) {
            Some((minor, _)) if minor <= 0 => AmountDue::Nothing(NothingDue::Zero),
            Some((minor, currency)) if self.fulfillment_state() != FulfillmentState::Cancelled => {
                AmountDue::Amount(Money { minor, currency })
            }
            _ => AmountDue::AskShop,
        }
    }

    /// What is left to be paid of an order that is not settled, if that is known.
    fn left(&self) -> Option<i64> {
        let price = self.price();
        let stated = match &self.financial.value {
            // The price is no substitute here, because it would ask again for the part that is
            // paid.
            Some(FinancialStatus::PartiallyPaid | FinancialStatus::PartiallyRefunded) => {
                self.outstanding.value
            }
            _ => self.outstanding.value.or(price),
        }?;
        let kept = self.kept().unwrap_or(self.kept_by_provider());
        match price {
            _ if self.settled.is_foreign => None,
            None => Some(stated).filter(|_| kept == 0),
            Some(price) => Some(stated.min(price.saturating_sub(kept))),
        }
    }
}
