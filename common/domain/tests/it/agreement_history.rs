//! There is one order for each agreement. The storefront's order and its cancellation, a payment,
//! the checkout session that led to it and a refund, in every sequence and with repetitions, lead
//! to a result that depends only on what was reported and not on the sequence.

use std::collections::{BTreeMap, BTreeSet};

use domain::order::outcome::{FulfillmentState, Level, cycle_state, request};
use domain::order::record::Record;
use domain::order::settlement::{Cycle, Linked, Payments, cycles, settle};
use domain::order::{Order, Topic};
use domain::payment::record::Record as Payment;
use domain::payment::{Event, checkout, ledger};
use serde_json::{Value, json};

const TOTAL: i64 = 3000;

/// One report about an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Order,
    Cancelled,
    Paid,
    Session,
    Refunded,
}

const STEPS: [Step; 5] = [
    Step::Order,
    Step::Cancelled,
    Step::Paid,
    Step::Session,
    Step::Refunded,
];

/// How many cents are paid, and why that is not the order's total.
#[derive(Clone, Copy, Debug)]
struct Case {
    cents: i64,
    discount: i64,
    tax: i64,
    refunded: i64,
    cycle: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (cents, discount, tax) in [
        (TOTAL, 0, 0),
        (TOTAL + 248, 0, 248),
        (TOTAL + 248, 0, 0),
        (TOTAL - 500, 500, 0),
        (TOTAL - 500, 0, 0),
    ] {
        for refunded in [cents, 100] {
            for cycle in [None, Some("1"), Some("2")] {
                cases.push(Case {
                    cents,
                    discount,
                    tax,
                    refunded,
                    cycle,
                });
            }
        }
    }
    cases
}

fn event(id: &str, kind: &str, created: i64, object: &Value) -> Event {
    let body = json!({
        "id": id, "object": "event", "type": kind, "created": created,
        "data": {"object": object},
    });
    Event::read(body.to_string().as_bytes()).expect("an event")
}

impl Case {
    fn metadata(self) -> Value {
        json!({"pact_id": "p1", "fulfillment_cycle": self.cycle})
    }

    fn order(step: Step) -> Record {
        let cancelled = (step == Step::Cancelled).then_some("2027-01-15T08:00:30Z");
        let body = json!({
            "id": 1, "created_at": "2027-01-15T08:00:00Z",
            "updated_at": cancelled.unwrap_or("2027-01-15T08:00:00Z"),
            "currency": "USD", "total_price": "30.00", "financial_status": "pending",
            "fulfillment_status": null, "cancelled_at": cancelled,
            "line_items": [{"id": 1, "quantity": 2}],
            "note_attributes": [{"name": "pact_id", "value": "p1"}],
        })
        .to_string();
        let order = Order::read(body.as_bytes()).expect("an order");
        Record::of(order, Some(Topic::Updated), body.as_bytes(), 0)
    }

    fn paid(self) -> Event {
        let intent = json!({
            "id": "pi_1", "object": "payment_intent", "amount": self.cents,
            "amount_received": self.cents, "currency": "usd", "status": "succeeded",
            "metadata": self.metadata(),
        });
        event("evt_1", "payment_intent.succeeded", 1, &intent)
    }

    fn refund(self) -> Event {
        let charge = json!({
            "id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount": self.cents,
            "amount_captured": self.cents, "amount_refunded": self.refunded, "captured": true,
            "refunded": self.refunded == self.cents, "currency": "usd",
            "metadata": self.metadata(),
        });
        event("evt_2", "charge.refunded", 2, &charge)
    }

    fn session(self) -> Event {
        let session = json!({
            "id": "cs_1", "object": "checkout.session", "mode": "payment",
            "payment_status": "paid", "amount_total": self.cents, "currency": "usd",
            "amount_subtotal": TOTAL, "payment_intent": "pi_1", "metadata": self.metadata(),
            "total_details": {"amount_discount": self.discount, "amount_tax": self.tax,
                              "amount_shipping": 0},
        });
        event("evt_3", "checkout.session.completed", 1, &session)
    }
}

/// The records that the steps of a case report, read once.
struct Facts {
    order: Record,
    cancelled: Record,
    paid: Payment,
    refunded: Payment,
    session: checkout::Record,
}

impl Facts {
    fn of(case: Case) -> Self {
        let payment = |event: &Event| Payment::of(event).expect("a payment").1;
        let session = case.session();
        Facts {
            order: Case::order(Step::Order),
            cancelled: Case::order(Step::Cancelled),
            paid: payment(&case.paid()),
            refunded: payment(&case.refund()),
            session: checkout::Record::of(&session).expect("a session").1,
        }
    }
}

/// What is known about the agreement, in the form in which the handlers keep it.
#[derive(Clone, Default)]
struct World {
    order: Option<Record>,
    payment: Option<Payment>,
    session: Option<checkout::Record>,
    level: Level,
    requested: BTreeMap<Cycle, FulfillmentState>,
    /// How many requests there were, by cycle.
    requests: BTreeMap<Cycle, usize>,
    /// Balances by account, in minor units.
    books: BTreeMap<ledger::Account, i64>,
}

impl World {
    fn take(&mut self, reported: &Facts, step: Step) {
        match step {
            Step::Order => merge(&mut self.order, &reported.order, Record::merge),
            Step::Cancelled => merge(&mut self.order, &reported.cancelled, Record::merge),
            Step::Session => merge(
                &mut self.session,
                &reported.session,
                checkout::Record::merge,
            ),
            Step::Paid => self.pay(&reported.paid),
            Step::Refunded => self.pay(&reported.refunded),
        }
        self.settle();
    }

