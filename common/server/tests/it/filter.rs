//! Which deliveries a filter selects.

use domain::time::Timestamp;
use server::deliveries::{Line, Outcome, fits};
use store::jobs::arrived::Filter;

fn line(topic: &str, outcome: Outcome) -> Line {
    Line {
        job: None,
        source: "storefront".to_owned(),
        topic: Some(topic.to_owned()),
        shop: Some("a.example".to_owned()),
        connection: None,
        object_id: None,
        delivery_id: None,
        status: 200,
        outcome,
        attempts: 0,
        deliveries: 1,
        received_at: Timestamp(0),
        finished_at: None,
        milliseconds: None,
        reason: None,
        signature: None,
        header: None,
        advice: None,
    }
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, topic, expected) in [
        ("", "orders/create", true),
        ("orders/*", "orders/create", true),
        ("orders/*", "customers/redact", false),
        ("*paid*", "orders/paid", true),
        ("orders/paid", "Orders/Paid", true),
        ("orders/paid", "orders/paid/x", false),
        ("*", "", true),
        ("o*s/*te", "orders/create", true),
        ("o*s/*tx", "orders/create", false),
        ("or*rs", "ors", false),
    ] {
        let filter = Filter {
            kind: pattern.to_owned(),
            ..Filter::default()
        };
        let line = line(topic, Outcome::Done);
        assert_eq!(fits(&filter, &line), expected, "{pattern} {topic}");
    }
}

#[test]
fn each_state_selects_its_outcomes_and_none_selects_all() {
    for (state, outcomes) in [
        ("ready", vec![Outcome::Waiting, Outcome::Retrying]),
        (
            "done",
            vec![
                Outcome::Done,
                Outcome::NotUnderstood,
                Outcome::Kept,
                Outcome::Discarded,
            ],
        ),
        ("dead", vec![Outcome::Dead]),
    ] {
        for outcome in [
            Outcome::Done,
            Outcome::NotUnderstood,
            Outcome::Kept,
            Outcome::Discarded,
            Outcome::Waiting,
            Outcome::Retrying,
            Outcome::Dead,
            Outcome::Refused,
        ] {
            let filter = Filter {
                state: state.to_owned(),
                shop: "A.example".to_owned(),
                ..Filter::default()
            };
            let line = line("orders/paid", outcome);
            assert_eq!(
                fits(&filter, &line),
                outcomes.contains(&outcome),
                "{state} {outcome:?}"
            );
            assert!(fits(&Filter::default(), &line));
        }
    }
}
