//! The ledger of a payment balances after every event, and its sums are the same in whatever
//! sequence the events came.

use std::collections::{BTreeMap, BTreeSet};

use domain::payment::EventType;
use domain::payment::ledger::{Account, LedgerEntry, Posting, postings};
use domain::payment::record::Record;
use proptest::prelude::*;

use super::pool::{EventFacts, every_history, life, merge, pool, recorded};

type Books = BTreeMap<(String, String), i128>;

/// The balances by account and currency, without those that are zero.
fn balances<'a>(postings: impl IntoIterator<Item = &'a Posting>) -> Books {
    let mut books = Books::new();
    for posting in postings {
        let key = (posting.account.to_string(), posting.currency.to_string());
        *books.entry(key).or_default() += i128::from(posting.minor);
    }
    books.retain(|_, balance| *balance != 0);
    books
}

/// What the ledger must contain, computed from the facts of the events alone.
fn expected(facts: &[&EventFacts]) -> Books {
    let most = |kind: EventType| {
        let moved = facts.iter().filter(|it| it.kind == kind).map(|it| it.moved);
        i128::from(moved.max().unwrap_or(0))
    };
    let newest = |reported: fn(&EventFacts) -> Option<&'static str>| {
        let reported = facts
            .iter()
            .filter_map(|it| Some((it.created, &it.id, reported(it)?)));
        reported.max().map(|(_, _, reported)| reported)
    };
    // What the intent says counts before what a charge has copied from it.
    let linked = |reported: fn(&EventFacts) -> Option<&'static str>| {
        let reported = facts.iter().filter_map(|it| {
            let is_of_intent = it.kind != EventType::ChargeRefunded;
            Some((is_of_intent, it.created, &it.id, reported(it)?))
        });
        reported.max().map(|(_, _, _, reported)| reported)
    };
    let received = most(EventType::IntentSucceeded);
    let refunded = most(EventType::ChargeRefunded);
    let agreement =
        linked(|it| it.agreement).map_or("held".to_owned(), |it| format!("released:{it}"));
    let customer = linked(|it| it.customer);
    let customer = customer.map_or("credited".to_owned(), |it| format!("credited:{it}"));
    let currency = newest(|it| Some(it.currency)).expect("a currency");
    let mut books = Books::from([
        (("provider".to_owned(), currency.to_owned()), -received),
        ((agreement, currency.to_owned()), received - refunded),
        ((customer, currency.to_owned()), refunded),
    ]);
    books.retain(|_, balance| *balance != 0);
    books
}

/// Checks that the postings balance, for events that come one by one or several in one
/// transaction.
fn check(pool: &[(EventFacts, Record)], batches: &[&[usize]]) {
    let mut payment: Option<Record> = None;
    let mut posted = Vec::new();
    for batch in batches {
        let mut after = payment.clone();
        for index in *batch {
            let record = &pool[*index].1;
            after = Some(after.map_or(record.clone(), |it| merge(&it, record)));
        }
        let after = after.expect("a batch has an event");
        let step = postings(payment.as_ref(), &after);
        let mut sums: BTreeMap<_, i128> = BTreeMap::new();
        for posting in &step {
            assert_ne!(posting.minor, 0);
            *sums.entry((posting.entry, posting.currency)).or_default() +=
                i128::from(posting.minor);
        }
        assert!(sums.values().all(|sum| *sum == 0), "{batches:?}: {step:?}");
        if payment.as_ref() == Some(&after) {
            assert_eq!(step, [], "nothing is posted for nothing");
        }
        posted.extend(step);
        payment = Some(after);
    }
    let distinct: BTreeSet<usize> = batches.iter().copied().flatten().copied().collect();
    let facts: Vec<&EventFacts> = distinct.iter().map(|index| &pool[*index].0).collect();
    assert_eq!(balances(&posted), expected(&facts), "{batches:?}");
}

#[test]
fn every_history_of_up_to_five_events_balances_and_ends_as_its_facts_say() {
    let pool = recorded(life());
    every_history(pool.len(), 5, |history| {
        let single: Vec<&[usize]> = history.chunks(1).collect();
        check(&pool, &single);
    });
}

#[test]
fn a_hundred_thousand_random_histories_balance_and_end_as_their_facts_say() {
    let pool = recorded(pool());
    let config = ProptestConfig {
        cases: 100_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let histories = proptest::collection::vec(0..pool.len(), 1..9);
    proptest!(config, |(history in histories, at_once in 1_usize..4)| {
        let batches: Vec<&[usize]> = history.chunks(at_once).collect();
        check(&pool, &batches);
    });
}

/// The postings of a step as `entry account minor`.
fn lines(before: Option<&Record>, after: &Record) -> Vec<String> {
    let line = |it: Posting| format!("{} {} {}", it.entry.into_str(), it.account, it.minor);
    postings(before, after).into_iter().map(line).collect()
}

#[test]
fn what_is_captured_is_released_to_its_agreement_once() {
    let pool = recorded(life());
    let [without_agreement, with_agreement] = [&pool[4].1, &pool[5].1];
    let captured = ["captured provider -1000", "captured held 1000"];
    let released = ["released held -1000", "released released:P 1000"];
    assert_eq!(lines(None, without_agreement), captured);
    let linked = merge(without_agreement, with_agreement);
    assert_eq!(
        lines(Some(without_agreement), &linked),
        released,
        "known later"
    );
    assert_eq!(lines(None, with_agreement), [captured, released].concat());
    assert_eq!(lines(Some(with_agreement), &linked), [""; 0], "never again");
}

#[test]
fn a_refund_comes_out_of_where_the_money_is() {
    let pool = recorded(life());
    let [without_agreement, with_agreement, some, all] = [4, 5, 6, 8].map(|index| &pool[index].1);
    let from_held = ["refunded held -300", "refunded credited 300"];
    assert_eq!(lines(None, some), from_held, "before the capture is known");
    assert_eq!(
        lines(Some(without_agreement), &merge(without_agreement, some)),
        from_held
    );
    let refunded = merge(with_agreement, some);
    let from_agreement = ["refunded released:P -300", "refunded credited:C 300"];
    assert_eq!(lines(Some(with_agreement), &refunded), from_agreement);
    let the_rest = ["refunded released:P -700", "refunded credited:C 700"];
    assert_eq!(lines(Some(&refunded), &merge(&refunded, all)), the_rest);
}

#[test]
fn a_refund_moves_with_the_agreement_and_the_customer() {
    let pool = recorded(life());
    let [with_agreement, some] = [5, 6].map(|index| &pool[index].1);
    let moved = [
        "captured provider -1000",
        "captured held 1000",
        "released held -1000",
        "released released:P 1000",
        "refunded held 300",
        "refunded released:P -300",
        "refunded credited -300",
        "refunded credited:C 300",
    ];
    assert_eq!(lines(Some(some), &merge(some, with_agreement)), moved);
}

#[test]
fn accounts_and_entries_have_names() {
    let some = |text: &str| text.to_owned();
    let names = [
        Account::Provider,
        Account::Held,
        Account::Released(some("P")),
        Account::Credited(None),
        Account::Credited(Some(some("C"))),
    ];
    let names = names.map(|account| account.to_string());
    assert_eq!(
        names,
        ["provider", "held", "released:P", "credited", "credited:C"]
    );
    let entries = [
        LedgerEntry::Captured,
        LedgerEntry::Released,
        LedgerEntry::Refunded,
    ];
    assert_eq!(
        entries.map(|it| it.into_str()),
        ["captured", "released", "refunded"]
    );
}
