//! Money that goes back: refunds that fail later, and disputes. Whatever is reported first, and however often, a payment
//! comes out the same, and its books balance.

use domain::payment::dispute::Status;
use domain::payment::ledger::postings;
use domain::payment::outcome::{Change, changes, failed_refunds};
use domain::payment::record::Record;
use domain::payment::{Event, EventType, checkout, subscription};
use serde_json::{Value, json};

use crate::payment_history::pool::{every_history, merge};

fn record(kind: EventType, created: i64, object: &Value) -> Record {
    let body = json!({
        "id": format!("evt_{created}_{}", kind.into_str()), "created": created, "type": kind.into_str(),
        "data": {"object": object},
    });
    let event = Event::read(body.to_string().as_bytes()).expect("an event");
    let (id, record) = Record::of(&event).expect("a payment");
    assert_eq!(id, "pi_1");
    record
}

fn succeeded(created: i64) -> Record {
    let intent = json!({
        "id": "pi_1", "object": "payment_intent", "status": "succeeded", "amount": 1000, "amount_received": 1000,
        "currency": "usd", "metadata": {"pact_id": "P"},
    });
    record(EventType::IntentSucceeded, created, &intent)
}

fn charge(created: i64, refunded: i64) -> Record {
    let charge = json!({
        "id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount": 1000, "amount_refunded": refunded,
        "refunded": refunded == 1000, "currency": "usd",
    });
    record(EventType::ChargeRefunded, created, &charge)
}

fn refund(kind: EventType, created: i64, id: &str, made: i64, cents: i64, status: &str) -> Record {
    let refund = json!({
        "id": id, "object": "refund", "payment_intent": "pi_1", "charge": "ch_1", "amount": cents,
        "currency": "usd", "status": status, "created": made,
    });
    record(kind, created, &refund)
}

fn dispute(kind: EventType, created: i64, cents: i64, status: &str) -> Record {
    let dispute = json!({
        "id": "dp_1", "object": "dispute", "payment_intent": "pi_1", "charge": "ch_1", "amount": cents,
        "currency": "usd", "status": status, "reason": "fraudulent",
    });
    record(kind, created, &dispute)
}

fn all(records: &[Record]) -> Record {
    let (first, rest) = records.split_first().expect("one");
    rest.iter()
        .fold(first.clone(), |all, record| merge(&all, record))
}

/// State, what was refunded, what is kept, and the books.
fn ends(record: &Record) -> (String, i64, i64, Vec<String>) {
    let posted = postings(None, record).into_iter();
    let books = posted.map(|it| format!("{} {} {}", it.entry.into_str(), it.account, it.minor));
    let state = record.state().as_str().to_owned();
    (state, record.refunded(), record.kept(), books.collect())
}

#[test]
fn in_every_sequence_a_refund_that_failed_is_the_merchants_money_again() {
    let pool = [
        succeeded(10),
        refund(EventType::RefundCreated, 20, "re_1", 20, 1000, "pending"),
        charge(20, 1000),
        refund(
            EventType::ChargeRefundUpdated,
            21,
            "re_1",
            20,
            1000,
            "succeeded",
        ),
        refund(EventType::RefundFailed, 90, "re_1", 20, 1000, "failed"),
        // The next one is of less than the one that failed.
        charge(95, 400),
        refund(EventType::RefundUpdated, 95, "re_2", 95, 400, "succeeded"),
    ];
    let (state, refunded, kept, _) = ends(&all(&pool[..4]));
    assert_eq!((state.as_str(), refunded, kept), ("refunded", 1000, 0));
    let (state, refunded, kept, books) = ends(&all(&pool[..5]));
    assert_eq!((state.as_str(), refunded, kept), ("succeeded", 0, 1000));
    assert!(
        books.iter().all(|line| !line.starts_with("refunded")),
        "{books:?}"
    );
    let (state, refunded, kept, _) = ends(&all(&pool));
    assert_eq!(
        (state.as_str(), refunded, kept),
        ("partially_refunded", 400, 600)
    );
    every_history(pool.len(), 5, |history| {
        let seen: Vec<Record> = history.iter().map(|index| pool[*index].clone()).collect();
        let mut sorted = history.to_vec();
        sorted.sort_unstable();
        let sorted: Vec<Record> = sorted.iter().map(|index| pool[*index].clone()).collect();
        assert_eq!(all(&seen), all(&sorted), "{history:?}");
        let mut before: Option<Record> = None;
        let (mut reported, mut failed) = (0, Vec::new());
        for record in &seen {
            let after = before
                .as_ref()
                .map_or(record.clone(), |it| merge(it, record));
            for change in changes(before.as_ref(), &after) {
                match change {
                    Change::Refunded { by } => reported += by,
                    Change::RefundFailed { by } => reported -= by,
                    _ => {}
                }
            }
            failed.extend(failed_refunds(before.as_ref(), &after).map(ToOwned::to_owned));
            before = Some(after);
        }
        let after = before.expect("one");
        assert_eq!(reported, after.refunded(), "{history:?}");
        let has_failed = usize::from(history.contains(&4));
        assert_eq!(failed.len(), has_failed, "once: {history:?}");
        // Until it is known that the first one failed, both count.
        let most = if history.contains(&4) { 1000 } else { 1400 };
        assert!((0..=most).contains(&after.refunded()), "{history:?}");
    });
}

