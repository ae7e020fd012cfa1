//! What is still due for an order.

use domain::due::{AmountDue, NothingDue};
use domain::money::{Currency, Money};
use domain::order::Order;
use domain::order::record::{Cancellation, Record};
use domain::order::settlement::{Cycle, Linked, Payments, settle};
use serde_json::json;

fn usd(minor: i64) -> Money {
    let currency = Currency::parse("USD").unwrap();
    Money { minor, currency }
}

/// An order of 403 dollars.
fn order(status: Option<&str>, outstanding: Option<i64>) -> Record {
    let outstanding = outstanding.map(|minor| usd(minor).to_string());
    let body = json!({
        "id": 7, "updated_at": "2027-01-15T12:00:00Z", "currency": "USD", "total_price": "403.00",
        "financial_status": status, "total_outstanding": outstanding,
    });
    let body = body.to_string();
    let order = Order::read(body.as_bytes()).expect("an order");
    Record::of(order, None, body.as_bytes(), 0)
}

/// The same with a payment that the storefront may not know.
fn paid(status: &str, outstanding: Option<i64>, currency: &str, received: i64) -> Record {
    let mut order = order(Some(status), outstanding);
    let payment = Linked {
        id: "pi_1".to_owned(),
        currency: Currency::parse(currency).unwrap(),
        received,
        tip: 0,
        refunded: 0,
        fully_refunded: false,
        is_disputed: false,
        canceled_at: None,
        cycle: Cycle::first(),
    };
    let payments = Payments {
        linked: vec![payment],
        ..Payments::default()
    };
    settle(&mut order, &payments);
    order
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
            order(status, Some(1)).due(),
            AmountDue::Amount(usd(1)),
            "{status:?}"
        );
        assert_eq!(
            order(status, None).due(),
            AmountDue::Amount(usd(40_300)),
            "{status:?}"
        );
    }
}

#[test]
fn a_partly_paid_order_never_owes_its_total() {
    for status in ["partially_paid", "partially_refunded"] {
        let status = Some(status);
        assert_eq!(
            order(status, Some(300)).due(),
            AmountDue::Amount(usd(300)),
            "{status:?}"
        );
    }
    assert_eq!(
        order(Some("partially_paid"), None).due(),
        AmountDue::AskShop
    );
}

#[test]
fn of_what_is_outstanding_and_what_no_payment_brought_the_smaller_is_due() {
    for (stated, outstanding, received, due) in [
        ("partially_paid", Some(24_200), 28_200, 12_100),
        ("partially_paid", Some(12_100), 28_200, 12_100),
        ("partially_paid", Some(5_000), 28_200, 5_000),
        ("partially_paid", Some(90_000), 28_200, 12_100),
        ("pending", Some(40_300), 28_200, 12_100),
        ("pending", None, 28_200, 12_100),
    ] {
        let order = paid(stated, outstanding, "USD", received);
        assert_eq!(
            order.due(),
            AmountDue::Amount(usd(due)),
            "{stated} {outstanding:?}"
        );
    }
    let zero = paid("partially_paid", Some(24_200), "USD", 50_000).due();
    assert!(matches!(zero, AmountDue::Nothing(_)), "{zero:?}");
}

#[test]
fn what_a_payment_brought_that_cannot_be_subtracted_is_a_question_for_the_shop() {
    let ask = |order: &Record| assert_eq!(order.due(), AmountDue::AskShop);
    // The storefront knows of a part, which may be this payment or another one.
    ask(&paid("partially_paid", None, "USD", 100));
    ask(&paid("pending", Some(40_300), "EUR", 100));
    let mut unknown = paid("pending", Some(40_300), "USD", 100);
    unknown.totals.value.total = None;
    ask(&unknown);
}

#[test]
fn a_settled_order_owes_nothing_whatever_is_outstanding() {
    for (status, settled) in [
        ("paid", NothingDue::Paid),
        ("refunded", NothingDue::Refunded),
        ("voided", NothingDue::Voided),
        ("authorized", NothingDue::Authorized),
    ] {
        for outstanding in [None, Some(500)] {
            let due = order(Some(status), outstanding).due();
            assert_eq!(due, AmountDue::Nothing(settled), "{status} {outstanding:?}");
        }
    }
    for outstanding in [None, Some(0)] {
        let due = order(Some("partially_refunded"), outstanding).due();
        let settled = NothingDue::PartiallyRefunded;
        assert_eq!(due, AmountDue::Nothing(settled), "{outstanding:?}");
    }
}

#[test]
fn a_cancelled_order_owes_nothing_whatever_its_status() {
    for status in [None, Some("pending"), Some("paid"), Some("partially_paid")] {
        let mut cancelled = order(status, Some(500));
        cancelled.cancelled = Some(Cancellation {
            at: 1,
            reason: None,
        });
        assert_eq!(cancelled.due(), AmountDue::Nothing(NothingDue::Cancelled));
    }
}

#[test]
fn an_order_that_will_not_be_shipped_asks_for_no_money() {
    let withdrawn = |outstanding| {
        let mut order = order(Some("pending"), outstanding);
        order.settled.canceled_at = Some(1);
        order.due()
    };
    assert_eq!(withdrawn(None), AmountDue::AskShop);
    assert_eq!(withdrawn(Some(0)), AmountDue::Nothing(NothingDue::Zero));
}

#[test]
fn zero_and_less_are_nothing_and_no_amount_at_all_is_a_question_for_the_shop() {
    for left in [0, -5] {
        let due = order(Some("pending"), Some(left)).due();
        assert_eq!(due, AmountDue::Nothing(NothingDue::Zero), "{left}");
    }
    let mut unknown = order(Some("pending"), None);
    unknown.totals.value.total = None;
    assert_eq!(unknown.due(), AmountDue::AskShop);
}
