//! A payment comes out the same in whatever sequence and however often its events come, and each
//! change of it is reported once.

mod ledger;
pub mod pool;

use std::collections::BTreeSet;

use domain::payment::EventType;
use domain::payment::outcome::{Change, changes};
use domain::payment::record::Record;
use proptest::prelude::*;

use self::pool::{EventFacts, every_history, life, merge, pool, recorded};

fn check(pool: &[(EventFacts, Record)], history: &[usize]) {
    let mut payment: Option<Record> = None;
    let mut reported = Vec::new();
    for index in history {
        let record = &pool[*index].1;
        let after = payment
            .as_ref()
            .map_or(record.clone(), |it| merge(it, record));
        reported.extend(changes(payment.as_ref(), &after));
        payment = Some(after);
    }
    let payment = payment.expect("a history has an event");
    let distinct: BTreeSet<usize> = history.iter().copied().collect();
    let mut others = distinct.iter().rev().map(|index| &pool[*index].1);
    let first = others.next().expect("an event").clone();
    let expected = others.fold(first, |all, record| merge(&all, record));
    assert_eq!(payment, expected, "{history:?} and {distinct:?} differ");

    let facts = || distinct.iter().map(|index| &pool[*index].0);
    let of = |kind: EventType| facts().filter(move |it| it.kind == kind);
    let times = |change: Change| reported.iter().filter(|it| **it == change).count();
    let succeeded = of(EventType::IntentSucceeded).count() > 0;
    let canceled = of(EventType::IntentCanceled).count() > 0;
    let failed = of(EventType::IntentFailed).count() > 0;
    let received = of(EventType::IntentSucceeded).map(|it| it.moved).max();
    let refunded = of(EventType::ChargeRefunded)
        .map(|it| it.moved)
        .max()
        .unwrap_or(0);
    assert_eq!(payment.received, received.unwrap_or(0));
    assert_eq!(payment.refunded(), refunded);

    assert_eq!(
        times(Change::Succeeded),
        usize::from(succeeded),
        "{history:?}"
    );
    let agreements = facts().filter(|it| it.agreement.is_some()).count();
    assert_eq!(
        times(Change::AgreementLinked),
        usize::from(agreements > 0),
        "{history:?}"
    );
    let by = |change: &Change| match change {
        Change::Refunded { by } => Some(*by),
        _ => None,
    };
    assert!(reported.iter().filter_map(by).all(|by| by > 0));
    let sum: i64 = reported.iter().filter_map(by).sum();
    assert_eq!(sum, refunded, "{history:?}");

    let paid = |it: &Change| *it == Change::Succeeded || by(it).is_some();
    let paid_at = reported.iter().position(paid).unwrap_or(reported.len());
    let canceled_at = reported.iter().position(|it| *it == Change::Canceled);
    assert!(times(Change::Canceled) <= usize::from(canceled));
    assert!(canceled_at.is_none_or(|at| at < paid_at), "{history:?}");
    let last = canceled_at.unwrap_or(reported.len()).min(paid_at);
    let failures = reported.iter().rposition(|it| *it == Change::Failed);
    assert!(failures.is_none_or(|at| at < last), "{history:?}");
    let attempts: BTreeSet<(Option<&str>, &str)> = of(EventType::IntentFailed)
        .map(|it| (it.charge, it.charge.map_or(it.id.as_str(), |_| "")))
        .collect();
    assert!(times(Change::Failed) <= attempts.len(), "{history:?}");

    let all = payment.is_refunded_in_full() || received.is_some_and(|it| it > 0 && it <= refunded);
    let state = match () {
        () if refunded > 0 && all => "refunded",
        () if refunded > 0 => "partially_refunded",
        () if succeeded => "succeeded",
        () if canceled => "canceled",
        () if failed => "requires_payment_method",
        () => "unknown",
    };
    assert_eq!(payment.state().as_str(), state, "{history:?}");
    if state == "canceled" {
        assert_eq!(times(Change::Canceled), 1, "{history:?}");
    }
    if state == "requires_payment_method" {
        assert!(times(Change::Failed) > 0, "{history:?}");
    }
}

#[test]
fn every_history_of_up_to_five_events_ends_as_its_facts_say() {
    let pool = recorded(life());
    let histories = every_history(pool.len(), 5, |history| check(&pool, history));
    assert_eq!(histories, 9 + 81 + 729 + 6561 + 59049);
}

#[test]
fn a_hundred_thousand_random_histories_end_as_their_facts_say() {
    let pool = recorded(pool());
    assert!(pool.len() > 100, "{} events", pool.len());
    let config = ProptestConfig {
        cases: 100_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let histories = proptest::collection::vec(0..pool.len(), 1..9);
    proptest!(config, |(history in histories)| check(&pool, &history));
}

#[test]
fn merging_is_commutative_associative_and_idempotent() {
    let pool = recorded(pool());
    for (_, a) in &pool {
        assert_eq!(merge(a, a), *a);
        for (_, b) in &pool {
            let ab = merge(a, b);
            assert_eq!(ab, merge(b, a));
            assert_eq!(merge(&ab, b), ab);
            for (_, c) in pool.iter().step_by(5) {
                assert_eq!(merge(&ab, c), merge(a, &merge(b, c)));
            }
        }
    }
}

#[test]
fn another_agreement_is_distinguished_from_the_first() {
    let pool = pool();
    let of = |agreement: &str| {
        let mut facts = pool
            .iter()
            .filter(|it| it.kind == EventType::IntentSucceeded);
        facts
            .find(|it| it.agreement == Some(agreement))
            .expect("one")
            .record()
    };
    let [p, q] = [of("P"), of("Q")];
    let both = merge(&p, &q);
    assert_eq!(
        changes(None, &p),
        [Change::Succeeded, Change::AgreementLinked]
    );
    let newer = both.pact_id.clone().expect("an agreement").value;
    let [older_first, newer_first] = if newer == "P" { [&q, &p] } else { [&p, &q] };
    assert_eq!(
        changes(Some(older_first), &both),
        [Change::AgreementChanged]
    );
    assert_eq!(changes(Some(newer_first), &both), []);
}
