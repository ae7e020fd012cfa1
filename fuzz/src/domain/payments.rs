//! Events of the payment provider, one to three of one input, with a zero byte between them. What they come to is the
//! same in whatever sequence and however often they come, no amount is below zero, and the books are even.

use std::collections::BTreeMap;

use domain::payment::ledger::{Posting, postings};
use domain::payment::outcome::{Change, changes};
use domain::payment::record::Record;
use domain::payment::thin::ThinEvent;
use domain::payment::{Event, EventType, checkout, subscription};
use domain::privacy::{Mentions, erased_body};
use domain::record::Forget as _;
use serde_json::value::RawValue;

pub fn check(data: &[u8]) {
    let bodies = data.split(|byte| *byte == 0).take(3);
    let mut events = Vec::with_capacity(3);
    for body in bodies {
        if let Ok(event) = Event::read(body) {
            assert!(Event::read(body).as_ref() == Ok(&event));
            without_its_person(&event, body);
            events.push(event);
        } else {
            thin(body);
        }
    }
    let payments = events
        .iter()
        .filter_map(Record::of)
        .map(|(_, record)| record);
    payments_of(&payments.collect::<Vec<_>>());
    let sessions = events
        .iter()
        .filter_map(checkout::Record::of)
        .map(|(_, record)| record);
    sessions_of(&sessions.collect::<Vec<_>>());
    let subscriptions = events
        .iter()
        .filter_map(subscription::Record::of)
        .map(|(_, it)| it);
    subscriptions_of(&subscriptions.collect::<Vec<_>>());
}

fn without_its_person(event: &Event, body: &[u8]) {
    let kind = event.kind.into_str();
    let rest = erased_body(kind, body).expect("an event is an object");
    // What could be the address of a person is no id that stays.
    let could_be_an_address = |id: &str| id.contains(['@', '\\']);
    let Ok(left) = Event::read(&rest) else {
        assert!(body.contains(&b'@') || body.contains(&b'\\'));
        return;
    };
    if Record::of(event).is_some_and(|(id, _)| could_be_an_address(id)) {
        return;
    }
    assert_eq!((left.kind, left.created), (event.kind, event.created));
    let has_an_id = !event.id.starts_with("evt_") || left.id.starts_with("evt_");
    assert!(has_an_id);
    let ids = |event: &Event| {
        Record::of(event).map(|(id, record)| {
            (
                id.to_owned(),
                record.received,
                record.refunded(),
                record.currency.value,
            )
        })
    };
    assert_eq!(ids(&left), ids(event));
    assert_eq!(erased_body(kind, &rest).as_deref(), Some(&rest[..]));
    let _ = Mentions::of(&rest);
}

fn thin(body: &[u8]) {
    let Ok(thin) = ThinEvent::read(body) else {
        return;
    };
    assert!(thin.path.starts_with("/v1/") && !thin.path.contains(['.', '%', '?', '#', '\\']));
    assert!(!thin.path.contains("//") && thin.path.len() <= 512);
    let object = r#"{"object":"payment_intent","id":"pi_1","amount":5,"currency":"usd"}"#;
    let object: &RawValue = serde_json::from_str(object).expect("JSON");
    let is_intent = matches!(
        thin.kind,
        EventType::IntentSucceeded | EventType::IntentFailed | EventType::IntentCanceled
    );
    match Event::read(&thin.with(object)) {
        Ok(event) => {
            assert!((event.id, event.kind, event.created) == (thin.id, thin.kind, thin.created));
        }
        Err(error) => assert!(!is_intent, "{error}"),
    }
}

fn payments_of(records: &[Record]) {
    let merged = |a: &Record, b: &Record| {
        let mut merged = a.clone();
        merged.merge(b.clone());
        merged
    };
    for record in records {
        outcome(None, record);
    }
    if let [a, b, ..] = records {
        let ab = merged(a, b);
        assert!(ab == merged(b, a) && merged(&ab, b) == ab && merged(a, a) == *a);
        outcome(Some(a), &ab);
        outcome(Some(b), &ab);
        let mut twice = postings(None, a);
        twice.extend(postings(Some(a), &ab));
        assert_eq!(sums(&twice), sums(&postings(None, &ab)));
        if let [_, _, c] = records {
            assert!(merged(&ab, c) == merged(a, &merged(b, c)));
        }
    }
}

/// What each account has of each currency.
fn sums(postings: &[Posting]) -> BTreeMap<String, i128> {
    let mut sums = BTreeMap::new();
    for posting in postings {
        let account = format!(
            "{} {} {}",
            posting.entry.into_str(),
            posting.account,
            posting.currency
        );
        *sums.entry(account).or_default() += i128::from(posting.minor);
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}

fn outcome(before: Option<&Record>, after: &Record) {
    assert!(after.received >= 0 && after.refunded() >= 0 && after.kept() >= 0);
    assert!(after.kept() <= after.received);
    let posted = postings(before, after);
    assert!(posted.iter().all(|it| it.minor != 0));
    let mut even: BTreeMap<_, i128> = BTreeMap::new();
    for posting in &posted {
        *even.entry((posting.entry, posting.currency)).or_default() += i128::from(posting.minor);
    }
    assert!(even.values().all(|sum| *sum == 0), "the books are not even");
    let by: i64 = changes(before, after)
        .iter()
        .map(|change| match change {
            Change::Refunded { by } => *by,
            Change::RefundFailed { by } => -*by,
            _ => 0,
        })
        .sum();
    assert_eq!(by, after.refunded() - before.map_or(0, Record::refunded));
    assert_eq!(changes(Some(after), after), []);
    assert_eq!(postings(Some(after), after), []);
    let written = serde_json::to_string(after).unwrap();
    assert!(domain::record::read(&written).as_ref() == Ok(after));
    let mut nobody = after.clone();
    nobody.forget_person();
    assert!(nobody.receipt_email.is_none() && nobody.state() == after.state());
}

fn sessions_of(records: &[checkout::Record]) {
    let merged = |a: &checkout::Record, b: &checkout::Record| {
        let mut merged = a.clone();
        merged.merge(b.clone());
        merged
    };
    for record in records {
        assert!(merged(record, record) == *record);
        assert!(
            record
                .price_change()
                .is_none_or(|page| page.discount > 0 || page.added > 0)
        );
        assert!(
            record
                .payment(None)
                .is_none_or(|linked| linked.left() >= 0 && linked.received >= 0)
        );
        assert_eq!(checkout::changes(Some(record), record), []);
    }
    if let [a, b, rest @ ..] = records {
        let ab = merged(a, b);
        assert!(ab == merged(b, a));
        if let [c] = rest {
            assert!(merged(&ab, c) == merged(a, &merged(b, c)));
        }
    }
}

fn subscriptions_of(records: &[subscription::Record]) {
    let merged = |a: &subscription::Record, b: &subscription::Record| {
        let mut merged = a.clone();
        merged.merge(b.clone());
        merged
    };
    for record in records {
        assert!(merged(record, record) == *record);
        assert_eq!(subscription::change(Some(record), record), None);
    }
    if let [a, b, ..] = records {
        let ab = merged(a, b);
        assert!(ab == merged(b, a) && merged(&ab, b) == ab && merged(&ab, a) == ab);
    }
}
