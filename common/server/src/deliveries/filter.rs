//! Which deliveries somebody wants to see, as the statement for their list decides it
//! (`store::jobs::arrived::page`).

use domain::connection::DEFAULT;
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
        && (filter.connection.is_empty()
            || filter.connection == line.connection.as_deref().unwrap_or(DEFAULT))
        && (filter.state.is_empty()
            || state(line.outcome).is_some_and(|state| filter.state == state.into_str()))
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
