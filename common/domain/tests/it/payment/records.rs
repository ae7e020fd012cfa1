//! The records of payments, subscriptions and checkout sessions. Those of subscriptions and
//! sessions come out the same in whatever sequence their events come; payments have a file of
//! their own.

use domain::payment::checkout::{self, Change};
use domain::payment::record::Record as Payment;
use domain::payment::subscription::{self, Change as Paid, change};
use domain::payment::{Event, EventType, PaymentStatus};
use domain::record::{Forget, Record as Kept, read};
use serde_json::{Value, json};

use super::{NEW, OLD, body, fixtures};
use crate::payment_history::pool::every_history;

fn event(kind: EventType, created: i64, object: &Value) -> Event {
    let body = json!({
        "id": format!("evt_{created}"), "created": created, "type": kind.into_str(),
        "data": {"object": object},
    });
    Event::read(body.to_string().as_bytes()).expect("an event")
}

fn fixture(name: &str) -> Event {
    Event::read(body(name).as_bytes()).expect("an event")
}

/// An invoice of a subscription: amount, period end, agreement.
fn invoice(created: i64, paid: i64, end: i64, agreement: Option<&str>) -> Event {
    let object = json!({
        "id": format!("in_{created}"), "amount_paid": paid, "currency": "usd", "subscription": "sub_1",
        "customer": format!("cus_{created}"), "metadata": {"pact_id": agreement},
        "lines": {"data": [{"period": {"end": end}}]},
    });
    event(EventType::InvoicePaid, created, &object)
}

#[test]
fn invoices_extend_a_subscription_to_the_latest_end() {
    let pool = [
        invoice(1, 500, 100, Some("P")),
        invoice(2, 500, 300, None),
        invoice(3, 500, 200, Some("Q")),
        invoice(4, 500, 300, None),
    ];
    let pool: Vec<subscription::Record> = pool
        .iter()
        .map(|event| subscription::Record::of(event).expect("a subscription").1)
        .collect();
    let ends = [100, 300, 200, 300];
    every_history(pool.len(), 5, |history| {
        let mut known: Option<subscription::Record> = None;
        let mut reported = Vec::new();
        for index in history {
            let mut after = known.clone().unwrap_or_else(|| pool[*index].clone());
            after.merge(pool[*index].clone());
            reported.extend(change(known.as_ref(), &after).map(|it| match it {
                Paid::Extended { to } => to,
                Paid::Shortened { .. } => panic!("{history:?}"),
            }));
            known = Some(after);
        }
        let known = known.expect("an invoice");
        let latest = history.iter().map(|index| ends[*index]).max();
        assert_eq!(known.paid_until(), latest, "{history:?}");
        assert_eq!(reported.last().copied(), latest, "{history:?}");
        assert!(
            reported.is_sorted_by(|a, b| a < b),
            "{history:?}: {reported:?}"
        );
        let newest = history.iter().max().expect("an invoice");
        let customer = known.customer.map(|part| part.value);
        assert_eq!(customer, Some(format!("cus_{}", newest + 1)));
        let agreement = [(2, "Q"), (0, "P")]
            .into_iter()
            .find(|(index, _)| history.contains(index));
        assert_eq!(
            known.pact_id.map(|part| part.value).as_deref(),
            agreement.map(|(_, agreement)| agreement)
        );
    });
}

#[test]
fn a_period_that_was_discounted_or_credited_extends_and_a_trial_does_not() {
    let end = |name: &str| {
        let event = fixture(&format!("invoice.payment_succeeded.{name}"));
        let (id, record) = subscription::Record::of(&event)?;
        assert_eq!(id, "sub_Example01");
        record.paid_until()
    };
    assert_eq!(end(OLD), Some(1_735_732_800 + 31 * 86_400));
    assert_eq!(end(NEW), Some(1_793_448_000 + 30 * 86_400));
    assert_eq!(end(&format!("plan_changed.{NEW}")), end(NEW));
    assert_eq!(end(&format!("paid_with_credit.{NEW}")), end(NEW));
    assert_eq!(end(&format!("of_nothing.{NEW}")), None);
    for (version, month) in [
        (OLD, 1_735_732_800 + 30 * 86_400),
        (NEW, 1_793_448_000 + 30 * 86_400),
    ] {
        for extending in ["all_discounted", "credited", "several_lines"] {
            assert_eq!(end(&format!("{extending}.{version}")), Some(month));
        }
        for not_extending in ["trial", "prorated", "manual"] {
            assert_eq!(end(&format!("{not_extending}.{version}")), None);
        }
    }
}

