//! What orders say of a customer comes to the same in whatever sequence and however often they come.

use std::collections::BTreeSet;

use domain::customer::{Record, Stated};
use domain::order::Customer;
use domain::record::{Forget as _, read};

use crate::payment_history::pool::every_history;

fn customer(email: Option<&str>, first_name: Option<&str>) -> Customer {
    Customer {
        id: Some(77),
        email: email.map(ToOwned::to_owned),
        phone: None,
        first_name: first_name.map(ToOwned::to_owned),
        last_name: Some("Byron".to_owned()),
    }
}

#[test]
fn each_field_is_what_the_newest_order_says_that_has_it() {
    let pool = [
        (1, Some("a@x.example"), Some("Ada")),
        (2, None, Some("Augusta")),
        (3, Some("b@x.example"), None),
        (3, Some("c@x.example"), None),
        (0, None, None),
    ];
    let records = pool.map(|(at, email, first_name)| Record::of(&customer(email, first_name), at));
    every_history(pool.len(), 4, |history| {
        let mut known = Record::default();
        for index in history {
            known.merge(records[*index].clone());
        }
        let seen: BTreeSet<usize> = history.iter().copied().collect();
        let email = [3, 2, 0].into_iter().find(|index| seen.contains(index));
        let email = email.and_then(|index| pool[index].1);
        assert_eq!(known.email(), email, "{history:?}");
        let name = [1, 0].into_iter().find(|index| seen.contains(index));
        let name = name.and_then(|index| pool[index].2);
        let known_name = known.first_name.as_ref().map(|it| it.value.as_str());
        assert_eq!(known_name, name, "{history:?}");
        assert_eq!(known.phone(), None);
        let last_at = known.last_name.as_ref().map(|it| it.at);
        assert_eq!(last_at, seen.iter().map(|index| pool[*index].0).max());
        let written = serde_json::to_string(&known).expect("a record");
        assert!(read(&written) == Ok(known), "{written}");
    });
}

#[test]
fn nothing_personal_is_left_of_a_customer_who_is_forgotten() {
    let canary = || {
        let value = "canary".to_owned();
        Some(Stated { at: 1, value })
    };
    let mut record = Record {
        email: canary(),
        phone: canary(),
        first_name: canary(),
        last_name: canary(),
        ..Record::default()
    };
    record.forget_person();
    let left = serde_json::to_string(&record).expect("a record");
    assert_eq!(left, r#"{"schema":1}"#);
}
