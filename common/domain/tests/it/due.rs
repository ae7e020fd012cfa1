//! What is still due for an order.

use domain::due::{Account, AmountDue, NothingDue};
use domain::money::{Currency, Money};
use domain::order::FinancialStatus;

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
