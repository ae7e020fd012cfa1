//! What follows from a payment's record: its state, and which changes lead from one record
//! to the next. Functions of the record alone, so they come out the same however it came
//! about.

use super::record::{Part, Record};
use super::status::Status;
use crate::order::settlement::Cycle;

/// How far a payment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Succeeded,
    PartiallyRefunded,
    Refunded,
    Canceled,
    /// The latest attempt failed; another may follow.
    RequiresPaymentMethod,
    /// As the provider says.
    Other(Status),
    Unknown,
}

impl State {
    pub fn as_str(&self) -> &str {
        match self {
            State::Succeeded => "succeeded",
            State::PartiallyRefunded => "partially_refunded",
            State::Refunded => "refunded",
            State::Canceled => "canceled",
            State::RequiresPaymentMethod => "requires_payment_method",
            State::Other(status) => status.as_str(),
            State::Unknown => "unknown",
        }
    }
}

impl Record {
    /// What was paid is paid, whatever else is known; what is canceled is not tried again.
    pub fn state(&self) -> State {
        let all = self.received > 0 && self.refunded >= self.received;
        if self.fully_refunded || all {
            State::Refunded
        } else if self.refunded > 0 {
            State::PartiallyRefunded
        } else if self.succeeded {
            State::Succeeded
        } else if self.canceled.is_some() {
            State::Canceled
        } else if self.failure.is_some() {
            State::RequiresPaymentMethod
        } else {
            let status = self.status.as_ref().map(|part| part.value.clone());
            status.map_or(State::Unknown, State::Other)
        }
    }

    /// Money came in, be it only known from what was given back of it.
    pub fn is_paid(&self) -> bool {
        self.succeeded || self.refunded > 0
    }

    pub fn pact(&self) -> Option<&str> {
        value(self.pact_id.as_ref())
    }

    /// Which fulfilment of the agreement is paid.
    pub fn cycle(&self) -> Cycle {
        Cycle::named(value(self.cycle.as_ref()))
    }

    /// What is left of what was captured, in minor units.
    pub fn kept(&self) -> i64 {
        if self.fully_refunded {
            return 0;
        }
        self.received.saturating_sub(self.refunded).max(0)
    }
}

/// What happened to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another attempt failed, and none succeeded yet.
    Failed,
    Canceled,
    Succeeded,
    /// The agreement that is paid became known.
    PactLinked,
    /// The agreement is another than was reported before.
    PactChanged,
    /// So many minor units more went back.
    Refunded {
        by: i64,
    },
}

/// The changes from one record of a payment to a later one, in the order in which they are
/// reported. `Succeeded`, `Canceled` and `PactLinked` come once in the life of a payment at the
/// most, `Failed` and `Canceled` never after money came in, and what was refunded adds up
/// to the record's `refunded`.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let known = |fact: fn(&Record) -> bool| before.is_some_and(fact);
    let mut changes = Vec::new();
    let failed = failed_since(before, after);
    if failed && !after.is_paid() && after.canceled.is_none() {
        changes.push(Change::Failed);
    }
    if after.canceled.is_some() && !after.is_paid() && !known(|before| before.canceled.is_some()) {
        changes.push(Change::Canceled);
    }
    if after.succeeded && !known(|before| before.succeeded) {
        changes.push(Change::Succeeded);
    }
    match (before.and_then(Record::pact), after.pact()) {
        (None, Some(_)) => changes.push(Change::PactLinked),
        (Some(was), Some(is)) if was != is => changes.push(Change::PactChanged),
        _ => {}
    }
    let by = after.refunded - before.map_or(0, |before| before.refunded);
    if by > 0 {
        changes.push(Change::Refunded { by });
    }
    changes
}

/// Two events of one attempt are one failure. An attempt that came to no charge is known by
/// its second and its codes.
fn failed_since(before: Option<&Record>, after: &Record) -> bool {
    let was = before.and_then(|before| before.failure.as_ref());
    let (Some(was), Some(is)) = (was, after.failure.as_ref()) else {
        return after.failure.is_some();
    };
    match (&was.value.charge, &is.value.charge) {
        (Some(was), Some(is)) => was != is,
        _ => (was.version.created, &was.value) != (is.version.created, &is.value),
    }
}

fn value(part: Option<&Part<String>>) -> Option<&str> {
    part.map(|part| part.value.as_str())
}
