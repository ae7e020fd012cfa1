//! Orders and their payments: whatever is reported in whatever sequence, the state of an order
//! depends only on all that is known in the end.

use domain::money::Currency;
use domain::order::outcome::FulfillmentState;
use domain::order::record::Record;
use domain::order::settlement::{
    Cycle, Linked, Payments, PriceChange, cycles, is_cancelled_by_payment, settle, status,
};
use domain::order::{FinancialStatus, Order, Topic};
use proptest::prelude::*;
use serde_json::json;

const TOTAL: i64 = 3000;

fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

fn delivery(second: u32, financial: &str, cancelled: bool) -> Record {
    let body = json!({
        "id": 1, "created_at": "2027-01-15T08:00:00Z",
        "updated_at": format!("2027-01-15T08:00:{second:02}Z"),
        "currency": "USD", "total_price": "30.00", "financial_status": financial,
        "cancelled_at": cancelled.then_some("2027-01-15T08:00:30Z"), "line_items": [],
    })
    .to_string();
    let order = Order::read(body.as_bytes()).unwrap();
    Record::of(order, Some(Topic::Updated), body.as_bytes(), 0)
}

/// One fact that becomes known about the order or one of its payments.
#[derive(Clone, Debug)]
enum Step {
    Order {
        second: u32,
        paid: bool,
    },
    Cancelled,
    Captured(usize, i64),
    /// How many cents of a payment were refunded in all.
    Refunded(usize, i64),
    Canceled(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let amounts = prop_oneof![Just(TOTAL), Just(TOTAL / 2), Just(1_i64), Just(TOTAL + 1)];
    let step = prop_oneof![
        4 => (0..9_u32, prop::bool::weighted(0.2))
            .prop_map(|(second, paid)| Step::Order { second, paid }),
        1 => Just(Step::Cancelled),
        4 => (0..3_usize, amounts.clone()).prop_map(|(of, cents)| Step::Captured(of, cents)),
        3 => (0..3_usize, amounts).prop_map(|(of, cents)| Step::Refunded(of, cents)),
        2 => (0..3_usize).prop_map(Step::Canceled),
    ];
    prop::collection::vec(step, 1..10)
}

/// What is known about a payment. Every amount is the greatest that was reported.
#[derive(Clone, Copy, Default)]
struct Known {
    received: i64,
    refunded: i64,
    canceled: bool,
}

#[derive(Default)]
struct World {
    order: Option<Record>,
    payments: [Known; 3],
}

impl World {
    fn take(&mut self, step: &Step) {
        let reported = match step {
            Step::Order { second, paid } => {
                delivery(*second, if *paid { "paid" } else { "pending" }, false)
            }
            Step::Cancelled => delivery(30, "pending", true),
            Step::Captured(of, cents) => {
                let payment = &mut self.payments[*of];
                payment.received = payment.received.max(*cents);
                return;
            }
            Step::Refunded(of, cents) => {
                let payment = &mut self.payments[*of];
                payment.refunded = payment.refunded.max(*cents);
                return;
            }
            Step::Canceled(of) => {
                self.payments[*of].canceled = true;
                return;
            }
        };
        match &mut self.order {
            Some(order) => order.merge(reported),
            None => self.order = Some(reported),
        }
    }

    /// Settles the order, as the handlers do after each step.
    fn settle(&mut self) {
        let Some(order) = &mut self.order else { return };
        let linked = self.payments.iter().zip(0..).filter_map(|(known, nth)| {
            let is_paid = known.received > 0 || known.refunded > 0;
            (is_paid || known.canceled).then(|| Linked {
                id: format!("pi_{nth}"),
                currency: usd(),
                received: known.received,
                tip: 0,
                refunded: known.refunded,
                fully_refunded: known.received > 0 && known.refunded >= known.received,
                is_disputed: false,
                canceled_at: (known.canceled && !is_paid).then_some(nth),
                cycle: Cycle::first(),
            })
        });
        let payments = Payments {
            linked: linked.collect(),
            ..Payments::default()
        };
        settle(order, &payments);
    }

