//! What needs a person: the one table of conditions ([`Condition::row`]), and when each begins and is over
//! ([`next`]). The workers look at them and notify operators, docs/alerts.yml and the table of
//! docs/observability.md are generated from the same rows, and the console and the commands show them.

mod table;

use std::time::Duration;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::names::{Unknown, unlisted};
use crate::time::Timestamp;

pub use self::table::{Condition, Row, Rule};

/// A condition is over when it was not seen for so long, so one that comes and goes is reported once.
pub const CALM: Duration = Duration::from_mins(10);
/// It is noted that often that a condition is still seen.
const NOTED: Duration = Duration::from_mins(1);
/// A time that is further in the future was written by a wrong clock, or ours was set back.
const AHEAD: Duration = Duration::from_mins(1);

/// How soon somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Severity {
    /// It wakes somebody.
    Page,
    /// It waits for the morning.
    Ticket,
}

/// How far a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<State>)]
pub enum State {
    /// It is seen, not yet for long enough.
    Seen,
    Begun,
    /// It is over, and the mail that says so is not sent.
    Over,
}

/// A condition that holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub condition: Condition,
    /// Which queue, source, endpoint, .. it is about: a word of ours or an id. Empty for those that are about no one
    /// thing.
    pub about: String,
    /// Numbers and times that say more; no personal data.
    pub details: String,
}

/// What is kept of a condition between two looks.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub condition: Condition,
    pub state: State,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// When it was seen last.
    pub seen_at: Timestamp,
    /// Whether a mail has said, or an operator has acknowledged, that it has begun.
    pub is_notified: bool,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    To(State),
    /// It is still seen.
    Note,
    /// Nothing of it is to be kept.
    Forget,
}

/// What follows for a condition that is seen or not. `is_mailed` says whether anybody gets mails.
pub fn next(kept: &Kept, is_seen: bool, is_mailed: bool, now: Timestamp) -> Option<Step> {
    let passed =
        |since: Timestamp, length: Duration| now >= since.plus(length) || since > now.plus(AHEAD);
    match (kept.state, is_seen) {
        (State::Seen, true) => {
            let begins = passed(kept.since, kept.condition.row().after);
            begins.then_some(Step::To(State::Begun))
        }
        (State::Begun, true) => passed(kept.seen_at, NOTED).then_some(Step::Note),
        (State::Begun, false) if !passed(kept.seen_at, CALM) => None,
        // Nobody hears of the end who did not hear of the begin.
        (State::Begun, false) if kept.is_notified && is_mailed => Some(Step::To(State::Over)),
        (State::Seen | State::Begun, false) => Some(Step::Forget),
        (State::Over, true) => Some(Step::To(State::Begun)),
        (State::Over, false) => (!is_mailed).then_some(Step::Forget),
    }
}

/// The state of a condition that is seen for the first time.
pub fn first(condition: Condition) -> State {
    if condition.row().after.is_zero() {
        State::Begun
    } else {
        State::Seen
    }
}
