//! Which deliveries somebody wants to see, as the statement for their list decides it
//! (`store::jobs::arrived::page`).

use domain::job::State;
use store::jobs::arrived::Filter;

use super::{Line, Outcome};

/// Whether a line is about a delivery that the filter selects. What was refused has no job and so no state:
/// only a filter without one selects it.
pub fn fits(filter: &Filter, line: &Line) -> bool {
    let given = |text: &Option<String>| text.as_deref().unwrap_or_default().to_ascii_lowercase();
    (filter.source.is_empty() || filter.source == line.source)
        && (filter.kind.is_empty()
            || is_like(&filter.kind.to_ascii_lowercase(), &given(&line.topic)))
        && (filter.shop.is_empty() || filter.shop.eq_ignore_ascii_case(&given(&line.shop)))
        && (filter.state.is_empty()
            || state(line.outcome).is_some_and(|state| filter.state == state.as_str()))
}

fn state(outcome: Outcome) -> Option<State> {
    match outcome {
        Outcome::Done | Outcome::NotUnderstood | Outcome::Kept | Outcome::Discarded => {
            Some(State::Done)
        }
        Outcome::Waiting | Outcome::Retrying => Some(State::Ready),
        Outcome::Dead => Some(State::Dead),
        Outcome::Refused => None,
    }
}

/// Whether a topic fits a pattern in which `*` stands for any text. Each part is looked for once, so a
/// pattern costs no more than its length, whoever made it.
fn is_like(pattern: &str, topic: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else {
        return pattern == topic;
    };
    let Some(mut rest) = topic.strip_prefix(first) else {
        return false;
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    fn line(topic: &str, outcome: Outcome) -> Line {
        Line {
            job: None,
            source: "storefront".to_owned(),
            topic: Some(topic.to_owned()),
            shop: Some("a.example".to_owned()),
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
}
