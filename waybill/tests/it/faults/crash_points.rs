//! The table of crash points is complete.

use std::collections::BTreeSet;

use platform::crash_point::POINTS;

use crate::both::faults::crash_points::table::{
    LEFT_OUT, On, TRANSACTIONS, WITHOUT_WRITE, transactions,
};

#[test]
fn every_transaction_and_every_commit_has_crash_points_and_a_test_that_ends_a_process_there() {
    let found: BTreeSet<String> = transactions().into_keys().collect();
    let listed = |half: On| {
        let crashed = TRANSACTIONS
            .iter()
            .filter(move |(.., on)| [On::Both, half].contains(on));
        let crashed = crashed.map(|(name, ..)| *name);
        crashed.chain(LEFT_OUT.iter().map(|(name, _)| *name))
    };
    for half in [On::Embedded, On::Distributed] {
        let names: BTreeSet<&str> = listed(half).collect();
        assert_eq!(listed(half).count(), names.len(), "each is listed once");
    }
    let known: BTreeSet<String> = [On::Embedded, On::Distributed]
        .into_iter()
        .flat_map(listed)
        .map(ToOwned::to_owned)
        .collect();
    let (new, gone) = (&found - &known, &known - &found);
    assert!(
        new.is_empty(),
        "these begin transactions, and are not in the table: {new:#?}"
    );
    assert!(gone.is_empty(), "these begin none any more: {gone:#?}");
    for name in WITHOUT_WRITE {
        assert!(known.contains(*name), "{name}");
    }
    let names: BTreeSet<&str> = POINTS.iter().map(|(_, name, _)| *name).collect();
    assert_eq!(
        names.len(),
        POINTS.len(),
        "each point has a name of its own"
    );
}
