//! The table of crash points is complete.

use std::collections::BTreeSet;

use platform::crash_point::POINTS;

use crate::both::faults::crash_points::table::{LEFT_OUT, READ_ONLY, TRANSACTIONS, transactions};

#[test]
fn every_transaction_and_every_commit_has_crash_points_and_a_test_that_ends_a_process_there() {
    let found: BTreeSet<String> = transactions().into_keys().collect();
    let crashed = TRANSACTIONS.iter().map(|(name, ..)| *name);
    let left_out = LEFT_OUT.iter().map(|(name, _)| *name);
    let listed: Vec<&str> = crashed.chain(left_out).collect();
    let known: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed.len(), known.len(), "each is listed once");
    let (new, gone) = (&found - &known, &known - &found);
    assert!(
        new.is_empty(),
        "these begin transactions, and are not in the table: {new:#?}"
    );
    assert!(gone.is_empty(), "these begin none any more: {gone:#?}");
    for name in READ_ONLY {
        assert!(known.contains(*name), "{name}");
    }
    let names: BTreeSet<&str> = POINTS.iter().map(|(_, name, _)| *name).collect();
    assert_eq!(
        names.len(),
        POINTS.len(),
        "each point has a name of its own"
    );
}
