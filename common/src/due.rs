//! What is still to be paid for an order, from what the storefront told of it last. Pure.
//! In doubt the answer is to ask the shop, and never a larger amount.

use crate::money::Money;
use crate::order::FinancialStatus;

/// What decides how much is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The order itself is cancelled.
    pub cancelled: bool,
    /// It stands, but will not be shipped.
    pub withdrawn: bool,
    pub status: Option<FinancialStatus>,
    pub total: Option<Money>,
    /// What the storefront says is left to pay, if it says so.
    pub outstanding: Option<Money>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// More than zero.
    Amount(Money),
    Nothing(Settled),
    /// Something may be due; how much, only the shop knows.
    AskShop,
}

/// Why nothing is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Cancelled,
    Paid,
    PartiallyRefunded,
    Refunded,
    Voided,
    /// The money is set aside; collecting it is the shop's part.
    Authorized,
    /// The order is open, and what is left of it is zero.
    Zero,
}

impl Account {
    pub fn due(&self) -> Due {
        if self.cancelled {
            return Due::Nothing(Settled::Cancelled);
        }
        let left = match &self.status {
            Some(FinancialStatus::Paid) => return Due::Nothing(Settled::Paid),
            Some(FinancialStatus::PartiallyRefunded) => {
                return Due::Nothing(Settled::PartiallyRefunded);
            }
            Some(FinancialStatus::Refunded) => return Due::Nothing(Settled::Refunded),
            Some(FinancialStatus::Voided) => return Due::Nothing(Settled::Voided),
            Some(FinancialStatus::Authorized) => return Due::Nothing(Settled::Authorized),
            // The total would ask again for the part that is paid.
            Some(FinancialStatus::PartiallyPaid) => self.outstanding,
            Some(
                FinancialStatus::Pending | FinancialStatus::Expired | FinancialStatus::Other(_),
            )
            | None => self.outstanding.or(self.total),
        };
        match left {
            Some(money) if money.minor <= 0 => Due::Nothing(Settled::Zero),
            Some(money) if !self.withdrawn => Due::Amount(money),
            _ => Due::AskShop,
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
        Account {
            cancelled: false,
            withdrawn: false,
            status: status.map(|status| FinancialStatus::from(status.to_owned())),
            total: Some(usd(40_300)),
            outstanding: outstanding.map(usd),
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
                Due::Amount(usd(1)),
                "{status:?}"
            );
            assert_eq!(
                account(status, None).due(),
                Due::Amount(usd(40_300)),
                "{status:?}"
            );
        }
    }

    #[test]
    fn a_partly_paid_order_never_owes_its_total() {
        let status = Some("partially_paid");
        assert_eq!(account(status, Some(300)).due(), Due::Amount(usd(300)));
        assert_eq!(account(status, None).due(), Due::AskShop);
    }

    #[test]
    fn a_settled_order_owes_nothing_whatever_is_outstanding() {
        for (status, settled) in [
            ("paid", Settled::Paid),
            ("partially_refunded", Settled::PartiallyRefunded),
            ("refunded", Settled::Refunded),
            ("voided", Settled::Voided),
            ("authorized", Settled::Authorized),
        ] {
            for outstanding in [None, Some(500)] {
                let due = account(Some(status), outstanding).due();
                assert_eq!(due, Due::Nothing(settled), "{status} {outstanding:?}");
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
            assert_eq!(cancelled.due(), Due::Nothing(Settled::Cancelled));
        }
    }

    #[test]
    fn an_order_that_will_not_be_shipped_asks_for_no_money() {
        let withdrawn = |status, outstanding| Account {
            withdrawn: true,
            ..account(Some(status), outstanding)
        };
        assert_eq!(withdrawn("pending", None).due(), Due::AskShop);
        assert_eq!(
            withdrawn("pending", Some(0)).due(),
            Due::Nothing(Settled::Zero)
        );
        assert_eq!(withdrawn("paid", None).due(), Due::Nothing(Settled::Paid));
    }

    #[test]
    fn zero_and_less_are_nothing_and_no_amount_at_all_is_a_question_for_the_shop() {
        for left in [0, -5, i64::MIN] {
            let due = account(Some("pending"), Some(left)).due();
            assert_eq!(due, Due::Nothing(Settled::Zero), "{left}");
        }
        let unknown = Account {
            total: None,
            ..account(Some("pending"), None)
        };
        assert_eq!(unknown.due(), Due::AskShop);
    }
}