#[test]
fn whose_the_money_of_a_dispute_is_decides_the_bank() {
    let opened = dispute(EventType::DisputeCreated, 20, 1000, "needs_response");
    let lost = dispute(EventType::DisputeClosed, 30, 1000, "lost");
    let won = dispute(EventType::DisputeClosed, 40, 1000, "won");
    let taken = ["disputed disputed 1000", "disputed released:P -1000"];
    let books = |records: &[Record]| {
        let (.., books) = ends(&all(records));
        let disputed = books
            .into_iter()
            .filter(|line| line.starts_with("disputed"));
        let mut disputed: Vec<String> = disputed.collect();
        disputed.sort_unstable();
        disputed
    };
    let end = |records: &[Record]| {
        let (state, _, kept, _) = ends(&all(records));
        (state, kept)
    };
    let is = |state: &str, kept| (state.to_owned(), kept);
    assert_eq!(end(&[succeeded(10), opened.clone()]), is("disputed", 1000));
    assert_eq!(books(&[succeeded(10), opened.clone()]), taken);
    let after_lost = [lost.clone(), opened.clone(), succeeded(10)];
    assert_eq!(end(&after_lost), is("charged_back", 0));
    assert_eq!(books(&after_lost), taken);
    let after_won = [won.clone(), opened.clone(), lost.clone(), succeeded(10)];
    assert_eq!(end(&after_won), is("succeeded", 1000));
    assert_eq!(books(&after_won), [""; 0]);
    let steps = [succeeded(10), opened, lost, won];
    let mut before: Option<Record> = None;
    let mut reported = Vec::new();
    for step in &steps {
        let after = before.as_ref().map_or(step.clone(), |it| merge(it, step));
        reported.extend(changes(before.as_ref(), &after));
        before = Some(after);
    }
    let minor = 1000;
    assert_eq!(
        reported[2..],
        [
            Change::Disputed {
                status: Status::Open,
                minor
            },
            Change::Disputed {
                status: Status::Lost,
                minor
            },
            Change::Disputed {
                status: Status::Won,
                minor
            },
        ]
    );
}

#[test]
fn an_inquiry_moves_no_money() {
    let asked = dispute(
        EventType::DisputeCreated,
        20,
        1000,
        "warning_needs_response",
    );
    let after = merge(&succeeded(10), &asked);
    assert_eq!(ends(&after).0, "succeeded");
    assert_eq!(after.kept(), 1000);
    assert!(
        !changes(Some(&succeeded(10)), &after)
            .iter()
            .any(|it| matches!(it, Change::Disputed { .. }))
    );
}

#[test]
fn a_session_that_was_paid_later_and_an_invoice_paid_outside_are_read_as_what_they_are() {
    let event = |kind: EventType, object: &Value| {
        let body = json!({
            "id": "evt_1", "created": 5, "type": kind.into_str(), "data": {"object": object},
        });
        Event::read(body.to_string().as_bytes()).expect("an event")
    };
    let session = json!({
        "id": "cs_1", "object": "checkout.session", "mode": "payment", "payment_status": "paid",
        "amount_total": 1000, "currency": "usd",
    });
    let paid = event(EventType::SessionPaid, &session);
    assert!(
        checkout::Record::of(&paid)
            .expect("a session")
            .1
            .is_settled()
    );
    let invoice = json!({
        "id": "in_1", "object": "invoice", "amount_paid": 0, "total": 1000, "currency": "usd",
        "subscription": "sub_1", "lines": {"data": [{"period": {"end": 300}}]},
    });
    let settled = event(EventType::InvoiceSettled, &invoice);
    let (id, record) = subscription::Record::of(&settled).expect("a subscription");
    assert_eq!((id, record.paid_until()), ("sub_1", Some(300)));
}
