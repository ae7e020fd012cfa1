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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Currency;

    fn usd(minor: i64) -> Money {
        let currency = Currency::parse("USD").unwrap();
        Money { minor, currency }
    }

    fn account(status: Option<&str>, outstanding: Option<i64>) -> Account {
        let status = status.map(|status| FinancialStatus::from(status.to_owned()));
        Account {
            cancelled: false,
            withdrawn: false,
            stated: status.clone(),
            status,
            total: Some(usd(40_300)),
            outstanding: outstanding.map(usd),
            brought: Some(0),
        }
    }

    /// An order of 403 dollars with payments that the storefront may not know.
    fn paid(stated: &str, outstanding: Option<i64>, brought: Option<i64>) -> Account {
        Account {
            status: Some(FinancialStatus::PartiallyPaid),
            brought,
            ..account(Some(stated), outstanding)
        }
    }

    #[test]
    fn an_open_order_owes_what_is_outstanding_or_else_its_total() {
        for status in [
            None,
            Some("pending"),
            Some("expired"),
            Some("something new"),
        ] {
            assert_eq!(
                account(status, Some(1)).due(),
                AmountDue::Amount(usd(1)),
                "{status:?}"
            );
            assert_eq!(
                account(status, None).due(),
                AmountDue::Amount(usd(40_300)),
                "{status:?}"
            );
        }
    }

    #[test]
    fn a_partly_paid_order_never_owes_its_total() {
        let status = Some("partially_paid");
        assert_eq!(
            account(status, Some(300)).due(),
            AmountDue::Amount(usd(300))
        );
        assert_eq!(account(status, None).due(), AmountDue::AskShop);
    }

    #[test]
    fn of_what_is_outstanding_and_what_no_payment_brought_the_smaller_is_due() {
        for (stated, outstanding, brought, due) in [
            ("partially_paid", Some(24_200), 28_200, 12_100),
            ("partially_paid", Some(5_000), 28_200, 5_000),
            ("partially_paid", Some(90_000), 28_200, 12_100),
            ("pending", Some(40_300), 28_200, 12_100),
            ("pending", None, 28_200, 12_100),
        ] {
            let account = paid(stated, outstanding, Some(brought));
            assert_eq!(
                account.due(),
                AmountDue::Amount(usd(due)),
                "{stated} {outstanding:?}"
            );
        }
        let zero = paid("partially_paid", Some(24_200), Some(50_000)).due();
        assert_eq!(zero, AmountDue::Nothing(NothingDue::Zero));
    }

    #[test]
    fn what_a_payment_brought_that_cannot_be_subtracted_is_a_question_for_the_shop() {
        let ask = |account: &Account| assert_eq!(account.due(), AmountDue::AskShop, "{account:?}");
        // The storefront knows of a part, which may be this payment or another one.
        ask(&paid("partially_paid", None, Some(100)));
        ask(&paid("pending", Some(40_300), None));
        ask(&Account {
            total: None,
            ..paid("pending", Some(40_300), Some(100))
        });
    }

    #[test]
    fn a_settled_order_owes_nothing_whatever_is_outstanding() {
        for (status, settled) in [
            ("paid", NothingDue::Paid),
            ("partially_refunded", NothingDue::PartiallyRefunded),
            ("refunded", NothingDue::Refunded),
            ("voided", NothingDue::Voided),
            ("authorized", NothingDue::Authorized),
        ] {
            for outstanding in [None, Some(500)] {
                let due = account(Some(status), outstanding).due();
                assert_eq!(due, AmountDue::Nothing(settled), "{status} {outstanding:?}");
            }
        }
    }

    #[test]
    fn a_cancelled_order_owes_nothing_whatever_its_status() {
        for status in [None, Some("pending"), Some("paid"), Some("partially_paid")] {
            let cancelled = Account {
                cancelled: true,
                ..account(status, Some(500))
            };
            assert_eq!(cancelled.due(), AmountDue::Nothing(NothingDue::Cancelled));
        }
    }

    #[test]
    fn an_order_that_will_not_be_shipped_asks_for_no_money() {
        let withdrawn = |status, outstanding| Account {
            withdrawn: true,
            ..account(Some(status), outstanding)
        };
        assert_eq!(withdrawn("pending", None).due(), AmountDue::AskShop);
        assert_eq!(
            withdrawn("pending", Some(0)).due(),
            AmountDue::Nothing(NothingDue::Zero)
        );
        assert_eq!(
            withdrawn("paid", None).due(),
            AmountDue::Nothing(NothingDue::Paid)
        );
    }

    #[test]
    fn zero_and_less_are_nothing_and_no_amount_at_all_is_a_question_for_the_shop() {
        for left in [0, -5, i64::MIN] {
            let due = account(Some("pending"), Some(left)).due();
            assert_eq!(due, AmountDue::Nothing(NothingDue::Zero), "{left}");
        }
        let unknown = Account {
            total: None,
            ..account(Some("pending"), None)
        };
        assert_eq!(unknown.due(), AmountDue::AskShop);
    }
}