#[test]
fn a_session_is_as_paid_as_it_ever_was() {
    let session = |created: i64, status: Value| {
        let object = json!({
            "id": "cs_1", "payment_status": status, "payment_intent": format!("pi_{created}"),
        });
        let event = event(EventType::SessionCompleted, created, &object);
        checkout::Record::of(&event).expect("a session").1
    };
    let statuses = ["", "in_orbit", "unpaid", "no_payment_required", "paid"];
    let pool: Vec<checkout::Record> = (1..)
        .zip([4, 1, 3, 2, 0])
        .map(|(created, rank): (i64, usize)| session(created, json!(statuses[rank])))
        .collect();
    let ranks = [4, 1, 3, 2, 0];
    every_history(pool.len(), 5, |history| {
        let mut known: Option<checkout::Record> = None;
        let mut reported = Vec::new();
        for index in history {
            let mut after = known.clone().unwrap_or_else(|| pool[*index].clone());
            after.merge(pool[*index].clone());
            reported.extend(checkout::changes(known.as_ref(), &after));
            known = Some(after);
        }
        let known = known.expect("a session");
        let furthest = history
            .iter()
            .map(|index| ranks[*index])
            .max()
            .expect("one");
        let status = known
            .payment_status
            .as_ref()
            .map_or("", PaymentStatus::as_str);
        assert_eq!(status, statuses[furthest], "{history:?}");
        let newest = history.iter().max().expect("one");
        let intent = known.payment_intent.as_ref().map(|part| part.value.clone());
        assert_eq!(intent, Some(format!("pi_{}", newest + 1)));
        let settled = [Change::Completed, Change::Settled];
        assert_eq!(
            reported,
            settled[..=usize::from(furthest >= 3)],
            "{history:?}"
        );
        assert_eq!(known.is_settled(), furthest >= 3);
    });
}

#[test]
fn every_event_is_of_one_payment_subscription_or_session_at_the_most() {
    for name in fixtures() {
        let event = fixture(&name);
        let payment = Payment::of(&event).is_some();
        let session = checkout::Record::of(&event).is_some();
        let subscription = subscription::Record::of(&event).is_some();
        let of = [payment, session, subscription]
            .iter()
            .filter(|it| **it)
            .count();
        assert!(of <= 1, "{name}");
        assert_eq!(
            of == 0,
            ["manual", "of_nothing", "trial", "invoice_payment"]
                .iter()
                .any(|variant| name.contains(variant)),
            "{name}"
        );
    }
}

/// What is kept of the record, which is read as it was written. Nobody's address is in what is kept when the
/// person is forgotten.
fn kept<R: Kept + Forget + Clone + PartialEq>(record: &R) -> (String, String) {
    let text = serde_json::to_string(record).expect("a record");
    assert!(read(&text).is_ok_and(|read: R| read == *record), "{text}");
    let mut nobody = record.clone();
    nobody.forget_person();
    let left = serde_json::to_string(&nobody).expect("a record");
    assert!(!left.contains('@') && !left.contains("cart"), "{left}");
    (text, left)
}

#[test]
fn every_record_is_kept_and_forgets_its_person_and_nothing_else() {
    let mut people = 0;
    for name in fixtures() {
        let event = fixture(&name);
        let payment = Payment::of(&event).map(|(_, record)| kept(&record));
        let session = checkout::Record::of(&event).map(|(_, record)| kept(&record));
        let subscription = subscription::Record::of(&event).map(|(_, record)| kept(&record));
        let all = [payment, session, subscription].into_iter().flatten();
        people += all.filter(|(text, left)| text != left).count();
    }
    assert!(people > 3, "{people}");
    let object = json!({
        "id": "cs_1", "mode": "payment", "payment_status": "paid", "amount_total": 5,
        "currency": "usd", "client_reference_id": "cart 7", "payment_intent": "pi_1",
        "customer_details": {"email": "ada@example.com"}, "metadata": {"pact_id": "P"},
    });
    let event = event(EventType::SessionCompleted, 1, &object);
    let (text, left) = kept(&checkout::Record::of(&event).expect("a session").1);
    assert!(
        text.contains("cart 7") && text.contains("ada@example.com"),
        "{text}"
    );
    for stays in ["pi_1", "\"P\"", "paid", "USD"] {
        assert!(left.contains(stays), "{stays}: {left}");
    }
}