    fn end(&self) -> Option<(FulfillmentState, Option<String>, bool)> {
        let order = self.order.as_ref()?;
        let status = order.financial_status().map(|it| it.as_str().to_owned());
        Some((
            order.fulfillment_state(),
            status,
            order.cancellation().is_some(),
        ))
    }
}

/// So many cases, unless `PROPTEST_CASES` says how many.
fn cases(many: u32) -> ProptestConfig {
    const USUAL: u32 = 256;
    let given = ProptestConfig::default();
    match given.cases {
        USUAL => ProptestConfig::with_cases(many),
        _ => given,
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn an_order_and_its_payments_end_alike_however_they_became_known(
        (steps, shuffled) in steps().prop_flat_map(|steps| {
            (Just(steps.clone()), Just(steps).prop_shuffle())
        })
    ) {
        let mut ends = Vec::new();
        for steps in [&steps, &shuffled] {
            let mut world = World::default();
            for step in steps {
                world.take(step);
                world.settle();
            }
            ends.push(world.end());
        }
        prop_assert_eq!(&ends[0], &ends[1]);
    }

    #[test]
    fn nothing_is_shipped_for_less_than_the_total(steps in steps()) {
        let mut world = World::default();
        let mut storefront_says_paid = false;
        for step in &steps {
            storefront_says_paid |= matches!(step, Step::Order { paid: true, .. });
            world.take(step);
            world.settle();
        }
        let Some((state, ..)) = world.end() else { return Ok(()) };
        let is_kept = |known: &&Known| known.refunded < known.received;
        let kept = world.payments.iter().filter(is_kept).map(|known| known.received);
        if state == FulfillmentState::Requested && !storefront_says_paid {
            prop_assert!(kept.sum::<i64>() >= TOTAL, "{steps:?}");
        }
    }
}

fn paid(id: &str, received: i64, cycle: &str) -> Linked {
    Linked {
        id: id.to_owned(),
        currency: usd(),
        received,
        tip: 0,
        refunded: 0,
        fully_refunded: false,
        is_disputed: false,
        canceled_at: None,
        cycle: Cycle::named(Some(cycle)),
    }
}

fn price_change(discount: i64, added: i64) -> PriceChange {
    PriceChange {
        cycle: Cycle::first(),
        currency: usd(),
        discount,
        added,
    }
}

#[test]
fn a_discount_of_the_payment_page_pays_as_money_does() {
    let mut order = delivery(1, "pending", false);
    let mut payments = Payments {
        linked: vec![paid("pi_1", 2500, "1")],
        ..Payments::default()
    };
    settle(&mut order, &payments);
    assert_eq!(order.fulfillment_state(), FulfillmentState::Initiated);
    payments.price_changes = vec![price_change(500, 0)];
    settle(&mut order, &payments);
    assert_eq!(order.fulfillment_state(), FulfillmentState::Requested);
    payments.linked.clear();
    payments.price_changes = vec![price_change(3000, 0)];
    settle(&mut order, &payments);
    assert_eq!(
        order.fulfillment_state(),
        FulfillmentState::Requested,
        "all of it"
    );
}

#[test]
fn what_a_page_added_is_of_the_order_and_what_nobody_explains_is_not() {
    let order = delivery(1, "pending", false);
    let mut payments = Payments {
        linked: vec![paid("pi_1", 3248, "1")],
        ..Payments::default()
    };
    assert!(!payments.are_of(&order));
    payments.price_changes = vec![price_change(0, 248)];
    assert!(payments.are_of(&order));
    payments.linked.push(paid("pi_2", 3000, "2"));
    assert!(payments.are_of(&order), "each cycle costs the total");
    payments.linked.push(paid("pi_3", 1, "2"));
    assert!(!payments.are_of(&order));
}

#[test]
fn cycles_are_settled_each_by_its_own_payments() {
    let mut order = delivery(1, "pending", false);
    let payments = Payments {
        linked: vec![
            paid("pi_2", 3000, "02"),
            paid("pi_3", 1500, "3"),
            paid("pi_a", 3000, "2026-11"),
        ],
        ..Payments::default()
    };
    settle(&mut order, &payments);
    assert_eq!(order.fulfillment_state(), FulfillmentState::Initiated);
    let covered: Vec<(String, bool)> = cycles(&order, &payments)
        .into_iter()
        .map(|(cycle, settled)| (cycle.to_string(), settled.covers))
        .collect();
    let expected = [("2", true), ("2026-11", true), ("3", false)];
    assert_eq!(
        covered,
        expected.map(|(cycle, covers)| (cycle.to_owned(), covers))
    );
    for first in ["", " 001 ", "cycle-1", "1/12", "once", "monthly"] {
        assert!(Cycle::named(Some(first)).is_first(), "{first}");
    }
    assert!(Cycle::named(None).is_first());
    assert_ne!(Cycle::named(Some("cycle-2")), Cycle::named(Some("cycle-3")));
    assert!(!Cycle::named(Some("2/12")).is_first());
    assert_eq!(Cycle::named(Some("2")), Cycle::named(Some("002")));
}

/// A payment of which so much was captured and so much given back.
fn returned(id: &str, received: i64, refunded: i64) -> Linked {
    Linked {
        tip: 0,
        refunded,
        fully_refunded: received > 0 && refunded >= received,
        ..paid(id, received, "1")
    }
}

#[test]
fn what_payments_come_to_is_the_status_of_the_order() {
    use FinancialStatus::{Paid, PartiallyPaid, PartiallyRefunded, Refunded};
    let euros = Linked {
        currency: Currency::parse("EUR").unwrap(),
        ..paid("pi_1", TOTAL, "1")
    };
    let other = paid("pi_1", TOTAL, "2");
    let unpaid = paid("pi_1", 0, "1");
    for (linked, status, covers) in [
        (vec![], None, false),
        (vec![unpaid.clone()], None, false),
        (vec![other], None, false),
        (vec![paid("pi_1", TOTAL, "1")], Some(Paid), true),
        (
            vec![paid("pi_1", TOTAL - 1, "1")],
            Some(PartiallyPaid),
            false,
        ),
        (
            vec![paid("pi_1", 1, "1"), paid("pi_2", TOTAL - 1, "1")],
            Some(Paid),
            true,
        ),
        (vec![euros], Some(PartiallyPaid), false),
        (
            vec![returned("pi_1", TOTAL, 1)],
            Some(PartiallyRefunded),
            true,
        ),
        (vec![returned("pi_1", TOTAL, TOTAL)], Some(Refunded), true),
        (vec![returned("pi_1", 0, 5)], Some(PartiallyRefunded), false),
        // What was given back in full does not count beside another one.
        (
            vec![returned("pi_1", TOTAL, TOTAL), paid("pi_2", 5, "1")],
            Some(PartiallyRefunded),
            false,
        ),
    ] {
        let mut order = delivery(1, "pending", false);
        let payments = Payments {
            linked: linked.clone(),
            ..Payments::default()
        };
        settle(&mut order, &payments);
        assert_eq!(order.settled.status, status, "{linked:?}");
        assert_eq!(order.settled.covers, covers, "{linked:?}");
        let payments = Payments {
            is_subscription_paid: true,
            ..payments
        };
        settle(&mut order, &payments);
        assert!(order.settled.covers, "{linked:?}");
        let paid = status.filter(|it| *it != PartiallyPaid);
        assert_eq!(order.settled.status, paid.or(Some(Paid)), "{linked:?}");
    }
}

#[test]
fn a_payment_in_another_currency_or_of_nothing_is_not_of_the_order() {
    let order = delivery(1, "pending", false);
    let are_of = |linked: Linked| {
        let linked = vec![linked];
        Payments {
            linked,
            ..Payments::default()
        }
        .are_of(&order)
    };
    let euros = |received| Linked {
        currency: Currency::parse("EUR").unwrap(),
        ..paid("pi_1", received, "1")
    };
    assert!(are_of(paid("pi_1", TOTAL, "1")) && !are_of(paid("pi_1", TOTAL + 1, "1")));
    assert!(!are_of(euros(1)));
    assert!(are_of(euros(0)), "it was not paid");
    let free =
        json!({"id": 1, "currency": "USD", "total_price": "0.00", "line_items": []}).to_string();
    let mut free = Record::of(
        Order::read(free.as_bytes()).unwrap(),
        Some(Topic::Create),
        free.as_bytes(),
        0,
    );
    settle(&mut free, &Payments::default());
    assert!(!free.settled.covers, "nothing was paid");
}

#[test]
fn a_page_counts_in_its_own_cycle_and_currency() {
    let order = delivery(1, "pending", false);
    let payments = |change: PriceChange| Payments {
        linked: vec![paid("pi_1", TOTAL + 1, "1")],
        price_changes: vec![change],
        ..Payments::default()
    };
    assert!(payments(price_change(0, 1)).are_of(&order));
    let other_cycle = PriceChange {
        cycle: Cycle::named(Some("2")),
        ..price_change(0, 1)
    };
    let other_currency = PriceChange {
        currency: Currency::parse("EUR").unwrap(),
        ..price_change(0, 1)
    };
    for other in [other_cycle, other_currency] {
        assert!(!payments(other.clone()).are_of(&order), "{other:?}");
    }
}

#[test]
fn the_first_cancellation_counts_and_what_is_left_can_be_given_back() {
    let canceled = |id: &str, at| Linked {
        canceled_at: Some(at),
        ..paid(id, 0, "1")
    };
    let mut order = delivery(1, "pending", false);
    let payments = Payments {
        linked: vec![canceled("pi_1", 7), canceled("pi_2", 5)],
        ..Payments::default()
    };
    settle(&mut order, &payments);
    assert_eq!(order.settled.canceled_at, Some(5));
    assert_eq!(returned("pi_1", 10, 4).left(), 6);
    assert_eq!(returned("pi_1", 0, 4).left(), 0);
    assert!(!paid("pi_1", 0, "1").is_paid() && paid("pi_1", 1, "1").is_paid());
    assert!(returned("pi_1", 0, 1).is_paid());
    assert_eq!(format!("{:>3}", Cycle::named(Some("2"))), "  2");
    assert_eq!(Cycle::named(Some("cycle-2")).as_str(), "cycle-2");
    assert_eq!(Cycle::named(Some("0")).as_str(), "0");
}

#[test]
fn of_two_statuses_the_one_that_is_further_on_counts() {
    use FinancialStatus::{
        Authorized, Expired, Other, Paid, PartiallyPaid, PartiallyRefunded, Pending, Refunded,
        Voided,
    };
    let steps = [
        Pending,
        Authorized,
        PartiallyPaid,
        Paid,
        PartiallyRefunded,
        Refunded,
    ];
    for (nth, a) in steps.iter().enumerate() {
        for (other, b) in steps.iter().enumerate() {
            let further = steps[nth.max(other)].clone();
            assert_eq!(status(Some(a), Some(b)), Some(further), "{a:?} {b:?}");
        }
        assert_eq!(status(Some(a), None), Some(a.clone()));
        assert_eq!(status(None, Some(a)), Some(a.clone()));
    }
    assert_eq!(status(None, None), None);
    for first in [Voided, Expired, Other("held".to_owned())] {
        assert_eq!(status(Some(&first), Some(&Pending)), Some(first.clone()));
        assert_eq!(status(Some(&first), Some(&Authorized)), Some(Authorized));
    }
}

#[test]
fn a_canceled_payment_ends_an_order_without_any_money() {
    use FinancialStatus::{
        Authorized, Expired, Paid, PartiallyPaid, PartiallyRefunded, Pending, Refunded, Voided,
    };
    for storefront in [None, Some(Pending), Some(Voided), Some(Expired)] {
        let storefront = storefront.as_ref();
        assert!(
            is_cancelled_by_payment(false, storefront, None),
            "{storefront:?}"
        );
        assert!(!is_cancelled_by_payment(true, storefront, None));
        assert!(!is_cancelled_by_payment(false, storefront, Some(&Paid)));
    }
    for storefront in [Authorized, PartiallyPaid, Paid, PartiallyRefunded, Refunded] {
        let is_ended = is_cancelled_by_payment(false, Some(&storefront), None);
        assert!(!is_ended, "{storefront:?}");
    }
}