    fn pay(&mut self, reported: &Payment) {
        let before = self.payment.clone();
        merge(&mut self.payment, reported, Payment::merge);
        let after = self.payment.as_ref().expect("it is there");
        for posting in ledger::postings(before.as_ref(), after) {
            *self.books.entry(posting.account).or_default() += posting.minor;
        }
    }

    fn payments(&self) -> Payments {
        let known = self.payment.as_ref().map(|payment| Linked {
            id: "pi_1".to_owned(),
            currency: payment.currency.value,
            received: payment.received,
            tip: payment.tip,
            refunded: payment.refunded(),
            fully_refunded: payment.is_refunded_in_full()
                || (payment.received > 0 && payment.refunded() >= payment.received),
            is_disputed: payment.is_disputed(),
            canceled_at: None,
            cycle: payment.cycle(),
        });
        let session = self.session.as_ref();
        let linked = match session {
            Some(session) => session.payment(known.as_ref()),
            None => known,
        };
        Payments {
            linked: linked.into_iter().collect(),
            price_changes: session
                .and_then(checkout::Record::price_change)
                .into_iter()
                .collect(),
            is_subscription_paid: false,
        }
    }

    /// Settles the order, as the handlers do after each step.
    fn settle(&mut self) {
        let payments = self.payments();
        let Some(order) = &mut self.order else { return };
        settle(order, &payments);
        if let Some(request) = request(order, &self.level) {
            if request.units.is_some() {
                *self.requests.entry(Cycle::first()).or_default() += 1;
            }
            self.level = request.level;
        }
        for (cycle, settled) in cycles(order, &payments) {
            let is = cycle_state(order, &settled);
            let was = self.requested.insert(cycle.clone(), is);
            if is == FulfillmentState::Requested && was != Some(is) {
                *self.requests.entry(cycle).or_default() += 1;
            }
        }
    }

    /// The part of the result that must not depend on the sequence.
    fn end(&self) -> String {
        let order = self.order.as_ref().map(|order| {
            let status = order.financial_status().map(|it| it.as_str().to_owned());
            let cycles = &self.requested;
            (order.fulfillment_state(), status, order.restocked(), cycles)
        });
        let books: Vec<_> = self
            .books
            .iter()
            .filter(|(_, minor)| **minor != 0)
            .collect();
        format!("{order:?} {books:?}")
    }
}

fn merge<T: Clone>(known: &mut Option<T>, reported: &T, merge: fn(&mut T, T)) {
    match known {
        Some(known) => merge(known, reported.clone()),
        None => *known = Some(reported.clone()),
    }
}

fn check(
    case: Case,
    sequence: &[Step],
    world: &World,
    ends: &mut BTreeMap<BTreeSet<Step>, String>,
) {
    let what = || format!("{case:?} {sequence:?}");
    assert_eq!(world.books.values().sum::<i64>(), 0, "{}", what());
    for (cycle, requests) in &world.requests {
        assert_eq!(*requests, 1, "cycle {cycle} of {}", what());
    }
    let reported: BTreeSet<Step> = sequence.iter().copied().collect();
    let is_paid = reported.contains(&Step::Paid) || reported.contains(&Step::Session);
    let explained = case.cents + case.discount >= TOTAL
        && (case.discount == 0 || reported.contains(&Step::Session));
    let back = reported.contains(&Step::Refunded) && case.refunded == case.cents;
    let stands = reported.contains(&Step::Order) && !reported.contains(&Step::Cancelled);
    let cycle = Cycle::named(case.cycle);
    let state = match &world.order {
        Some(order) if cycle.is_first() => Some(order.fulfillment_state()),
        Some(_) => world.requested.get(&cycle).copied(),
        None => None,
    };
    if is_paid && explained && stands && !back {
        assert_eq!(state, Some(FulfillmentState::Requested), "{}", what());
        assert_eq!(world.requests.get(&cycle), Some(&1), "{}", what());
    } else {
        assert_ne!(state, Some(FulfillmentState::Requested), "{}", what());
    }
    let end = world.end();
    let first = ends.entry(reported).or_insert_with(|| end.clone());
    assert_eq!(*first, end, "{}", what());
}

/// Continues with every possible next step, and returns how many sequences there were.
fn go_on(
    case: Case,
    reported: &Facts,
    world: &World,
    sequence: &mut Vec<Step>,
    ends: &mut BTreeMap<BTreeSet<Step>, String>,
) -> usize {
    if sequence.len() == 6 {
        return 0;
    }
    let mut sequences = 0;
    for step in STEPS {
        let mut next = world.clone();
        next.take(reported, step);
        sequence.push(step);
        check(case, sequence, &next, ends);
        sequences += 1 + go_on(case, reported, &next, sequence, ends);
        sequence.pop();
    }
    sequences
}

#[test]
fn every_sequence_of_up_to_six_steps_ends_as_what_was_reported_says() {
    for case in cases() {
        let mut ends = BTreeMap::new();
        let reported = Facts::of(case);
        let sequences = go_on(
            case,
            &reported,
            &World::default(),
            &mut Vec::new(),
            &mut ends,
        );
        assert_eq!(sequences, 5 + 25 + 125 + 625 + 3125 + 15_625);
        assert_eq!(ends.len(), 31, "every set of steps");
    }
}