/// The facts, the state and the links of the payment that one event reports.
#[test]
fn a_payment_is_what_its_event_says() {
    for (name, id, state) in [
        (
            format!("payment_intent.succeeded.{OLD}"),
            "pi_Example01",
            "succeeded",
        ),
        (
            format!("payment_intent.payment_failed.{NEW}"),
            "pi_Example01",
            "requires_payment_method",
        ),
        (
            format!("payment_intent.canceled.{NEW}"),
            "pi_Example01",
            "canceled",
        ),
        (
            format!("charge.refunded.{OLD}"),
            "pi_Example01",
            "partially_refunded",
        ),
        (format!("charge.refunded.{NEW}"), "pi_Example01", "refunded"),
        (
            format!("charge.refunded.without_intent.{NEW}"),
            "ch_Example01",
            "partially_refunded",
        ),
        (
            format!("charge.refunded.never_captured.{NEW}"),
            "pi_Example01",
            "unknown",
        ),
    ] {
        let event = fixture(&name);
        let (key, record) = Payment::of(&event).expect("a payment");
        assert_eq!((key, record.state().as_str()), (id, state), "{name}");
    }
}

#[test]
fn the_type_alone_pays_for_nothing() {
    let state = |kind: EventType, status: Value| {
        let object = json!({
            "id": "pi_1", "amount": 5, "amount_received": 5, "currency": "usd", "status": status,
        });
        let event = event(kind, 1, &object);
        let record = Payment::of(&event).expect("a payment").1;
        (record.state().as_str().to_owned(), record.received)
    };
    let of = |state: &str, received| (state.to_owned(), received);
    let [succeeded, failed, canceled] = [
        EventType::IntentSucceeded,
        EventType::IntentFailed,
        EventType::IntentCanceled,
    ];
    assert_eq!(state(succeeded, json!("succeeded")), of("succeeded", 5));
    assert_eq!(state(succeeded, json!(null)), of("succeeded", 5));
    assert_eq!(state(succeeded, json!("processing")), of("processing", 0));
    assert_eq!(state(succeeded, json!("in_orbit")), of("in_orbit", 0));
    assert_eq!(state(canceled, json!(null)), of("canceled", 0));
    assert_eq!(state(canceled, json!("succeeded")), of("succeeded", 0));
    assert_eq!(state(failed, json!("succeeded")), of("succeeded", 0));
    assert_eq!(
        state(failed, json!("requires_source")),
        of("requires_payment_method", 0)
    );
}

/// An invoice by which the unused rest of what was paid is given back, and another interval begins.
fn changed(made: i64, end: i64) -> Event {
    let object = json!({
        "id": "in_2", "amount_paid": 0, "total": -900, "currency": "usd", "subscription": "sub_1", "created": made,
        "lines": {"data": [
            {"amount": -1000, "proration": true, "type": "invoiceitem", "period": {"end": 400}},
            {"amount": 100, "type": "subscription", "period": {"end": end}},
        ]},
    });
    event(EventType::InvoicePaid, made, &object)
}

fn ended(created: i64, at: Option<i64>) -> Event {
    let object =
        json!({"id": "sub_1", "object": "subscription", "customer": "cus_1", "ended_at": at});
    event(EventType::SubscriptionUpdated, created, &object)
}

#[test]
fn a_subscription_is_paid_for_what_was_not_given_back_and_until_it_ended_in_every_sequence() {
    let pool = [
        invoice(10, 1000, 400, Some("P")),
        changed(50, 80),
        invoice(80, 100, 110, None),
        ended(90, None),
        ended(100, Some(95)),
        // It was made before the interval was changed, and was paid long after.
        {
            let object = json!({
                "id": "in_0", "amount_paid": 1000, "currency": "usd", "subscription": "sub_1", "created": 5,
                "lines": {"data": [{"period": {"end": 405}}]},
            });
            event(EventType::InvoiceSettled, 120, &object)
        },
    ];
    let pool: Vec<subscription::Record> = pool
        .iter()
        .map(|event| subscription::Record::of(event).expect("a subscription").1)
        .collect();
    every_history(pool.len(), 5, |history| {
        let mut known: Option<subscription::Record> = None;
        let mut now = None;
        for index in history {
            let mut after = known.clone().unwrap_or_else(|| pool[*index].clone());
            after.merge(pool[*index].clone());
            match change(known.as_ref(), &after) {
                Some(Paid::Extended { to }) => {
                    assert!(now < Some(to), "{history:?}");
                    now = Some(to);
                }
                Some(Paid::Shortened { from, to }) => {
                    assert!(now == Some(from) && to < from, "{history:?}");
                    now = Some(to);
                }
                None => {}
            }
            known = Some(after);
        }
        let has = |index: usize| history.contains(&index);
        let paid = match () {
            () if has(2) && has(1) => Some(110),
            () if has(1) => Some(80),
            () if has(5) => Some(405),
            () if has(0) => Some(400),
            () if has(2) => Some(110),
            () => None,
        };
        let paid = paid.map(|end| if has(4) { end.min(95) } else { end });
        assert_eq!(known.expect("one").paid_until(), paid, "{history:?}");
        assert_eq!(now, paid, "what was reported: {history:?}");
    });
}
