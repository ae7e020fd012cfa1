//! Tests of what is private in `src/findings.rs`.

use std::time::Duration;

use domain::time::Timestamp;
use store::sql::Oldest;

use super::{Level, transaction};

#[test]
fn a_transaction_is_worth_a_warning_when_it_is_old_by_time_or_by_what_came_since() {
    let of = |age: Option<u64>, transactions| Oldest {
        process: Some(4711),
        whose: "role reports, idle in transaction".into(),
        age: age.map(Duration::from_secs),
        transactions,
    };
    for (age, transactions, level) in [
        (Some(10), 50, Level::Ok),
        (Some(299), 99_999, Level::Ok),
        (Some(1200), 50, Level::Warning),
        (Some(10), 100_000, Level::Warning),
        (None, 50, Level::Ok),
        (None, 100_000, Level::Warning),
    ] {
        let finding = transaction(&of(age, transactions), Timestamp(1_800_000_000_000));
        assert_eq!(finding.level, level, "{finding:?}");
        assert_eq!(
            finding.found.contains("ago, 50"),
            age.is_some() && transactions == 50
        );
        if level == Level::Warning {
            assert!(
                finding
                    .advice
                    .unwrap()
                    .contains("pg_terminate_backend(4711)")
            );
        }
    }
}
